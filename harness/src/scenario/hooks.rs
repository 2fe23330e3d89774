//! Hooks of a scenario: commands that the engine runs before and after a compaction and when a
//! session starts.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use engine::hooks::HookEvent;

use super::plan::HookSpec;

/// The hooks by the event that runs them. What a command prints decides what the event does:
/// `{continue: false, stopReason: …}` stops, `{systemMessage: …}` warns, and text or
/// `additionalContext` of a `SessionStart` hook becomes a developer message.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hooks {
    /// Before a compaction; the trigger is `manual` or `auto`.
    #[serde(default, rename = "PreCompact")]
    pub pre_compact: Vec<Hook>,
    /// After a compaction; the trigger is `manual` or `auto`.
    #[serde(default, rename = "PostCompact")]
    pub post_compact: Vec<Hook>,
    /// Before the first input of a new session, a resumed one, or one that was compacted; the
    /// source is `startup`, `resume` or `compact`.
    #[serde(default, rename = "SessionStart")]
    pub session_start: Vec<Hook>,
}

/// One hook command, said by what it does.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// Triggers or sources that it is for; all without one.
    pub matcher: Option<String>,
    /// What it prints: a text as it stands, anything else as JSON (nothing).
    pub prints: Option<Value>,
    /// What it says on standard error (nothing).
    pub complains: Option<String>,
    /// Its exit code (0).
    pub exit: Option<u8>,
    /// Whether the user has trusted it (true).
    pub trusted: Option<bool>,
}

impl Hooks {
    /// The hooks in the order of their events and, in one event, of the scenario.
    pub(super) fn plan(&self) -> Vec<HookSpec> {
        let events = [
            (HookEvent::PreCompact, &self.pre_compact),
            (HookEvent::PostCompact, &self.post_compact),
            (HookEvent::SessionStart, &self.session_start),
        ];
        events
            .into_iter()
            .flat_map(|(event, hooks)| hooks.iter().map(move |hook| hook.plan(event)))
            .collect()
    }
}

impl Hook {
    fn plan(&self, event: HookEvent) -> HookSpec {
        let prints = match &self.prints {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(json) => json.to_string(),
        };
        HookSpec {
            event,
            matcher: self.matcher.clone(),
            prints,
            complains: self.complains.clone().unwrap_or_default(),
            exit: self.exit.unwrap_or(0),
            trusted: self.trusted.unwrap_or(true),
        }
    }
}
