//! The turn and compaction engine: history, context, sampling loop, compaction and rollout.
//!
//! One [`session::Session`] is one thread. It has no socket, file, clock, environment or
//! randomness of its own: it asks its [`ports`]. What differs between versions stands in
//! [`profile`]; nothing else asks for a version. The way of one turn:
//!
//! ```text
//! Session::run_turn (turn.rs)
//!   ├─ compaction::pre_turn?          total usage ≥ limit, before the new text is recorded
//!   ├─ context::record                full initial context or changed fragments (context.rs)
//!   ├─ loop: History::for_prompt (history.rs) → request::build (request.rs) → Sampler port
//!   │        events → items (items.rs) → Tools port → outputs in call order
//!   │        over the limit and follow-up needed → compaction::mid_turn
//!   └─ rollout records (rollout.rs) and client events (events.rs) as they happen
//! ```

mod announce;
mod answers;
mod calls;
pub mod change;
pub mod client_context;
pub mod compaction;
mod completed;
pub mod context;
mod context_diff;
pub mod contextual;
pub mod error;
pub mod events;
pub mod history;
pub mod hooks;
pub mod images;
pub mod items;
mod permissions;
mod plan_limit;
pub mod planted;
pub mod ports;
pub mod profile;
mod rate_limits;
pub mod recorder;
pub mod request;
pub mod rollout;
pub mod rollout_read;
pub mod session;
pub mod session_budget;
pub mod settings;
mod shape;
mod steers;
pub mod texts;
pub mod token_budget;
pub mod tokens;
mod tools;
mod transport;
pub mod truncate;
pub mod turn;
mod websocket;
