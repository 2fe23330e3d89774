//! A scripted Responses provider: it answers requests from a queue and keeps what it received.
//!
//! [`script`] is a pure state machine (request in, reply out). Three adapters stand over it:
//! [`http`] for whole-body replies, [`live`] for streams that wait at a gate, stall or are cut, and
//! [`memory`] without a socket. Nothing is invented: a request with no reply gets a 500 that says
//! so and leaves a [`script::Problem`]. This crate knows neither the engine nor the harness.

pub mod case;
pub mod http;
pub mod journal;
pub mod live;
pub mod memory;
mod reach;
pub mod script;
pub mod sse;
mod websocket;
