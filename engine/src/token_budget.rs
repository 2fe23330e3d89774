//! Token budget: a full window is replaced by a new one without asking the model, and the model is
//! told where it stands (compaction.md §7).

use serde_json::{Value, json};

use crate::session::Session;
use crate::texts::{REMINDER_HEAD, REMINDER_TAIL};
use crate::turn::Turn;

/// Feature `token_budget`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenBudget {
    /// Tokens left at which the model is reminded, once in a window.
    pub reminder_threshold: Option<i64>,
    /// Text of the reminder, instead of the built-in one; `{n_remaining}` stands for the tokens
    /// left.
    pub reminder_template: Option<String>,
    /// Prompt that is added at the limit, once in a window, before the window ends (0.164+).
    pub fallback_prompt: Option<String>,
    /// Tokens above the limit at which a window with such a prompt ends.
    pub fallback_buffer: i64,
}

/// What was said in the running window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Said {
    /// The model was reminded.
    pub reminder: bool,
    /// The fallback prompt was added.
    pub fallback: bool,
}

/// Tool that starts a new window.
pub(crate) const NEW_CONTEXT: &str = "new_context";
/// Its output.
pub(crate) const NEW_CONTEXT_OUTPUT: &str =
    "A new context window will start without summarizing conversation history.";

/// Tool that says how many tokens are left.
pub(crate) const CONTEXT_REMAINING: &str = "get_context_remaining";

/// The tools that come with a token budget.
pub(crate) fn tools() -> [Value; 2] {
    let tool = |name: &str, description: &str| {
        json!({
            "type": "function",
            "name": name,
            "description": description,
            "strict": false,
            "parameters": {"type": "object", "properties": {}, "additionalProperties": false},
        })
    };
    [
        tool(
            NEW_CONTEXT,
            "Start a new context window. Does not clear, reset, or otherwise affect environment \
             state.",
        ),
        tool(
            CONTEXT_REMAINING,
            "Get the remaining tokens in the current context window.",
        ),
    ]
}

impl Session {
    /// Whether the window ends now: the model wished it, or the limit is reached. A fallback prompt
    /// comes first and moves the limit by its buffer.
    pub(crate) fn window_ends(&mut self, turn: &Turn) -> bool {
        if self.new_window_wished {
            return true;
        }
        let Some(left) = self.tokens_left() else {
            return false;
        };
        let over = left <= 0;
        let Some(budget) = self.settings.token_budget.clone() else {
            return over;
        };
        if let Some(prompt) = budget.fallback_prompt.filter(|_| over) {
            if !std::mem::replace(&mut self.said.fallback, true) {
                self.record_note(
                    turn,
                    "developer",
                    "compaction.auto_fallback_prompt",
                    &prompt,
                );
            }
            return left.saturating_add(budget.fallback_buffer) <= 0;
        }
        if !over
            && budget.reminder_threshold.is_some_and(|at| left <= at)
            && !std::mem::replace(&mut self.said.reminder, true)
        {
            let text = match budget.reminder_template {
                Some(template) => template.replace("{n_remaining}", &left.to_string()),
                None => format!("{REMINDER_HEAD}{left}{REMINDER_TAIL}"),
            };
            self.record_note(turn, "developer", "token_budget.reminder", &text);
        }
        over
    }

    /// What the model is told when it asks: the tokens up to the limit.
    pub(crate) fn context_remaining(&self) -> String {
        let left = self.tokens_left().map(|left| left.max(0).to_string());
        let left = left.as_deref().unwrap_or("unknown");
        format!("You have {left} tokens left in this context window.")
    }
}
