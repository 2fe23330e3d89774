//! Ways back to an earlier state of a thread: forks, reverts and rollbacks.
//!
//! What the thread was at that point is read from its records by the caller; here the new state is
//! taken, and what the binary writes of it is written.

use serde_json::{Value, json};

use super::Session;
use super::resume::{DEFAULT_TIER, Recorded};
use crate::ports::Ports;
use crate::profile::Profile;
use crate::rollout::{ForkedFrom, HistoryBase, Origin, Recorder};
use crate::rollout_read::Found;
use crate::settings::{Model, Settings};
use crate::tokens::Usage;

/// The marker of a rollback.
pub fn rollback_marker(turns: u64) -> Value {
    json!({"type": "thread_rolled_back", "num_turns": turns})
}

/// What a fork holds of the thread that it is taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// A copy of these lines.
    Copied(Vec<String>),
    /// The records before an ordinal.
    Based(HistoryBase),
}

impl Session {
    /// A new thread that goes on where another one was; `found` is what that one was there.
    pub fn fork(
        profile: Profile,
        settings: Settings,
        ports: Ports,
        found: Found,
        known: &[Model],
        taken: Taken,
    ) -> Self {
        let (thread, window) = (ports.ids.uuid(), ports.ids.uuid());
        let from = ForkedFrom {
            thread: found.thread.clone(),
            ordinal: match &taken {
                Taken::Copied(_) => None,
                Taken::Based(base) => Some(base.end_ordinal),
            },
        };
        let attributed = found.attributed_turn.clone();
        let found = Found { thread, ..found };
        let (mut session, _) = Self::restored(profile, settings, ports, found, known);
        session.history_initialization = "warm_fork";
        session.origin.forked_from = Some(from);
        session.attributed_turn = attributed.filter(|_| session.profile.usage_records);
        match taken {
            Taken::Copied(lines) => {
                session.begin_file(window, None, None);
                for line in lines {
                    session.ports.store.append(&line);
                }
                if session.profile.wide_metadata {
                    session.record_settings();
                }
            }
            Taken::Based(base) => {
                let ordinal = base.end_ordinal;
                session.begin_file(window, Some(base), Some(ordinal));
                session.record_settings();
            }
        }
        session.report_usage();
        session
    }

    /// The same thread as it was before a turn, in a file that stands on an older one; before its
    /// first turn it stands on none.
    pub fn revert(
        profile: Profile,
        settings: Settings,
        ports: Ports,
        found: Found,
        known: &[Model],
        base: Option<HistoryBase>,
    ) -> Self {
        let window = found.first_window.clone();
        let (mut session, recorded) = Self::restored(profile, settings, ports, found, known);
        let ordinal = base.as_ref().map_or(0, |base| base.end_ordinal);
        session.begin_file(window, base, Some(ordinal));
        if session.profile.settings_at_resume || recorded != Recorded::Same {
            session.record_settings();
        }
        let tier = &mut session.settings.sampling.service_tier;
        tier.get_or_insert_with(|| DEFAULT_TIER.to_owned());
        session.record_settings();
        session
    }

    /// Writes the session record of a file that stands on others, or holds a copy of one.
    fn begin_file(&mut self, window: String, base: Option<HistoryBase>, ordinal: Option<u64>) {
        self.recorder = Recorder::new(self.ports.store.clone(), self.ports.clock.clone(), ordinal);
        self.origin = Origin {
            base,
            ..std::mem::take(&mut self.origin)
        };
        self.own_window = Some(window);
        self.begun = false;
        self.begin();
    }

    /// Drops the last turns of the user. `found` is what the records say with the marker behind
    /// them: a rollback is read, not computed (0.144.6).
    pub fn roll_back(&mut self, turns: u64, found: Found) {
        self.history = found.history;
        self.window = found.window;
        self.baseline = found.baseline;
        let named = |slug| Model {
            slug,
            ..self.settings.model.clone()
        };
        self.previous_model = found.model.map(named);
        self.told_model = found.told_model.map(|slug| Model {
            slug,
            ..self.settings.model.clone()
        });
        let total = self.estimate_context();
        if let Some(info) = &mut self.info {
            info.last = Usage {
                total,
                ..Usage::default()
            };
        }
        self.emit_token_count();
        self.recorder.event(rollback_marker(turns));
    }
}
