//! Opens the driver of a subject.

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
