//! What the model was last told of settings and world, as the records say it.
//!
//! The baseline is the newest surviving turn context that no checkpoint follows, with the world
//! state merged from the surviving records behind the installed checkpoint (history.md §6).

use serde_json::{Map, Value};

use super::records::{Record, TurnContext};
use super::segments::Standing;
use crate::profile::Profile;
use crate::session::Baseline;

/// The model of the newest turn of the user, or of a turn that compacted.
pub(super) fn model<'a>(
    records: &[Record<'a>],
    standings: &[Standing],
    profile: &Profile,
) -> Option<&'a str> {
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
pub(super) fn read(
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

/// A JSON merge patch (RFC 7396).
fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.shift_remove(key);
            }
            Value::Object(inner) => {
                let entry = target.entry(key.clone()).or_insert(Value::Null);
                if let Value::Object(known) = entry {
                    merge(known, inner);
                } else {
                    let mut fresh = Map::new();
                    merge(&mut fresh, inner);
                    *entry = Value::Object(fresh);
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                target.insert(key.clone(), value.clone());
            }
        }
    }
}
