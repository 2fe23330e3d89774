//! When a compaction is due, and with which model.

use crate::planted::Planted;
use crate::session::Session;
use crate::settings::{Model, Scope};

/// A compaction that a change of the model asks for before the turn.
pub(crate) struct Switch {
    /// Model that writes the summary: the one before.
    pub(crate) model: Model,
    /// `comp_hash_changed` or `model_downshift`.
    pub(crate) reason: &'static str,
}

impl Session {
    /// Whether the context has reached its limit (compaction.md §2.1).
    pub fn over_limit(&self) -> bool {
        let limit = i64::from(self.profile.plants(Planted::LimitPassed));
        self.tokens_left().is_some_and(|left| left + limit <= 0)
    }

    /// Tokens up to the nearest limit, negative above it; `None` where nothing limits the context.
    pub(crate) fn tokens_left(&self) -> Option<i64> {
        let total = self.total_tokens();
        let settings = self.turn_settings();
        let cap = settings.effective_window();
        let (limit, cap) = match settings.scope {
            Scope::Total => {
                let hard = cap.filter(|_| self.profile.hard_cap_in_total_scope);
                (
                    settings
                        .total_limit()
                        .map(|limit| limit.saturating_sub(total)),
                    hard,
                )
            }
            Scope::BodyAfterPrefix => {
                let body = total.saturating_sub(self.prefill.unwrap_or(0)).max(0);
                (
                    settings
                        .body_limit()
                        .map(|limit| limit.saturating_sub(body)),
                    cap,
                )
            }
        };
        let cap = cap.map(|cap| cap.saturating_sub(total));
        limit.into_iter().chain(cap).min()
    }

    /// Whether the model of this turn makes the one before compact (compaction.md §8).
    pub(crate) fn model_switch(&self) -> Option<Switch> {
        if self.profile.plants(Planted::SwitchIgnored) {
            return None;
        }
        let previous = self.previous_model.as_ref()?;
        let now = &self.settings.model;
        let hashes = (&previous.comp_hash, &now.comp_hash);
        if matches!(hashes, (Some(before), Some(after)) if before != after) {
            return Some(Switch {
                model: previous.clone(),
                reason: "comp_hash_changed",
            });
        }
        let window = |model: &Model| self.settings.with_model(model.clone()).window();
        let smaller = window(previous)? > window(now)?;
        let over = self.total_tokens() > self.settings.total_limit()?;
        (smaller && over).then(|| Switch {
            model: previous.clone(),
            reason: "model_downshift",
        })
    }

    /// Whether a finished turn is over its own threshold (0.164+, compaction.md row 53).
    pub(crate) fn over_post_turn_threshold(&self) -> bool {
        let settings = self.turn_settings();
        let percent = settings
            .post_turn_percent
            .filter(|_| self.profile.usage_records);
        let (Some(percent), Some(window)) = (percent, settings.effective_window()) else {
            return false;
        };
        let threshold = window.saturating_mul(percent) / 100;
        let limit = settings
            .total_limit()
            .map_or(threshold, |limit| limit.min(threshold));
        self.total_tokens() >= limit
    }
}
