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
    /// No record: it forks before the first turn of a thread with ordinals.
    Nothing,
}

/// The settings of a thread that is gone back in.
#[derive(Debug, Clone, PartialEq)]
pub struct InForce {
    /// Those that it has now.
    pub now: Settings,
    /// Those that it was loaded with.
    pub loaded: Settings,
}

impl Session {
    /// A new thread that goes on where another one was; `found` is what that one was there, and
    /// `live` the settings that it has now. It takes its folder and its permissions from there, and
    /// the rest from the config (fork.settings).
    pub fn fork(
        profile: Profile,
        settings: Settings,
        ports: Ports,
        found: Found,
        known: &[Model],
        taken: Taken,
        live: Option<&Settings>,
    ) -> Self {
        let (thread, window) = (ports.ids.uuid(), ports.ids.uuid());
        let from = ForkedFrom {
            thread: found.thread.clone(),
            ordinal: match &taken {
                Taken::Copied(_) | Taken::Nothing => None,
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
        let now = live.unwrap_or(&config);
        let (approval, sandbox) = (now.approval.clone(), now.sandbox.clone());
        session.settings = Settings {
            cwd: now.cwd.clone(),
            thread_base: session.settings.thread_base.take(),
            ..config
        };
        if session.profile.wide_metadata {
            session.settings.approval = approval;
        }
        if session.profile.forks_live_sandbox {
            session.settings.sandbox = sandbox;
        }
        session.loaded = session.settings.clone();
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
            Taken::Nothing => {
                session.supplied = true;
                session.settings_recorded = false;
                session.begin_file(&window, None, Some(0));
                let settings = session.settings.clone();
                session.record_settings_of(&settings);
            }
        }
        session.report_usage();
        session
    }

    /// The same thread as it was before a turn, in a file that stands on an older one; before its
    /// first turn it stands on none. Its settings stay as they are (revert.settings).
    pub fn revert(
        profile: Profile,
        settings: Settings,
        ports: Ports,
        found: Found,
        known: &[Model],
        base: Option<HistoryBase>,
        live: Option<InForce>,
    ) -> Self {
        let window = found.first_window.clone();
        let attributed = found.attributed_turn.clone();
        let (applied, model) = (found.applied.clone(), found.model.clone());
        let config = settings.clone();
        let (mut session, _) = Self::restored(profile, settings, ports, found, known);
        session.warn_of_other_model(model.as_deref());
        session.attributed_turn = attributed;
        let InForce { now, loaded } = live.unwrap_or_else(|| InForce {
            now: session.settings.clone(),
            loaded: config.clone(),
        });
        if base.is_none() {
            session.base_model = Some(config.model.clone());
        }
        let thread_base = session.settings.thread_base.take();
        session.settings = Settings {
            thread_base,
            ..config
        };
        // Before its first turn a thread has nothing to go by.
        session.supplied = base.is_none();
        session.settings_recorded = base.is_some();
        let ordinal = base.as_ref().map_or(0, |base| base.end_ordinal);
        session.begin_file(&window, base, Some(ordinal));
        // It is loaded with what it was loaded with before, but for the model and the tier, and what
        // is in force follows.
        let mut first = loaded.clone();
        first.model = now.model.clone();
        first
            .sampling
            .service_tier
            .clone_from(&now.sampling.service_tier);
        session.loaded = loaded;
        let event = thread_settings(&first, &session.profile, &session.thread);
        let same = applied.is_some_and(|it| it["thread_settings"] == event["thread_settings"]);
        if session.profile.settings_at_resume || !same {
            session.record_settings_of(&first);
        }
        session.settings = now;
        let tier = &mut session.settings.sampling.service_tier;
        tier.get_or_insert_with(|| DEFAULT_TIER.to_owned());
        let restored = session.settings.clone();
        session.record_settings_of(&restored);
        session
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
