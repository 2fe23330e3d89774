//! Kinds of rollout records that a scenario asks about: a kind that no version writes, and that the
//! scenario does not bring itself, is a slip.

use std::fmt::Write as _;

use super::error::{Mark, Problem, nearest};
use super::rollout_steps::EditRollout;
use super::schema::{Scenario, Step};
use super::values::{Located, Text};
use crate::rollout_edit::ANY;

/// Types of records.
const TYPES: [&str; 9] = [
    "compacted",
    "event_msg",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "response_item",
    "session_meta",
    "token_usage_record",
    "turn_context",
    "world_state",
];

/// Types of payloads: those of all goldens, and those that only a client's own tools make.
const PAYLOADS: [(&str, &[&str]); 2] = [
    (
        "event_msg",
        &[
            "agent_message",
            "agent_reasoning",
            "agent_reasoning_raw_content",
            "context_compacted",
            "entered_review_mode",
            "error",
            "exec_command_end",
            "exited_review_mode",
            "image_generation_end",
            "item_completed",
            "item_started",
            "mcp_tool_call_end",
            "patch_apply_end",
            "task_complete",
            "task_started",
            "thread_name_updated",
            "thread_rolled_back",
            "thread_settings_applied",
            "token_count",
            "turn_aborted",
            "user_message",
            "view_image_tool_call",
            "warning",
            "web_search_end",
        ],
    ),
    (
        "response_item",
        &[
            "additional_tools",
            "agent_message",
            "compaction",
            "compaction_summary",
            "context_compaction",
            "custom_tool_call",
            "custom_tool_call_output",
            "function_call",
            "function_call_output",
            "ghost_snapshot",
            "image_generation_call",
            "local_shell_call",
            "message",
            "other",
            "reasoning",
            "tool_search_call",
            "tool_search_output",
            "web_search_call",
        ],
    ),
];

/// What tells payloads of a type apart: roles, and kinds of client items.
const THIRDS: [(&str, &[&str]); 3] = [
    (
        "message",
        &["assistant", "developer", "system", "tool", "user"],
    ),
    ("item_completed", &ITEMS),
    ("item_started", &ITEMS),
];
const ITEMS: [&str; 14] = [
    "AgentMessage",
    "CollabAgentToolCall",
    "CommandExecution",
    "ContextCompaction",
    "DynamicToolCall",
    "FileChange",
    "HookPrompt",
    "ImageGeneration",
    "ImageView",
    "McpToolCall",
    "Plan",
    "Reasoning",
    "UserMessage",
    "WebSearch",
];

/// Every kind that nobody writes.
pub(super) fn problems(scenario: &Scenario) -> Vec<Problem> {
    let mut brought = None;
    let mut found = Vec::new();
    for (at, kind) in asked(scenario) {
        let Some((word, valid)) = unknown(kind) else {
            continue;
        };
        // What the scenario sends, injects or writes into the file may be of any kind.
        if !word.is_empty() && brought.get_or_insert_with(|| own(scenario)).contains(word) {
            continue;
        }
        let what = format!("no version writes a record `{kind}`");
        let help = match nearest(word, valid.iter().copied()) {
            Some(near) => format!("did you mean `{near}` for `{word}`?"),
            None if word.is_empty() => "a part of the kind is empty".to_owned(),
            None => format!("`{word}` is none of {}", valid.join(", ")),
        };
        found.push(Problem::new(at, what).help(help));
    }
    found
}

/// The first part of a kind that is not known, and what is known there.
fn unknown(kind: &str) -> Option<(&str, &'static [&'static str])> {
    if kind == ANY {
        return None;
    }
    let mut valid: &'static [&'static str] = &TYPES;
    let mut before: Option<&str> = None;
    for word in kind.split('/') {
        if let Some(before) = before {
            let mut tables = PAYLOADS.iter().chain(&THIRDS);
            valid = match tables.find(|(of, _)| *of == before) {
                Some((_, words)) => words,
                // A role stands behind items of other kinds as well.
                None if valid != TYPES => THIRDS[0].1,
                None => &[],
            };
        }
        if !valid.contains(&word) {
            return Some((word, valid));
        }
        before = Some(word);
    }
    None
}

fn asked(scenario: &Scenario) -> Vec<(Mark, &str)> {
    let steps = scenario.steps.0.iter();
    let edits = steps.filter_map(|Located { at, value }| {
        let record = value.edit_rollout.as_ref()?.record.as_ref()?;
        Some((
            *at,
            record.first.as_ref().or(record.last.as_ref())?.as_str(),
        ))
    });
    let expect = scenario.expect.iter().flat_map(|expect| &expect.rollout.0);
    let top = Mark { line: 1, column: 1 };
    edits
        .chain(expect.map(|(kind, _)| (top, kind.as_str())))
        .collect()
}

/// What the scenario brings into the thread, as one text to look for words in.
fn own(scenario: &Scenario) -> String {
    let mut text = String::new();
    for Located { value: step, .. } in &scenario.steps.0 {
        let Step {
            inject,
            resume,
            replies,
            edit_rollout,
            ..
        } = step;
        let injected = inject
            .iter()
            .flat_map(|list| &list.0)
            .map(|item| &item.value);
        let supplied = resume
            .iter()
            .flat_map(|resume| resume.history.iter().flatten());
        let replies = replies.0.iter().flat_map(|reply| {
            let reply = &reply.value;
            let items = reply.items.iter().flat_map(|items| &items.0);
            let raw = items.filter_map(|item| item.value.raw.as_ref());
            let events = reply.events.iter().flatten();
            reply.raw.iter().chain(raw).chain(events)
        });
        for value in injected.chain(supplied).chain(replies) {
            // Writing into a text cannot fail.
            let _ = writeln!(text, "{value}");
        }
        for line in edit_rollout.iter().flat_map(written) {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Texts that an edit writes into the file.
fn written(edit: &EditRollout) -> Vec<String> {
    let append = edit
        .append
        .iter()
        .flat_map(|append| [&append.line, &append.open]);
    let replace = edit.replace.iter().flat_map(|by| [&by.line, &by.by]);
    let texts = append.chain(replace).flatten();
    let values = edit.replace.iter().filter_map(|by| by.value.as_ref());
    texts
        .filter_map(|line: &Text| super::texts::text(line).ok())
        .chain(values.map(ToString::to_string))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_each_depth_are_known() {
        for kind in [
            "any",
            "compacted",
            "response_item",
            "response_item/message/user",
            "response_item/additional_tools/developer",
            "event_msg/item_completed/Reasoning",
            "event_msg/token_count",
        ] {
            assert_eq!(unknown(kind), None, "{kind}");
        }
        for (kind, word) in [
            ("", ""),
            ("respones_item", "respones_item"),
            ("response_item/massage", "massage"),
            ("response_item/message/usr", "usr"),
            ("event_msg/", ""),
            ("compacted/user", "user"),
            ("event_msg/turn_abortd", "turn_abortd"),
        ] {
            assert_eq!(unknown(kind).map(|(word, _)| word), Some(word), "{kind}");
        }
    }
}
