//! The rows of the coverage table: those that have to be there, and those a scenario fills.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Row;
use crate::mask::{Masked, MaskedRequest};
use crate::scenario::schema::Scenario;

const ITEM: &str = "item";
const EVENT: &str = "client event";
const RECORD: &str = "rollout record";
const FIELD: &str = "request field";
const BRANCH: &str = "compaction";
const FAULT: &str = "fault";

/// Rows that stand in the table even if no scenario fills them.
pub(super) const KNOWN: &[(&str, &[&str])] = &[
    (
        ITEM,
        &[
            "message user",
            "message assistant",
            "message developer",
            "part input_image",
            "part input_audio",
            "reasoning",
            "function_call",
            "function_call_output",
            "custom_tool_call",
            "custom_tool_call_output",
            "local_shell_call",
            "tool_search_call",
            "tool_search_output",
            "web_search_call",
            "image_generation_call",
            "additional_tools",
            "agent_message",
            "compaction",
            "compaction_trigger",
        ],
    ),
    (
        EVENT,
        &[
            "turn_started",
            "turn_ended completed",
            "turn_ended failed",
            "turn_ended interrupted",
            "item userMessage",
            "item agentMessage",
            "item reasoning",
            "item dynamicToolCall",
            "item contextCompaction",
            "token_usage",
            "warning",
            "error",
        ],
    ),
    (
        FIELD,
        &[
            "instructions",
            "tools",
            "parallel_tool_calls true",
            "parallel_tool_calls false",
            "reasoning.effort",
            "reasoning.summary",
            "reasoning.context",
            "service_tier",
            "text.verbosity",
            "text.format",
            "previous_response_id",
            "generate",
            "lite header",
            "turn state header",
            "passthrough turn_id",
            "passthrough content_item_kinds",
            "passthrough create_time",
            "passthrough executed_tool_calls",
        ],
    ),
    (
        BRANCH,
        &[
            "responses pre_turn context_limit",
            "responses mid_turn context_limit",
            "responses post_turn context_limit",
            "responses standalone_turn user_requested",
            "responses pre_turn comp_hash_changed",
            "responses pre_turn model_downshift",
            "responses_compact pre_turn context_limit",
            "responses_compact mid_turn context_limit",
            "responses_compact standalone_turn user_requested",
            "responses_compaction_v2 pre_turn context_limit",
            "responses_compaction_v2 mid_turn context_limit",
            "responses_compaction_v2 post_turn context_limit",
            "responses_compaction_v2 standalone_turn user_requested",
            "responses_compaction_v2 pre_turn comp_hash_changed",
            "responses_compaction_v2 pre_turn model_downshift",
        ],
    ),
    (
        FAULT,
        &[
            "http 400",
            "http 401",
            "http 404",
            "http 429",
            "http 500",
            "http 503",
            "handshake",
            "failed",
            "incomplete",
            "cut",
            "stall",
            "drop_connection",
            "no_completed",
            "malformed_event",
            "duplicate_event",
            "websocket_close",
            "error_frame",
        ],
    ),
];

/// Rows that a golden fills.
pub fn of_golden(golden: &Masked) -> BTreeSet<Row> {
    let mut rows = BTreeSet::new();
    for request in &golden.wire {
        request_rows(request, &mut rows);
    }
    for event in &golden.events {
        let word = |key: &str| event[key].as_str().unwrap_or_default();
        let name = match word("event") {
            "turn_ended" => format!("turn_ended {}", word("status")),
            "item_completed" => format!("item {}", word("item")),
            "item_started" => continue,
            other => other.to_owned(),
        };
        rows.insert((EVENT, name));
    }
    for record in golden.rollouts.iter().flat_map(|file| &file.records) {
        let kind = record["type"].as_str().unwrap_or("$raw");
        let payload = record.pointer("/payload/type").and_then(Value::as_str);
        let name = payload.map_or(kind.to_owned(), |payload| format!("{kind} {payload}"));
        rows.insert((RECORD, name));
    }
    rows
}

fn request_rows(request: &MaskedRequest, rows: &mut BTreeSet<Row>) {
    let body = &request.body;
    let items = body["input"].as_array().into_iter().flatten();
    for item in items {
        let kind = item["type"].as_str().unwrap_or_default();
        let role = item["role"].as_str().filter(|_| kind == "message");
        rows.insert((
            ITEM,
            role.map_or(kind.to_owned(), |role| format!("{kind} {role}")),
        ));
        for part in ["content", "output"]
            .iter()
            .filter_map(|key| item[*key].as_array())
            .flatten()
        {
            if let Some(kind) = part["type"].as_str().filter(|kind| !kind.contains("text")) {
                rows.insert((ITEM, format!("part {kind}")));
            }
        }
        let known = &item["internal_chat_message_metadata_passthrough"];
        for key in known.as_object().into_iter().flat_map(|map| map.keys()) {
            rows.insert((FIELD, format!("passthrough {key}")));
        }
    }
    for key in [
        "instructions",
        "tools",
        "service_tier",
        "previous_response_id",
        "generate",
    ] {
        if body.get(key).is_some() {
            rows.insert((FIELD, key.to_owned()));
        }
    }
    for parent in ["reasoning", "text"] {
        for key in body[parent]
            .as_object()
            .into_iter()
            .flat_map(|map| map.keys())
        {
            rows.insert((FIELD, format!("{parent}.{key}")));
        }
    }
    if let Some(parallel) = body["parallel_tool_calls"].as_bool() {
        rows.insert((FIELD, format!("parallel_tool_calls {parallel}")));
    }
    let headers = [
        ("x-openai-internal-codex-responses-lite", "lite header"),
        ("x-codex-turn-state", "turn state header"),
    ];
    for (name, row) in headers {
        if request.headers.iter().any(|(header, _)| header == name) {
            rows.insert((FIELD, row.to_owned()));
        }
    }
    let compaction = body.pointer("/client_metadata/x-codex-turn-metadata/$json/compaction");
    let header = request
        .headers
        .iter()
        .find(|(name, _)| name == "x-codex-turn-metadata");
    let in_header = header.and_then(|(_, text)| serde_json::from_str::<Value>(text).ok());
    let in_header = in_header
        .as_ref()
        .and_then(|json| json.pointer("/$json/compaction"));
    if let Some(compaction) = compaction.or(in_header) {
        let word = |key: &str| compaction[key].as_str().unwrap_or("?");
        let [how, phase, why] = ["implementation", "phase", "reason"].map(word);
        rows.insert((BRANCH, format!("{how} {phase} {why}")));
    }
}

/// Faults that a scenario scripts for a version.
pub fn of_plan(scenario: &Scenario, version: &semver::Version) -> BTreeSet<Row> {
    let mut rows = BTreeSet::new();
    let replies = scenario
        .steps
        .0
        .iter()
        .flat_map(|step| &step.value.replies.0);
    for reply in replies {
        let range = reply
            .value
            .versions
            .as_ref()
            .map(|range| range.value.as_str());
        let applies = range.is_none_or(|range| {
            crate::scenario::values::version_range(range).is_ok_and(|range| range.matches(version))
        });
        let Some(fault) = reply.value.fault.as_ref().filter(|_| applies) else {
            continue;
        };
        let names = [
            ("handshake", fault.handshake.is_some()),
            ("failed", fault.failed.is_some()),
            ("incomplete", fault.incomplete.is_some()),
            ("cut", fault.cut.is_some()),
            ("stall", fault.stall.is_some()),
            ("drop_connection", fault.drop_connection.is_some()),
            ("no_completed", fault.no_completed.is_some()),
            ("malformed_event", fault.malformed_event.is_some()),
            ("duplicate_event", fault.duplicate_event.is_some()),
            ("websocket_close", fault.websocket_close.is_some()),
            ("error_frame", fault.error_frame.is_some()),
        ];
        rows.extend(
            names
                .iter()
                .filter(|(_, there)| *there)
                .map(|(name, _)| (FAULT, (*name).to_owned())),
        );
        rows.extend(
            fault
                .http
                .map(|status| (FAULT, format!("http {}", status.0))),
        );
    }
    rows
}
