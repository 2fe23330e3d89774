//! Threads that do not start empty: rebuilt from a rollout, or from supplied items.

use std::collections::VecDeque;

use serde_json::Value;

use super::accept::accepted;
use super::{Refused, Session};
use crate::events::Event;
use crate::planted::Planted;
use crate::ports::Ports;
use crate::profile::Profile;
use crate::rollout;
use crate::rollout_read::lines::Skipped;
use crate::rollout_read::{Found, Unreadable};
use crate::settings::{Model, Settings};
use crate::texts::{
    RESUMED_ADVICE, RESUMED_MODEL, RESUMED_REASON, SKIPPED, TIER_LEFT_OUT, TIER_UNKNOWN,
};
use crate::tokens::Usage;

/// Stands for no tier of its own.
pub(super) const DEFAULT_TIER: &str = "default";

/// What the records say of the settings in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    /// Others.
    Otherwise,
    /// The same, or nothing.
    NotOtherwise,
}

impl Session {
    /// A thread that was read from its rollout; new lines go to the store of `ports`. It goes on with
    /// the model that it was last given, if that is `known`.
    pub fn resume(
        profile: Profile,
        settings: Settings,
        ports: Ports,
        found: Found,
        known: &[Model],
    ) -> Result<Self, Unreadable> {
        let based_fork = found.forked_from.is_some() && found.next_ordinal.is_some();
        let (begun, open_end, next) = (found.begun, found.open_end, found.next_ordinal);
        let (skipped, model) = (found.skipped.clone(), found.model.clone());
        let (mut session, recorded) = Self::restored(profile, settings, ports, found, known);
        session.warn_of_other_model(model.as_deref());
        let ordinal = next.filter(|_| begun || session.recorder.paginated());
        let opened = session.recorder.go_on(ordinal, open_end);
        opened.map_err(|failure| Unreadable::NotWritable(failure.reason))?;
        session.begin();
        if session.profile.settings_at_resume || recorded == Recorded::Otherwise {
            session.record_settings();
        }
        if !based_fork || session.profile.tells_usage_of_resumed_forks {
            session.report_usage();
        }
        session.warn_of_skipped(&skipped);
        Ok(session)
    }

    /// The state that was read; nothing is written or told but warnings. Says what the records have
    /// of the settings in force, too.
    pub(super) fn restored(
        profile: Profile,
        mut settings: Settings,
        ports: Ports,
        mut found: Found,
        known: &[Model],
    ) -> (Self, Recorded) {
        if !found.begun {
            found.first_window = ports.ids.uuid();
            found.window.id.clone_from(&found.first_window);
            found.window.first.clone_from(&found.first_window);
        }
        let forgets_model = profile.plants(Planted::ModelForgotten);
        let wanted = found.given_model.as_ref().or(found.model.as_ref());
        let given = known.iter().find(|model| Some(&model.slug) == wanted);
        if let Some(model) = given.filter(|_| !forgets_model) {
            settings.model = model.clone();
        }
        let other_base = found.base.as_ref() != Some(&settings.model.base_instructions);
        settings.thread_base = found.base;
        let mut session =
            Self::with_ids(profile, settings, ports, found.thread, found.first_window);
        session.origin.forked_from = found.forked_from;
        if found.begun {
            session.meta = None;
        }
        session.root = found.session_id;
        session.settings_recorded = true;
        session.history_initialization = "cold_resume";
        session.starts = VecDeque::from(["resume"]);
        session.window = found.window;
        session.history = found.history;
        session.supplied = session
            .history
            .items()
            .iter()
            .any(|item| item.meta.supplied_thread);
        if !session.profile.plants(Planted::UsageForgotten) {
            session.info = found.info;
        }
        session.thread_usage = found.thread_usage;
        session.counters = found.counters;
        // A resume takes the first number for itself (`rollout.injected.resumed`).
        session.counters.injected = 1;
        session.inbox.set_next_order(found.counters.order);
        session.retained = found.retained;
        session.retain_unattributed();
        session.attributed_turn = found
            .attributed_turn
            .filter(|_| session.profile.usage_records);
        session.prefill = None;
        if found.uncounted && session.profile.estimates_uncounted_checkpoints {
            let total = session.estimate_context();
            if let Some(info) = &mut session.info {
                info.last = Usage {
                    total,
                    ..Usage::default()
                };
            }
        }
        if let Some(cwd) = found.cwd {
            session.settings.cwd = cwd;
        }
        if let Some(sandbox) = found.sandbox {
            session.settings.sandbox = sandbox;
        }
        if let Some(approval) = found.approval {
            session.settings.approval = approval;
        }
        session.settings.effort = found.effort;
        if session.profile.restores_thread_settings {
            session.settings.sampling.service_tier = found.service_tier;
            session.settings.sampling.summary = found.summary;
        }
        session.warn_of_service_tier();
        let known = session.settings.model.clone();
        let named = |slug| Model {
            slug,
            ..known.clone()
        };
        let base_model = found.base_model.filter(|_| other_base);
        session.base_model = base_model.map(|slug| Model {
            base_instructions: String::new(),
            ..named(slug)
        });
        session.previous_model = found.model.map(named);
        session.told_model = found.told_model.map(named);
        if !session.profile.plants(Planted::BaselineForgotten) {
            session.baseline = found.baseline;
        }
        session.loaded = session.settings.clone();
        let now = rollout::thread_settings(&session.settings, &session.profile, &session.thread);
        let recorded = match found.applied {
            Some(event) if event["thread_settings"] != now["thread_settings"] => {
                Recorded::Otherwise
            }
            Some(_) | None => Recorded::NotOtherwise,
        };
        (session, recorded)
    }

    /// A thread that starts with supplied items; it starts with all of them or not at all.
    pub fn with_history(
        profile: Profile,
        settings: Settings,
        ports: Ports,
        supplied: &[Value],
    ) -> Result<Self, Refused> {
        let items = accepted(supplied, &profile)?;
        let mut session = Self::new(profile, settings, ports);
        session.history_initialization = "supplied_history";
        session.starts = VecDeque::from(["resume"]);
        session.supply(items);
        Ok(session)
    }

    /// Says which lines were left out; the releases do not.
    fn warn_of_skipped(&self, skipped: &[Skipped]) {
        if self.profile.skips_silently {
            return;
        }
        for skipped in skipped {
            self.ports.observer.event(Event::Warning {
                message: format!("{SKIPPED}{skipped}"),
            });
        }
    }

    /// The model of the newest turn is another one than the thread goes on with.
    pub(super) fn warn_of_other_model(&self, before: Option<&str>) {
        let now = &self.settings.model.slug;
        if let Some(before) = before.filter(|before| before != now) {
            self.ports.observer.event(Event::Warning {
                message: format!(
                    "{RESUMED_MODEL}`{before}` but is resuming with `{now}`{RESUMED_ADVICE}\
                     `{before}`{RESUMED_REASON}"
                ),
            });
        }
    }

    /// A tier that the model does not have is left out of requests, and warned of once.
    pub(super) fn warn_of_service_tier(&self) {
        let tier = self.settings.sampling.service_tier.as_ref();
        let Some(tier) = tier.filter(|tier| *tier != DEFAULT_TIER) else {
            return;
        };
        if self
            .settings
            .effective_service_tier(&self.profile)
            .is_none()
        {
            self.ports.observer.event(Event::Warning {
                message: format!(
                    "Configured service tier `{tier}`{TIER_UNKNOWN}`{}`{TIER_LEFT_OUT}",
                    self.settings.model.slug
                ),
            });
        }
    }
}
