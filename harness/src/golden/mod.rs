//! Goldens: blessed, masked recordings of the real binary. The only place that writes `golden/`.
//!
//! `Masked` → [`render::document`] (lifted, folded against the [`envelope`]) → [`render::print`] →
//! `store` (a file with insta's header) along the version [`chain`]; back again and
//! [`compare`]d item by item.

pub mod bless;
pub mod chain;
pub mod compare;
pub mod deviations;
pub mod diff;
pub mod envelope;
pub mod fold;
pub mod gate;
mod handshake;
mod itemids;
pub mod orphans;
pub mod render;
pub mod review;
pub mod rollout;
pub mod scan;
pub mod store;
pub mod unmodelled;
pub mod versions;
pub mod violations_doc;
pub mod wire;

#[cfg(test)]
mod tests;
