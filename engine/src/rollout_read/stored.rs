//! What a record says beside its item: the passthrough and the metadata.

use serde_json::Value;

use crate::items::{Item, Meta, Retained};
use crate::truncate;

/// Takes over what the record says beside the item.
pub(super) fn read(item: &mut Item, payload: &Value, metadata: &Value) {
    if let Some(passthrough) = payload["internal_chat_message_metadata_passthrough"].as_object() {
        item.passthrough.clone_from(passthrough);
    }
    item.meta = Meta {
        history_sequence: metadata["history_sequence"].as_u64().unwrap_or(0),
        sampled_through: metadata["sampled_through_sequence"].as_u64().unwrap_or(0),
        retained: retained(&metadata["retained_source"], item),
        user_input_order: metadata["user_input_order"].as_u64(),
        mcp_attribution: metadata["mcp_attribution"].is_object(),
        fallback_token_limit: metadata["fallback_token_limit_override"].as_u64(),
        supplied_thread: metadata["model_search_state"] == "search_mcp"
            || metadata["mcp_attribution"]["status"] == "attribution_error",
        context_output: metadata["additional_context_tool_output"] == Value::Bool(true),
        opaque: item.kind() == "compaction",
        model_hash: metadata["compaction_model_hash"]
            .as_str()
            .map(str::to_owned),
        compaction_output: metadata["compaction_output"] == Value::Bool(true),
    };
}

fn retained(source: &Value, item: &Item) -> Option<Retained> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some(Retained {
        revision: text(&source["revision"])?,
        message_id: text(&source["id"]["message_id"])?,
        turn_id: text(&source["id"]["turn_id"])?,
        role: if source["id"]["role"] == "user" {
            "user"
        } else {
            "assistant"
        },
        complete: source["complete"] == Value::Bool(true),
        text: truncate::retained(&item.texts().join("\n")),
    })
}
