//! Reads a thread from its end until everything is known that a resume needs.
//!
//! Records stand in segments. A segment is a turn and what follows it up to the start of the next
//! one; it is found from its end: the newest record that names a turn says whose segment it is, and
//! the start of another turn does not end it. A rollback of n takes back segments, beginning with
//! the one that its marker stands in, until n of them held a message of the user; those without one
//! go along (history.md §4). So what became of a record is known when the start of its segment is
//! reached, and until then the few that matter wait.
//!
//! What is kept of the records is small: items are not among it. Where the history begins to be
//! replayed is found here, the replay itself reads forward (`rebuild.rs`).

use serde_json::{Map, Value};

use super::baseline::Told;
use super::counted::Counted;
use super::parts::Place;
use super::records::{Checkpoint, Record};
use super::rollback;
use super::{Need, windows::Windows};
use crate::profile::Profile;
use crate::settings::Permissions;

/// What became of the records of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// No rollback took the segment back.
    pub(super) survives: bool,
    /// It holds a message of the user, or another boundary of turns.
    pub(super) by_user: bool,
    /// It holds a checkpoint.
    pub(super) compacted: bool,
    /// Its number, the newest is 0.
    pub(super) segment: usize,
}

/// A record that waits for the start of its segment.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Waiting {
    /// `compacted`
    Checkpoint(Opened),
    /// `turn_context`
    TurnContext {
        /// It names the turn of its segment, or none.
        fits: bool,
        model: String,
        permissions: Permissions,
    },
    /// `world_state`
    WorldState {
        full: bool,
        state: Map<String, Value>,
    },
}

/// The window that a checkpoint opened.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Opened {
    /// It says what the history was replaced with.
    pub(super) replaces: bool,
    pub(super) number: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) previous: Option<String>,
    attributed: Option<String>,
}

impl Opened {
    fn of(checkpoint: &Checkpoint<'_>) -> Self {
        Self {
            replaces: checkpoint.replacement.is_some(),
            number: checkpoint.window_number,
            id: checkpoint.window_id.map(str::to_owned),
            previous: checkpoint.previous_window_id.map(str::to_owned),
            attributed: checkpoint.attributed_turn.map(str::to_owned),
        }
    }
}

/// The segment that is being read, from its end.
#[derive(Debug, Default)]
struct Open {
    turn: Option<String>,
    by_user: bool,
    compacted: bool,
}

impl Open {
    /// Whether a turn is the one of this segment; a segment that has none takes it.
    fn fits(&mut self, turn: Option<&str>) -> bool {
        match (&self.turn, turn) {
            (Some(own), Some(named)) => own == named,
            (None, Some(named)) => {
                self.turn = Some(named.to_owned());
                true
            }
            (Some(_) | None, None) => true,
        }
    }
}

/// Where a replay begins.
///
/// 0.144 passes over checkpoints that were rolled back, and still replays nothing before the oldest
/// that it came by: behind such a checkpoint the thread has lost its history (history.md §4). One
/// that it passed over replaces the history all the same where an older one is replayed.
#[derive(Debug, Default)]
pub(super) struct Start {
    /// The newest checkpoint with a replacement.
    newest: Option<Place>,
    /// The one behind which records count.
    behind: Option<Place>,
    /// Segment of the one that was come by last: of one turn the newest counts.
    seen: Option<usize>,
    /// The newest checkpoint without a replacement that is older than `newest`.
    summary_before: Option<Place>,
    /// A checkpoint is installed: nothing before it matters to the history.
    pub(super) installed: bool,
}

impl Start {
    fn take(&mut self, place: Place, opened: &Opened, standing: Standing, profile: &Profile) {
        if self.installed {
            return;
        }
        if !opened.replaces {
            if self.newest.is_some() && self.summary_before.is_none() {
                self.summary_before = Some(place);
            }
            return;
        }
        self.newest = self.newest.or(Some(place));
        if self.seen.replace(standing.segment) != Some(standing.segment) {
            self.behind = Some(place);
        }
        self.installed = standing.survives || !profile.skips_rolled_back_checkpoints;
    }

    /// The first record that is replayed, and whether it is left out itself.
    pub(super) fn replay(&self) -> (Place, bool) {
        match (self.newest, self.behind) {
            (Some(newest), Some(behind)) => (newest, !self.installed && behind == newest),
            _ => (Place::default(), false),
        }
    }

    /// A checkpoint without a replacement is among the records that count, although what it made
    /// of the history was replaced by a newer one.
    pub(super) fn summarised_before(&self) -> bool {
        self.behind != self.newest && self.summary_before > self.behind
    }

    /// Whether older records may not matter to the history.
    pub(super) fn may_suffice(&self) -> bool {
        self.installed
    }

    /// What a history is missing that is replayed from the first record on, or from behind
    /// checkpoints that do not count.
    pub(super) fn need(&self) -> Option<Need> {
        let passed_over = self.newest.is_some();
        (!self.installed).then_some(if passed_over {
            Need::RolledBackCheckpoint
        } else {
            Need::Checkpoint
        })
    }
}

/// The state of the reading.
pub(super) struct Scan<'p> {
    profile: &'p Profile,
    open: Option<Open>,
    waiting: Vec<(Place, Waiting)>,
    rolled_back: u64,
    segment: usize,
    pub(super) start: Start,
    /// Newest turn that the user began; a checkpoint repeats it.
    pub(super) attributed: Option<String>,
    pub(super) told: Told,
    pub(super) windows: Windows,
    pub(super) counted: Counted,
}

impl<'p> Scan<'p> {
    pub(super) fn new(profile: &'p Profile) -> Self {
        Self {
            profile,
            open: None,
            waiting: Vec::new(),
            rolled_back: 0,
            segment: 0,
            start: Start::default(),
            attributed: None,
            told: Told::default(),
            windows: Windows::default(),
            counted: Counted::new(profile),
        }
    }

    /// Takes the next older record; true if a segment ends with it. The first record of a thread
    /// ends the last one.
    pub(super) fn take(&mut self, place: Place, record: &Record<'_>, is_first: bool) -> bool {
        self.counted.take(record);
        let mut begins = is_first;
        match record {
            Record::RolledBack(turns) => {
                self.rolled_back = self.rolled_back.saturating_add(*turns);
            }
            Record::TurnStarted(turn) => {
                begins |= self.open.as_mut().is_some_and(|open| open.fits(*turn));
            }
            Record::TurnEnded(turn) => {
                self.open.get_or_insert_default().fits(*turn);
            }
            Record::TurnContext(context) => {
                let fits = self.open.get_or_insert_default().fits(context.turn);
                let waiting = Waiting::TurnContext {
                    fits,
                    model: context.model.to_owned(),
                    permissions: context.permissions.clone(),
                };
                self.waiting.push((place, waiting));
            }
            Record::Item(item) => {
                let boundary = rollback::is_boundary(item, self.profile);
                self.open.get_or_insert_default().by_user |= boundary;
            }
            Record::Checkpoint(checkpoint) => {
                self.open.get_or_insert_default().compacted = true;
                let opened = Waiting::Checkpoint(Opened::of(checkpoint));
                self.waiting.push((place, opened));
            }
            Record::WorldState { full, state } => {
                self.open.get_or_insert_default();
                if self.told.wants_state() {
                    let waiting = Waiting::WorldState {
                        full: *full,
                        state: (*state).clone(),
                    };
                    self.waiting.push((place, waiting));
                }
            }
            Record::Meta(_) | Record::Usage(_) | Record::Event(_) | Record::Other => {}
        }
        if begins {
            self.close();
        }
        begins
    }

    /// The start of a segment is reached.
    fn close(&mut self) {
        let open = self.open.take().unwrap_or_default();
        let standing = Standing {
            survives: self.rolled_back == 0,
            by_user: open.by_user,
            compacted: open.compacted,
            segment: self.segment,
        };
        for (place, waiting) in std::mem::take(&mut self.waiting) {
            self.told.take(&waiting, standing, self.profile);
            if let Waiting::Checkpoint(opened) = &waiting {
                self.windows.take(opened, standing, self.profile);
                self.start.take(place, opened, standing, self.profile);
                if standing.survives && !standing.by_user && self.attributed.is_none() {
                    self.attributed.clone_from(&opened.attributed);
                }
                if self.start.installed {
                    self.told.installed();
                }
            }
        }
        if standing.survives && open.by_user && self.attributed.is_none() {
            self.attributed = open.turn;
        }
        if open.by_user {
            self.rolled_back = self.rolled_back.saturating_sub(1);
        }
        self.segment += 1;
    }

    /// What older records have to be asked for beside the history.
    pub(super) fn needs(&self) -> Vec<Need> {
        let mut needs = self.told.needs();
        needs.extend(self.windows.needs());
        needs.extend(self.counted.needs());
        needs
    }
}
