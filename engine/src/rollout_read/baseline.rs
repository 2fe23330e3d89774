//! What the model was last told of settings and world, as the records say it.
//!
//! The baseline is the newest surviving turn context that no checkpoint follows, with the world
//! state merged from the surviving records behind the installed checkpoint (history.md §6).

use serde_json::{Map, Value};

use super::Need;
use super::scan::{Standing, Waiting};
use crate::profile::Profile;
use crate::session::Baseline;
use crate::settings::Permissions;

/// What was told, from the newest record on.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Model of the newest turn of the user, or of a turn that compacted.
    model: Option<String>,
    context: Context,
    /// A segment whose checkpoints stand before a context that was looked at.
    passed: Option<usize>,
    /// Surviving world states, newest first.
    states: Vec<(bool, Map<String, Value>)>,
    /// The newest whole one is found, or the installed checkpoint.
    states_end: bool,
}

/// The turn context that says what the model was told.
#[derive(Debug, Default)]
enum Context {
    #[default]
    Sought,
    Found(Permissions),
    /// A checkpoint stands behind the newest one.
    TakenBack,
}

impl Told {
    /// Takes the next older record that stood in a segment.
    pub(super) fn take(&mut self, record: &Waiting, standing: Standing, profile: &Profile) {
        match record {
            Waiting::TurnContext {
                fits,
                model,
                permissions,
            } => {
                let holds = standing.survives && *fits;
                let by_compaction = standing.compacted && !profile.baseline_needs_user_turn;
                if holds && self.model.is_none() && (standing.by_user || by_compaction) {
                    self.model = Some(model.clone());
                }
                if holds && self.seeks(standing) {
                    let decides = standing.by_user || !profile.baseline_needs_user_turn;
                    if decides {
                        self.context = Context::Found(permissions.clone());
                    } else {
                        self.passed = Some(standing.segment);
                    }
                }
            }
            Waiting::Checkpoint(_) => {
                let counts = standing.survives || !profile.skips_rolled_back_checkpoints;
                if counts && self.seeks(standing) {
                    self.context = Context::TakenBack;
                }
            }
            Waiting::WorldState { full, state } => {
                if standing.survives && !self.states_end {
                    self.states.push((*full, state.clone()));
                    self.states_end = *full;
                }
            }
        }
    }

    fn seeks(&self, standing: Standing) -> bool {
        matches!(self.context, Context::Sought) && self.passed != Some(standing.segment)
    }

    /// The installed checkpoint is reached: what the world was before it does not count.
    pub(super) fn installed(&mut self) {
        self.states_end = true;
    }

    /// Whether older world states matter.
    pub(super) fn wants_state(&self) -> bool {
        !self.states_end && !matches!(self.context, Context::TakenBack)
    }

    pub(super) fn needs(&self) -> Vec<Need> {
        let mut needs = Vec::new();
        match self.context {
            Context::Sought => needs.push(Need::TurnContext),
            Context::Found(_) if !self.states_end => needs.push(Need::WorldState),
            Context::Found(_) | Context::TakenBack => {}
        }
        if self.model.is_none() {
            needs.push(Need::Model);
        }
        needs
    }

    /// The model and the baseline.
    pub(super) fn told(self) -> (Option<String>, Option<Baseline>) {
        let baseline = match self.context {
            Context::Found(permissions) => Some(Baseline {
                permissions,
                state: merged(self.states),
            }),
            Context::Sought | Context::TakenBack => None,
        };
        (self.model, baseline)
    }
}

/// The newest whole world state and the patches behind it. Patches of nothing say nothing.
fn merged(states: Vec<(bool, Map<String, Value>)>) -> Map<String, Value> {
    let mut oldest_first = states.into_iter().rev();
    let Some((true, mut known)) = oldest_first.next() else {
        return Map::new();
    };
    for (_, patch) in oldest_first {
        merge(&mut known, &patch);
    }
    known
}

/// A JSON merge patch (RFC 7396).
pub(super) fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
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
