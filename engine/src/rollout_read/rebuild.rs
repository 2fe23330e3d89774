//! The history of a rollout: a checkpoint, and the records behind it replayed in file order.

use serde_json::json;

use super::records::{Checkpoint, Record};
use super::rollback;
use crate::compaction::replacement::kept_user_texts;
use crate::history::{History, admit};
use crate::images;
use crate::items::{self, Item};
use crate::planted::Planted;
use crate::profile::Profile;
use crate::settings::Truncation;

/// Stands for the summary of a checkpoint that has none.
const NO_SUMMARY: &str = "(no summary available)";

/// A history that is put together again.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Rebuilt {
    pub(super) history: History,
    /// A checkpoint without a replacement was among the records.
    pub(super) summarised_anew: bool,
    /// No token count follows the newest checkpoint.
    pub(super) uncounted: bool,
}

impl Rebuilt {
    /// Replays the next record.
    pub(super) fn take(&mut self, record: Record<'_>, policy: Truncation, profile: &Profile) {
        match record {
            Record::Item(item) => {
                let mut item = *item;
                admit(&mut item, policy, profile);
                self.history.push(item);
            }
            Record::Checkpoint(checkpoint) => self.install(checkpoint, profile),
            Record::RolledBack(turns) => rollback::cut(&mut self.history, turns, profile),
            Record::Event(event) if event["type"] == "token_count" => {
                if event["info"].is_object() {
                    self.history.mark_covered();
                    self.uncounted = false;
                }
            }
            Record::Meta(_)
            | Record::WorldState { .. }
            | Record::TurnContext(_)
            | Record::Usage(_)
            | Record::TurnStarted(_)
            | Record::TurnEnded(_)
            | Record::Event(_)
            | Record::Other => {}
        }
    }

    fn install(&mut self, checkpoint: Checkpoint<'_>, profile: &Profile) {
        let mut kept = if let Some(mut kept) = checkpoint.replacement {
            for item in &mut kept {
                images::prepare(item);
            }
            kept
        } else {
            self.summarised_anew = true;
            let mut kept: Vec<Item> = kept_user_texts(self.history.items(), profile);
            let text = match checkpoint.message {
                "" => NO_SUMMARY,
                message => message,
            };
            let part = json!({"type": "input_text", "text": text});
            kept.push(items::message("user", None, vec![part]));
            kept
        };
        if profile.plants(Planted::CheckpointAdded) {
            kept.splice(0..0, self.history.items().iter().cloned());
        }
        self.history = History::new(kept);
        self.uncounted = true;
    }
}
