//! Session budget (`features.rollout_budget`): the model is told what is left, and a used up budget
//! ends turns (rules session_budget.*).

use serde_json::json;

use crate::error::Failure;
use crate::items;
use crate::session::Session;
use crate::tokens::Usage;
use crate::turn::Turn;

/// Feature `rollout_budget`.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionBudget {
    /// Weighted tokens of the session.
    pub limit: f64,
    /// Amounts left at which the model is reminded.
    pub reminders: Vec<f64>,
    /// Weight of an output token.
    pub sampling_weight: f64,
    /// Weight of an input token that was not cached.
    pub prefill_weight: f64,
    /// A used up budget ends turns.
    pub enforced: bool,
    /// Each window begins with a reminder.
    pub at_context_start: bool,
}

/// What a session used of its budget. It lives as long as its process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct BudgetUse {
    /// Weighted tokens that were used.
    spent: f64,
    /// What was left when the model was told last.
    told: Option<f64>,
    /// The model was told in this window.
    told_in_window: bool,
}

impl BudgetUse {
    pub(crate) fn begin_window(&mut self) {
        self.told_in_window = false;
    }
}

impl Session {
    /// Counts the usage of a response: input without its cached part, and output.
    pub(crate) fn spend(&mut self, usage: Usage) {
        let Some(budget) = &self.settings.session_budget else {
            return;
        };
        let uncached = tokens(usage.input.saturating_sub(usage.cached).max(0));
        self.budget_use.spent +=
            uncached * budget.prefill_weight + tokens(usage.output) * budget.sampling_weight;
    }

    /// Tells the model what is left: at the start of a window, and behind each amount that was
    /// passed.
    pub(crate) fn remind_of_budget(&mut self, turn: &Turn) {
        let Some(budget) = &self.settings.session_budget else {
            return;
        };
        let left = (budget.limit - self.budget_use.spent).max(0.0);
        let told = self.budget_use.told.unwrap_or(budget.limit);
        let passed = |&amount: &f64| left <= amount && amount < told;
        let starts = budget.at_context_start && !self.budget_use.told_in_window;
        if !starts && !budget.reminders.iter().any(passed) {
            return;
        }
        self.budget_use.told = Some(left);
        self.budget_use.told_in_window = true;
        let shown = if self.profile.budget_shows_fractions {
            left
        } else {
            left.floor()
        };
        let text = format!(
            "<rollout_budget>\nYou have {shown} weighted tokens left in the shared session token \
             budget.\n</rollout_budget>"
        );
        self.record_note(turn, "developer", "rollout_budget.remaining_tokens", &text);
    }

    /// The failure of a used up budget.
    ///
    /// # Errors
    /// Where the budget is enforced and used up: to the last token, or past it from 0.171 on.
    pub(crate) fn check_budget(&self) -> Result<(), Failure> {
        let Some(budget) = self.settings.session_budget.as_ref().filter(|b| b.enforced) else {
            return Ok(());
        };
        let spent = self.budget_use.spent;
        if self.profile.budget_stops_turns && spent > budget.limit {
            Err(Failure::budget("budget reached"))
        } else if !self.profile.budget_stops_turns && spent >= budget.limit {
            Err(Failure::budget("shared rollout token budget exhausted"))
        } else {
            Ok(())
        }
    }

    /// Whether a budget that stops turns is in force: calls wait for the end of their response.
    pub(crate) fn budget_holds_calls(&self) -> bool {
        let enforced = self.settings.session_budget.as_ref().map(|b| b.enforced);
        self.profile.budget_stops_turns && enforced == Some(true)
    }

    /// Records a message of the harness itself.
    pub(crate) fn record_note(&mut self, turn: &Turn, role: &'static str, kind: &str, text: &str) {
        self.record_words(turn, role, kind, text, false);
    }

    /// Records a message of the harness, or of a hook that it ran.
    pub(crate) fn record_words(
        &mut self,
        turn: &Turn,
        role: &'static str,
        kind: &str,
        text: &str,
        hook: bool,
    ) {
        let content = vec![json!({"type": "input_text", "text": text})];
        let mut item = items::message(role, None, content);
        item.passthrough
            .insert("content_item_kinds".to_owned(), json!([kind]));
        item.passthrough.insert(
            "content_item_metadata".to_owned(),
            json!([{"provenance": {"type": "harness", "hook": hook}}]),
        );
        self.prepare(&mut item, &turn.id, true);
        self.commit(item);
    }
}

/// Token counts are far below 2^52.
#[expect(
    clippy::cast_precision_loss,
    reason = "token counts fit a double exactly"
)]
fn tokens(count: i64) -> f64 {
    count as f64
}
