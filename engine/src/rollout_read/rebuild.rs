//! The history of a rollout: a checkpoint, and the records behind it replayed in file order.

use serde_json::json;

use super::records::{Checkpoint, Record};
use super::rollback;
use super::segments::Standing;
use crate::compaction::replacement::kept_user_texts;
use crate::history::{History, admit};
use crate::images;
use crate::items::{self, Item};
use crate::planted::Planted;
use crate::profile::Profile;
use crate::settings::Truncation;

/// Stands for the summary of a checkpoint that has none.
const NO_SUMMARY: &str = "(no summary available)";

/// Where a replay begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    /// The checkpoint that is installed.
    pub(super) installed: Option<usize>,
    /// First record that is replayed.
    from: usize,
}

impl Start {
    /// Looks for the newest checkpoint with a replacement.
    ///
    /// 0.144 passes over those that were rolled back, and still replays nothing before the oldest
    /// that it came by: behind such a checkpoint the thread has lost its history (history.md §4).
    pub(super) fn of(records: &[Record<'_>], standings: &[Standing], profile: &Profile) -> Self {
        let mut start = Self {
            installed: None,
            from: 0,
        };
        let mut seen = None;
        for (index, record) in records.iter().enumerate().rev() {
            if !matches!(record, Record::Checkpoint(found) if found.replacement.is_some()) {
                continue;
            }
            let standing = standings[index];
            // Of the checkpoints of one turn the newest counts.
            if seen.replace(standing.segment) != Some(standing.segment) {
                start.from = index + 1;
            }
            if standing.survives || !profile.skips_rolled_back_checkpoints {
                start.installed = Some(index);
                break;
            }
        }
        start
    }
}

/// A history that was put together again.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rebuilt {
    pub(super) history: History,
    /// A checkpoint without a replacement was among the records.
    pub(super) summarised_anew: bool,
    /// No token count follows the newest checkpoint.
    pub(super) uncounted: bool,
}

/// Replays the records.
pub(super) fn replay(
    records: &[Record<'_>],
    start: Start,
    policy: Truncation,
    profile: &Profile,
) -> Rebuilt {
    let mut rebuilt = Rebuilt {
        history: History::default(),
        summarised_anew: false,
        uncounted: false,
    };
    let adds = profile.plants(Planted::CheckpointAdded);
    let installed = start.installed.filter(|_| !adds);
    let installed = installed.map(|index| &records[index]);
    let mut from = start.from;
    if installed.is_some() && profile.plants(Planted::SuffixForgotten) {
        from = records.len();
    } else if adds {
        from = 0;
    }
    for record in installed.into_iter().chain(&records[from..]) {
        match record {
            Record::Item(item) => {
                let mut item = Item::clone(item);
                admit(&mut item, policy, profile);
                rebuilt.history.push(item);
            }
            Record::Checkpoint(checkpoint) => rebuilt.install(checkpoint, profile),
            Record::RolledBack(turns) => rollback::cut(&mut rebuilt.history, *turns, profile),
            Record::Event(event) if event["type"] == "token_count" => {
                if event["info"].is_object() {
                    rebuilt.history.mark_covered();
                    rebuilt.uncounted = false;
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
    rebuilt
}

impl Rebuilt {
    fn install(&mut self, checkpoint: &Checkpoint<'_>, profile: &Profile) {
        let mut kept = if let Some(replacement) = &checkpoint.replacement {
            let mut kept = replacement.clone();
            for item in &mut kept {
                images::prepare(item);
            }
            kept
        } else {
            self.summarised_anew = true;
            let mut kept = kept_user_texts(self.history.items(), profile);
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
