//! Hooks: when they run, what they are told, and what their output asks for.
//!
//! A hook is a command of the user. The engine decides that it runs and reads what it printed; the
//! port runs it. Source: compaction.md §9 and the rules `hooks.*`.

use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Failure;
use crate::events::Event;
use crate::session::Session;
use crate::turn::Turn;

/// What runs a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEvent {
    /// Before a compaction.
    PreCompact,
    /// After a compaction.
    PostCompact,
    /// Before the first input of a session, and of one that was resumed or compacted.
    SessionStart,
}

/// A hook that the user trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// What runs it.
    pub event: HookEvent,
    /// Triggers or sources that it is for; `None`, an empty text and `*` are for all.
    pub matcher: Option<String>,
}

/// What a command left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookOutput {
    /// Standard output.
    pub printed: String,
    /// Standard error.
    pub complained: String,
    /// Exit code.
    pub exit: u8,
}

/// What a hook asks for.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    /// `completed`, `stopped`, `failed`.
    status: &'static str,
    /// Lines for the user: a kind and a text.
    entries: Vec<(&'static str, String)>,
    /// Words for the model.
    context: Option<String>,
}

/// JSON that every event understands.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Printed {
    #[serde(default = "yes")]
    r#continue: bool,
    stop_reason: Option<String>,
    #[serde(default, rename = "suppressOutput")]
    _suppress_output: bool,
    system_message: Option<String>,
    hook_specific_output: Option<Specific>,
}

/// What only a hook at the start says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Specific {
    #[serde(rename = "hookEventName")]
    _event: String,
    additional_context: Option<String>,
}

fn yes() -> bool {
    true
}

impl HookEvent {
    /// Its name in what a hook is told.
    fn name(self) -> &'static str {
        match self {
            Self::PreCompact => "PreCompact",
            Self::PostCompact => "PostCompact",
            Self::SessionStart => "SessionStart",
        }
    }

    /// Its name for the client.
    fn client_name(self) -> &'static str {
        match self {
            Self::PreCompact => "preCompact",
            Self::PostCompact => "postCompact",
            Self::SessionStart => "sessionStart",
        }
    }

    fn answer(self, output: &HookOutput) -> Answer {
        let at_start = self == Self::SessionStart;
        let complaint = output.complained.trim();
        if output.exit != 0 {
            return Answer::failed(if complaint.is_empty() || at_start {
                format!("hook exited with code {}", output.exit)
            } else {
                complaint.to_owned()
            });
        }
        let printed = output.printed.trim();
        if printed.is_empty() {
            return Answer::completed();
        }
        if !printed.starts_with(['{', '[']) {
            let mut answer = Answer::completed();
            if at_start {
                answer.tell(printed.to_owned());
            }
            return answer;
        }
        // A list would be read as the fields in their order.
        let read = Some(printed).filter(|text| text.starts_with('{'));
        let read = read.and_then(|text| serde_json::from_str::<Printed>(text).ok());
        let read = read.filter(|read| at_start || read.hook_specific_output.is_none());
        let Some(read) = read else {
            let name = if at_start {
                "session start".to_owned()
            } else {
                format!("{} hook", self.name())
            };
            return Answer::failed(format!("hook returned invalid {name} JSON output"));
        };
        let mut answer = Answer::completed();
        answer
            .entries
            .extend(read.system_message.map(|text| ("warning", text)));
        let context = read.hook_specific_output.and_then(|s| s.additional_context);
        if let Some(context) = context {
            answer.tell(context);
        }
        if !read.r#continue {
            // Only a hook around a compaction has words of its own.
            let own = || (!at_start).then(|| format!("{} hook stopped execution", self.name()));
            let reason = read.stop_reason.or_else(own);
            answer.entries.extend(reason.map(|text| ("stop", text)));
            answer.status = "stopped";
        }
        answer
    }
}

impl Answer {
    fn completed() -> Self {
        Self {
            status: "completed",
            ..Self::default()
        }
    }

    fn failed(why: String) -> Self {
        Self {
            status: "failed",
            entries: vec![("error", why)],
            context: None,
        }
    }

    fn tell(&mut self, context: String) {
        self.entries.push(("context", context.clone()));
        self.context = Some(context);
    }
}

impl Hook {
    fn is_for(&self, event: HookEvent, word: &str) -> bool {
        self.event == event && self.matcher.as_deref().is_none_or(|m| matches(m, word))
    }
}

/// Words and bars are alternatives; anything else is a regular expression that finds its place
/// anywhere. One that does not parse is for nothing: its hook is not even listed.
fn matches(matcher: &str, word: &str) -> bool {
    match pattern(matcher) {
        Some(pattern) => pattern.is_ok_and(|pattern| pattern.is_match(word)),
        None => matcher.is_empty() || matcher == "*" || matcher.split('|').any(|one| one == word),
    }
}

/// The regular expression of a matcher that is one.
fn pattern(matcher: &str) -> Option<Result<Regex, regex::Error>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '|';
    let is_list = matcher == "*" || matcher.chars().all(plain);
    (!is_list).then(|| Regex::new(matcher))
}

impl Session {
    /// Runs the hooks around a compaction by this model.
    ///
    /// # Errors
    /// [`Failure::stopped`] where one of them stops the turn.
    pub(crate) fn compaction_hooks(
        &self,
        turn: &Turn,
        event: HookEvent,
        model: &str,
        trigger: &str,
    ) -> Result<(), Failure> {
        let input = json!({
            "session_id": self.root,
            "turn_id": turn.id,
            "transcript_path": "<rollout>",
            "cwd": self.settings.cwd,
            "hook_event_name": event.name(),
            "model": model,
            "trigger": trigger,
        });
        let answers = self.run_hooks(event, trigger, &input);
        if answers.iter().any(|answer| answer.status == "stopped") {
            return Err(Failure::stopped());
        }
        Ok(())
    }

    /// Warns of hooks that can never run: their matcher is no regular expression.
    pub(crate) fn warn_of_matchers(&self) {
        for matcher in self
            .settings
            .hooks
            .iter()
            .filter_map(|hook| hook.matcher.as_ref())
        {
            if let Some(error) = pattern(matcher).and_then(Result::err) {
                let file = &self.settings.hooks_file;
                self.ports.observer.event(Event::Warning {
                    message: format!("invalid matcher {matcher:?} in {file}: {error}"),
                });
            }
        }
    }

    /// Runs the hooks at the start for each source that waits; `false` where one stops the turn.
    pub(crate) fn start_hooks(&mut self, turn: &Turn) -> bool {
        while let Some(source) = self.starts.pop_front() {
            let mode = match self.settings.approval.as_str() {
                "never" => "bypassPermissions",
                _ => "default",
            };
            let input = json!({
                "session_id": self.root,
                "transcript_path": "<rollout>",
                "cwd": self.settings.cwd,
                "hook_event_name": HookEvent::SessionStart.name(),
                "model": self.settings.model.slug,
                "permission_mode": mode,
                "source": source,
            });
            let answers = self.run_hooks(HookEvent::SessionStart, source, &input);
            let stopped = answers.iter().any(|answer| answer.status == "stopped");
            for context in answers.into_iter().filter_map(|answer| answer.context) {
                let kind = "hooks.additional_context";
                self.record_words(turn, "developer", kind, &context, true);
            }
            if stopped {
                return false;
            }
        }
        true
    }

    /// Runs the hooks of an event for a trigger or source, all of them.
    fn run_hooks(&self, event: HookEvent, word: &str, input: &Value) -> Vec<Answer> {
        let hooks = self.settings.hooks.iter().enumerate();
        let due: Vec<usize> = hooks
            .filter(|(_, hook)| hook.is_for(event, word))
            .map(|(place, _)| place)
            .collect();
        for _ in &due {
            self.ports.observer.event(Event::HookStarted {
                hook: event.client_name(),
            });
        }
        due.into_iter()
            .map(|place| {
                let answer = event.answer(&self.ports.hooks.run(place, input));
                let entries = answer.entries.iter();
                self.ports.observer.event(Event::HookCompleted {
                    hook: event.client_name(),
                    status: answer.status,
                    entries: entries
                        .map(|(kind, text)| json!({"kind": kind, "text": text}))
                        .collect(),
                    input: input.clone(),
                });
                answer
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matcher_is_a_list_of_words_or_a_regular_expression() {
        for (matcher, word, expected) in [
            ("", "manual", true),
            ("*", "manual", true),
            ("manual", "manual", true),
            ("man", "manual", false),
            ("auto|manual", "manual", true),
            ("man.*", "manual", true),
            ("nua.", "manual", true),
            ("^anual", "manual", false),
            ("(", "manual", false),
        ] {
            assert_eq!(matches(matcher, word), expected, "{matcher}");
        }
    }
}
