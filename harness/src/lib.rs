//! Turnproof's harness: scenarios × subjects → recordings → masks → goldens.

pub mod driver;
pub mod recording;
pub mod scenario;
pub mod texts;
