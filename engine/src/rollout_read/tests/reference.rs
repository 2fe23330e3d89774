//! The same reading of all records at once, which is easier to see through: what the reading from
//! the end is held against.

use serde_json::{Map, Value};

use super::super::Found;
use super::super::baseline::merge;
use super::super::counted::usage;
use super::super::rebuild::Rebuilt;
use super::super::records::{Record, TurnContext};
use super::super::rollback;
use crate::profile::Profile;
use crate::rollout::TokenInfo;
use crate::session::{Baseline, Window};
use crate::settings::Truncation;

/// What all records together say, laid over what was read: settings and retained texts have tests
/// of their own.
pub(super) fn read(lines: &[Value], read: &Found, profile: &Profile, policy: Truncation) -> Found {
    let records: Vec<Record<'_>> = lines
        .iter()
        .filter_map(|line| Record::of(line, profile))
        .collect();
    let mut found = read.clone();
    let standings = standings(&records, profile);
    let start = Start::of(&records, &standings, profile);
    let mut rebuilt = Rebuilt::default();
    let installed = start.installed.map(|index| &records[index]);
    for record in installed.into_iter().chain(&records[start.from..]) {
        rebuilt.take(record.clone(), policy, profile);
    }
    let behind = start.installed.map_or(0, |index| index + 1);
    found.history = rebuilt.history;
    found.uncounted = rebuilt.uncounted;
    found.baseline = None;
    if !rebuilt.summarised_anew {
        found.baseline = baseline(&records, &standings, behind, profile);
    }
    found.model = model(&records, &standings, profile).map(str::to_owned);
    found.window = Window {
        number: 0,
        id: found.first_window.clone(),
        first: found.first_window.clone(),
        previous: None,
    };
    windows(&mut found.window, &records, &standings, profile);
    said(&mut found, &records, profile);
    found.told_model = found.announced_model().or(found.model.clone());
    found
}

/// What is counted, in the order of the file.
fn said(found: &mut Found, records: &[Record<'_>], profile: &Profile) {
    found.info = None;
    found.effort = None;
    found.counters.history = 0;
    found.counters.order = 0;
    for record in records {
        match record {
            Record::Item(item) => {
                found.counters.history = item.meta.history_sequence.max(found.counters.history + 1);
                let next = item.meta.user_input_order.map_or(0, |order| order + 1);
                found.counters.order = found.counters.order.max(next);
            }
            Record::Checkpoint(checkpoint) => {
                let kept = checkpoint.replacement.iter().flatten();
                let newest = kept.map(|item| item.meta.history_sequence).max();
                found.counters.history = found.counters.history.max(newest.unwrap_or(0));
                let next = checkpoint
                    .retained_context
                    .map(|it| it["next_order"].as_u64());
                let next = next.flatten().unwrap_or(0);
                found.counters.order = found.counters.order.max(next);
            }
            Record::TurnContext(context) => found.effort = context.effort.map(str::to_owned),
            Record::Usage(payload) => found.thread_usage = usage(&payload["thread_token_usage"]),
            Record::Event(event) if event["type"] == "token_count" && event["info"].is_object() => {
                let info = &event["info"];
                found.info = Some(TokenInfo {
                    total: usage(&info["total_token_usage"]),
                    window: info["model_context_window"].as_i64(),
                    last: usage(&info["last_token_usage"]),
                    includes_reasoning: info["last_usage_includes_reasoning"].as_bool(),
                });
            }
            _ => {}
        }
    }
    if !profile.sequences {
        found.counters.history = 0;
    }
    if !profile.usage_records {
        found.counters.order = 0;
        found.thread_usage = crate::tokens::Usage::default();
    }
}

/// The window in force: its number is that of the newest checkpoint that says one, and without
/// any the number of checkpoints.
fn windows(window: &mut Window, records: &[Record<'_>], standings: &[Standing], profile: &Profile) {
    let mut opened = 0;
    let mut said = None;
    for (record, standing) in records.iter().zip(standings) {
        let Record::Checkpoint(checkpoint) = record else {
            continue;
        };
        if !standing.survives && profile.skips_rolled_back_checkpoints {
            continue;
        }
        opened += 1;
        said = checkpoint.window_number.or(said);
        if let Some(id) = checkpoint.window_id {
            id.clone_into(&mut window.id);
            window.previous = checkpoint.previous_window_id.map(str::to_owned);
        }
    }
    window.number = said.unwrap_or(opened);
}

/// What the reader has to know of a record before it comes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    /// No rollback took its segment back.
    survives: bool,
    /// Its segment holds a message of the user, or another boundary of turns.
    by_user: bool,
    /// It names the turn of its segment, or none.
    fits: bool,
    /// Its segment holds a checkpoint.
    compacted: bool,
    /// Number of its segment, the newest is 0.
    segment: usize,
}

/// The segment that is being read, from its end.
#[derive(Debug, Default)]
struct Open<'a> {
    turn: Option<&'a str>,
    by_user: bool,
    compacted: bool,
}

impl<'a> Open<'a> {
    /// Whether a turn is the one of this segment; a segment that has none takes it.
    fn fits(&mut self, turn: Option<&'a str>) -> bool {
        match (self.turn, turn) {
            (Some(own), Some(named)) => own == named,
            (None, Some(_)) => {
                self.turn = turn;
                true
            }
            (Some(_) | None, None) => true,
        }
    }
}

/// The standing of every record.
fn standings(records: &[Record<'_>], profile: &Profile) -> Vec<Standing> {
    let unknown = Standing {
        survives: true,
        by_user: false,
        compacted: false,
        fits: true,
        segment: 0,
    };
    let mut standings = vec![unknown; records.len()];
    let mut rolled_back: u64 = 0;
    let mut open: Option<Open<'_>> = None;
    let mut end = records.len();
    let mut segment = 0;
    for (index, record) in records.iter().enumerate().rev() {
        let mut begins = index == 0;
        match record {
            Record::RolledBack(turns) => rolled_back = rolled_back.saturating_add(*turns),
            Record::TurnStarted(turn) => {
                begins |= open.as_mut().is_some_and(|open| open.fits(*turn));
            }
            Record::TurnEnded(turn) => {
                open.get_or_insert_default().fits(*turn);
            }
            Record::TurnContext(context) => {
                standings[index].fits = open.get_or_insert_default().fits(context.turn);
            }
            Record::Item(item) => {
                let boundary = rollback::is_boundary(item, profile);
                open.get_or_insert_default().by_user |= boundary;
            }
            Record::Checkpoint(_) => open.get_or_insert_default().compacted = true,
            Record::WorldState { .. } => {
                open.get_or_insert_default();
            }
            Record::Meta(_) | Record::Usage(_) | Record::Event(_) | Record::Other => {}
        }
        if !begins {
            continue;
        }
        let Open {
            by_user, compacted, ..
        } = open.take().unwrap_or_default();
        for standing in &mut standings[index..end] {
            standing.survives = rolled_back == 0;
            standing.by_user = by_user;
            standing.compacted = compacted;
            standing.segment = segment;
        }
        if by_user {
            rolled_back = rolled_back.saturating_sub(1);
        }
        end = index;
        segment += 1;
    }
    standings
}

/// Where a replay begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Start {
    /// The checkpoint that is installed.
    installed: Option<usize>,
    /// First record that is replayed.
    from: usize,
}

impl Start {
    /// Looks for the newest checkpoint with a replacement.
    ///
    /// 0.144 passes over those that were rolled back, and still replays nothing before the oldest
    /// that it came by: behind such a checkpoint the thread has lost its history (history.md §4).
    fn of(records: &[Record<'_>], standings: &[Standing], profile: &Profile) -> Self {
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

/// The model of the newest turn of the user, or of a turn that compacted.
fn model<'a>(records: &[Record<'a>], standings: &[Standing], profile: &Profile) -> Option<&'a str> {
    let mut known = records.iter().zip(standings).rev();
    known.find_map(|(record, standing)| match record {
        Record::TurnContext(context) => {
            let counts =
                standing.by_user || (standing.compacted && !profile.baseline_needs_user_turn);
            (holds(standing) && counts).then_some(context.model)
        }
        _ => None,
    })
}

/// The baseline; `behind` is the first record behind the installed checkpoint.
fn baseline(
    records: &[Record<'_>],
    standings: &[Standing],
    behind: usize,
    profile: &Profile,
) -> Option<Baseline> {
    let context = turn_context(records, standings, profile)?;
    Some(Baseline {
        permissions: context.permissions.clone(),
        state: world_state(&records[behind..], &standings[behind..]),
    })
}

/// The newest turn context that says what the model was told; a checkpoint behind it takes it back.
fn turn_context<'r, 'a>(
    records: &'r [Record<'a>],
    standings: &[Standing],
    profile: &Profile,
) -> Option<&'r TurnContext<'a>> {
    let mut passed = None;
    for (record, standing) in records.iter().zip(standings).rev() {
        if passed == Some(standing.segment) {
            continue;
        }
        match record {
            Record::TurnContext(context) if holds(standing) => {
                if decides(standing, profile) {
                    return Some(context);
                }
                // Nor does a checkpoint count that stands before this context in its turn.
                passed = Some(standing.segment);
            }
            Record::Checkpoint(_)
                if standing.survives || !profile.skips_rolled_back_checkpoints =>
            {
                return None;
            }
            _ => {}
        }
    }
    None
}

/// Whether a turn context survives and is that of its turn.
fn holds(standing: &Standing) -> bool {
    standing.survives && standing.fits
}

fn decides(standing: &Standing, profile: &Profile) -> bool {
    standing.by_user || !profile.baseline_needs_user_turn
}

/// The world state: the newest whole one and the patches behind it. Patches of nothing say nothing.
fn world_state(records: &[Record<'_>], standings: &[Standing]) -> Map<String, Value> {
    let mut merged: Option<Map<String, Value>> = None;
    for (record, standing) in records.iter().zip(standings) {
        let Record::WorldState { full, state } = record else {
            continue;
        };
        if !standing.survives {
            continue;
        }
        if *full {
            merged = Some((*state).clone());
        } else if let Some(known) = &mut merged {
            merge(known, state);
        }
    }
    merged.unwrap_or_default()
}
