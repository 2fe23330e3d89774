//! Ways back to an earlier state of a thread: forks, reverts and rollbacks.
//!
//! What the thread was at that point is read from its records by the caller; here the new state is
//! taken, and what the binary writes of it is written.

use serde_json::{Value, json};

use super::Session;
use super::resume::DEFAULT_TIER;
use crate::ports::Ports;
use crate::profile::Profile;
use crate::recorder::Recorder;
use crate::rollout::{self, ForkedFrom, HistoryBase, thread_settings};
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
    /// A new thread that goes on where another one was; `found` is what that one was there, and
    /// `taken_over` the settings that it has now.
    pub fn fork(
        profile: Profile,
        settings: Settings,
        ports: Ports,
        found: Found,
        known: &[Model],
        taken: Taken,
        taken_over: Option<&Settings>,
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
        let found = Found {
            session_id: thread.clone(),
            thread,
            ..found
        };
        let config = settings.clone();
        let (mut session, _) = Self::restored(profile, settings, ports, found, known);
        // Permissions are those that the thread has now, on 0.171, or those of the config.
        let now = taken_over.filter(|_| session.profile.forks_live_permissions);
        session.take_permissions(now.unwrap_or(&config));
        session.settings.sampling.service_tier = config.sampling.service_tier;
        session.history_initialization = "warm_fork";
        session.origin.forked_from = Some(from);
        session.attributed_turn = attributed.filter(|_| session.profile.usage_records);
        match taken {
            Taken::Copied(lines) => {
                session.begin_file(&window, None, None);
                for line in lines {
                    session.recorder.copy(&line);
                }
                if session.profile.wide_metadata {
                    session.record_settings();
                }
            }
            Taken::Based(base) => {
                let ordinal = base.end_ordinal;
                session.begin_file(&window, Some(base), Some(ordinal));
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
        let attributed = found.attributed_turn.clone();
        let applied = found.applied.clone();
        let config = settings.clone();
        let (mut session, _) = Self::restored(profile, settings, ports, found, known);
        session.attributed_turn = attributed;
        // Before its first turn a thread has nothing to go by.
        session.supplied = base.is_none();
        session.settings_recorded = base.is_some();
        let ordinal = base.as_ref().map_or(0, |base| base.end_ordinal);
        session.begin_file(&window, base, Some(ordinal));
        // It is loaded with the permissions of the config, and those of its records follow.
        let mut loaded = session.settings.clone();
        loaded.sandbox = config.sandbox;
        loaded.approval = config.approval;
        let event = thread_settings(&loaded, &session.profile, &session.thread);
        let same = applied.is_some_and(|it| it["thread_settings"] == event["thread_settings"]);
        if session.profile.settings_at_resume || !same {
            session.record_settings_of(&loaded);
        }
        let tier = &mut session.settings.sampling.service_tier;
        tier.get_or_insert_with(|| DEFAULT_TIER.to_owned());
        let restored = session.settings.clone();
        session.record_settings_of(&restored);
        session
    }

    fn take_permissions(&mut self, from: &Settings) {
        self.settings.sandbox.clone_from(&from.sandbox);
        self.settings.approval.clone_from(&from.approval);
    }

    /// Writes the session record of a file that stands on others, or holds a copy of one.
    fn begin_file(&mut self, window: &str, base: Option<HistoryBase>, ordinal: Option<u64>) {
        self.recorder = Recorder::new(
            self.ports.store.clone(),
            self.ports.clock.clone(),
            ordinal,
            &self.profile,
        );
        self.origin.base = base;
        self.meta = Some(rollout::session_meta(
            &self.settings,
            &self.profile,
            &self.thread,
            window,
            &rollout::timestamp(self.ports.clock.now_ms()),
            ordinal.is_some(),
            &self.origin,
        ));
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
