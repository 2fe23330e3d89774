//! Checkpoints: which response wrote the summary, who asked for it, and when.

use serde_json::{Value, json};

use super::read::Entry;
use super::replies::{Response, Task};

/// A compaction that became a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Compaction {
    /// The provider compacted, and the history holds what it gave.
    pub(super) remote: bool,
    /// `pre_turn`, `mid_turn`, `post_turn`; `None` for one of its own.
    pub(super) phase: Option<&'static str>,
}

/// Adds the response that a checkpoint was made of.
pub(super) fn add(task: &mut Task, entry: &Entry) {
    let history = entry.payload["replacement_history"].as_array();
    let given = |item: &&Value| {
        ["compaction", "compaction_summary"].contains(&item["type"].as_str().unwrap_or_default())
    };
    let item = history.into_iter().flatten().rev().find(given);
    let message = entry.payload["message"].as_str().unwrap_or_default();
    let summary = Compaction {
        remote: item.is_some() || message.is_empty(),
        // Known when the whole task is read.
        phase: None,
    };
    // Before the input and in a task of its own nothing else asks.
    let early = task.user.is_none();
    let fresh = task.responses.last_mut().filter(|last| {
        let fits = early || last_text(last).is_some_and(|text| message.ends_with(&text));
        let fits = last.items.is_empty() || (fits && !summary.remote);
        last.compaction.is_none() && last.completed && fits
    });
    let mut response = if let Some(last) = fresh {
        std::mem::take(last)
    } else {
        task.responses.push(Response::default());
        Response {
            place: entry.place,
            completed: true,
            ..Response::default()
        }
    };
    if summary.remote {
        response.items = item.cloned().into_iter().collect();
    } else if response.items.is_empty() {
        let text = without_prefix(message);
        let part = json!({"type": "output_text", "text": text});
        let said = json!({"type": "message", "role": "assistant", "content": [part]});
        response.items.push(said);
    }
    response.compaction = Some(summary);
    if let Some(last) = task.responses.last_mut() {
        *last = response;
    }
}

/// Messages of context that a checkpoint alone holds.
pub(super) fn context(checkpoint: &Value) -> Vec<Value> {
    const HEADS: [&str; 4] = [
        "<model_switch>",
        "<permissions instructions>",
        "<environment_context>",
        "# AGENTS.md instructions for ",
    ];
    let history = checkpoint["replacement_history"].as_array();
    let messages = history.into_iter().flatten().filter_map(|message| {
        let known = |part: &&Value| {
            let text = part["text"].as_str().unwrap_or_default();
            HEADS.iter().any(|head| text.starts_with(head))
        };
        let parts: Vec<&Value> = message["content"]
            .as_array()?
            .iter()
            .filter(known)
            .collect();
        (!parts.is_empty()).then(|| json!({"role": message["role"], "content": parts}))
    });
    messages.collect()
}

fn last_text(response: &Response) -> Option<String> {
    let messages = response.items.iter().rev();
    let mut messages = messages.filter(|item| item["type"] == "message");
    let parts = messages.next()?["content"].as_array()?;
    parts.iter().map(|part| part["text"].as_str()).collect()
}

/// The summary behind its prefix, which ends with a line end.
fn without_prefix(message: &str) -> &str {
    let known = engine::texts::KNOWN.iter();
    let mut known = known.filter(|known| known.id == "summary_prefix");
    let ours = known.next().map_or("", |known| known.ours);
    let rest = message
        .strip_prefix(ours)
        .map(|rest| rest.strip_prefix('\n').unwrap_or(rest));
    // The prefix of a binary that is not calibrated here is one paragraph.
    rest.unwrap_or_else(|| message.split_once('\n').map_or(message, |(_, rest)| rest))
}

/// Says when each compaction of a task was.
pub(super) fn phases(task: &mut Task) {
    let alone = is_alone(task);
    let count = task.responses.len();
    let sampled: Vec<bool> = task
        .responses
        .iter()
        .map(|r| r.compaction.is_none())
        .collect();
    for (index, response) in task.responses.iter_mut().enumerate() {
        let Some(compaction) = &mut response.compaction else {
            continue;
        };
        compaction.phase = if alone {
            None
        } else if !sampled[..index].contains(&true) {
            Some("pre_turn")
        } else if sampled[index + 1..count].contains(&true) {
            Some("mid_turn")
        } else {
            Some("post_turn")
        };
    }
}

/// Whether the task is a compaction of its own: it had no input and asked for nothing else.
pub(super) fn is_alone(task: &Task) -> bool {
    let sampled = task.responses.iter().any(|response| {
        response.compaction.is_none() && (response.completed || !response.items.is_empty())
    });
    let compacted = task
        .responses
        .iter()
        .any(|response| response.compaction.is_some());
    task.user.is_none() && !sampled && (compacted || task.context.is_none())
}
