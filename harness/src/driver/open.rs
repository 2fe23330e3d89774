//! Opens the driver of a subject, and says what a golden has to know of a real binary.

use super::{Driver, NoVerdict};
use crate::scenario::plan::Plan;

/// Opens a subject. `plans` are all plans it will be asked to run: older real versions read one
/// model catalogue per process, so it has to hold every model.
pub fn open(subject: &str, plans: &[&Plan]) -> Result<Box<dyn Driver>, NoVerdict> {
    let plans = plans.len();
    Err(NoVerdict::CouldNotRun(format!(
        "no driver for {subject} is linked in ({plans} plans)"
    )))
}

/// SHA-256 of a subject's binary; `None` for an engine.
pub fn binary_sha256(_subject: &str) -> Option<String> {
    None
}

/// Names of real texts that are left in a text about to be stored.
pub fn remnants(_text: &str) -> Vec<String> {
    Vec::new()
}
