//! Settings that a client changes while a turn runs. Those of the thread count from the next turn
//! on, those of the turn from its next sampling to its end (0.164+, `turn.settings.*`).

use crate::context;
use crate::context_diff::{self, Told};
use crate::permissions;
use crate::planted::Planted;
use crate::session::{Baseline, Session};
use crate::settings::{Model, Settings, service_tier};

/// What of the settings changes; `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// Model.
    pub model: Option<Model>,
    /// Reasoning effort.
    pub effort: Option<String>,
    /// Reasoning summary.
    pub summary: Option<String>,
    /// Absolute working directory.
    pub cwd: Option<String>,
    /// Sandbox mode.
    pub sandbox: Option<String>,
    /// Approval policy.
    pub approval: Option<String>,
    /// Service tier.
    pub service_tier: Option<String>,
}

/// What a change made in a running turn is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The thread, from its next turn on.
    Thread,
    /// The running turn alone, from its next sampling on.
    Turn,
}

impl Change {
    /// Nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Changes the settings.
    pub fn apply(self, settings: &mut Settings) {
        if let Some(model) = self.model {
            settings.model = model;
        }
        if let Some(cwd) = self.cwd {
            settings.cwd = cwd;
        }
        if let Some(sandbox) = self.sandbox {
            settings.sandbox = sandbox;
            settings.closed_for_good = permissions::closed_for_good(settings);
        }
        if let Some(approval) = self.approval {
            settings.approval = approval;
        }
        if let Some(effort) = self.effort {
            settings.effort = Some(effort);
        }
        if let Some(summary) = self.summary {
            settings.sampling.summary = Some(summary);
        }
        if let Some(tier) = self.service_tier {
            settings.sampling.service_tier = Some(service_tier(tier));
        }
    }
}

/// Settings that wait in a running turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Waiting {
    /// Those of the thread behind the turn; `None` while the turn's are the thread's.
    thread: Option<Settings>,
    /// Those of the next sampling.
    sampling: Option<Settings>,
    /// Those that the turn began with, since a sampling had others.
    began: Option<Settings>,
}

impl Session {
    /// Takes the changes that came in; those of the thread are written down at once.
    pub(crate) fn take_changes(&mut self) {
        for (reach, change) in self.inbox.take_changes() {
            let now = &self.settings;
            let thread = self.waiting.thread.get_or_insert_with(|| now.clone());
            match reach {
                Reach::Thread => {
                    let asked = !change.is_empty();
                    let before = thread.clone();
                    change.apply(thread);
                    let is_new = !thread.same_environment(&before);
                    self.counters.injected += u64::from(is_new && self.profile.wide_metadata);
                    if asked {
                        let changed = thread.clone();
                        self.record_settings_of(&changed);
                    }
                }
                Reach::Turn => {
                    let sampling = self.waiting.sampling.get_or_insert_with(|| now.clone());
                    change.apply(sampling);
                }
            }
        }
    }

    /// Puts the settings of the next sampling in force and tells the model what changed. There is
    /// no new turn context: for a later compaction the turn has the model that it began with.
    pub(crate) fn enter_sampling(&mut self, turn: &str) {
        self.take_changes();
        if let Some(settings) = self.waiting.sampling.take() {
            let began = std::mem::replace(&mut self.settings, settings);
            self.waiting.began.get_or_insert(began);
            self.tell_context(turn);
        }
    }

    /// Settings that the running turn began with: limits, windows and compactions are theirs.
    pub(crate) fn turn_settings(&self) -> &Settings {
        self.waiting.began.as_ref().unwrap_or(&self.settings)
    }

    /// Settings of the thread.
    pub(crate) fn thread_settings(&self) -> &Settings {
        self.waiting.thread.as_ref().unwrap_or(&self.settings)
    }

    /// Puts the thread's settings in force again, and drops what waited for another sampling.
    pub(crate) fn leave_turn(&mut self) {
        self.take_changes();
        let waiting = std::mem::take(&mut self.waiting);
        if let Some(settings) = waiting.thread {
            self.settings = settings;
        }
    }

    /// Tells the model its context: whole without a baseline, else what changed.
    pub(crate) fn tell_context(&mut self, turn: &str) {
        let mut items = Vec::new();
        if self.profile.plants(Planted::ContextTwice) {
            self.baseline = None;
        }
        match &self.baseline {
            None => {
                items.extend(context::lite_items(&self.settings, &self.profile));
                let (switched, ids) = (self.switched_model(), self.window_ids());
                items.extend(context::full(&self.settings, &self.profile, switched, &ids));
            }
            Some(baseline) => {
                let told = Told {
                    baseline,
                    history: &self.history,
                    switched: self.model_not_told(),
                };
                items.extend(context_diff::diff(told, &self.settings, &self.profile));
            }
        }
        for mut item in items {
            self.prepare(&mut item, turn, true);
            self.commit(item);
        }
        let mut told = context::world_state(&self.settings, &self.profile);
        match &self.baseline {
            None => {
                told = context::whole_world_state(&self.settings, &self.profile);
                self.record_world_state(true, &told);
            }
            Some(baseline) => {
                let patch = context::patch(&baseline.state, &told);
                if !patch.is_empty() {
                    self.record_world_state(false, &patch);
                }
            }
        }
        self.told_model = Some(self.settings.model.clone());
        self.baseline = Some(Baseline {
            permissions: self.settings.permissions(&self.profile),
            state: told,
        });
    }
}
