//! The window in force: its number is that of the newest checkpoint that says one, and without any
//! the number of checkpoints.

use super::Need;
use super::scan::{Opened, Standing};
use crate::profile::Profile;
use crate::session::Window;

/// What the checkpoints say, from the newest on.
#[derive(Debug, Default)]
pub(super) struct Windows {
    opened: u64,
    number: Option<u64>,
    /// Id of the window, and of the one before.
    id: Option<(String, Option<String>)>,
}

impl Windows {
    pub(super) fn take(&mut self, opened: &Opened, standing: Standing, profile: &Profile) {
        if !standing.survives && profile.skips_rolled_back_checkpoints {
            return;
        }
        self.opened += 1;
        self.number = self.number.or(opened.number);
        if let (None, Some(id)) = (&self.id, &opened.id) {
            self.id = Some((id.clone(), opened.previous.clone()));
        }
    }

    pub(super) fn needs(&self) -> Option<Need> {
        let known = self.number.is_some() && self.id.is_some();
        (!known).then_some(Need::Window)
    }

    /// The window of a thread that began with this one.
    pub(super) fn window(self, first: &str) -> Window {
        let (id, previous) = self.id.unwrap_or_else(|| (first.to_owned(), None));
        Window {
            number: self.number.unwrap_or(self.opened),
            id,
            first: first.to_owned(),
            previous,
        }
    }
}
