//! Context that the client supplies with a turn: recorded where its text is new, kept over a
//! compaction from 0.171 on.

use serde_json::{Map, Value, json};

use crate::items::{self, Item};
use crate::session::Session;
use crate::truncate;
use crate::{context, contextual};

/// One entry of client context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientContext {
    /// Name given by the client.
    pub name: String,
    /// Written by the application; otherwise not to be trusted.
    pub application: bool,
    /// The text.
    pub text: String,
}

/// Prefix of the content kind of a message that carries client context.
const KIND: &str = "additional_content.";

impl Session {
    /// Records the entries that the input before did not have. What an input leaves out is
    /// forgotten, a steer leaves all out (`context.client.forgotten`).
    pub(crate) fn record_client_context(&mut self, turn: &str) {
        let mut entries = std::mem::take(&mut self.remarks.context);
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let before = std::mem::take(&mut self.client_context);
        for entry in entries {
            if let Some(known) = before.iter().find(|(known, _)| *known == entry) {
                self.client_context.push(known.clone());
                continue;
            }
            let mut item = self.context_item(&entry);
            let output = item.kind() == "function_call_output";
            self.prepare(&mut item, turn, true);
            item.meta.mcp_attribution |= item.role() == "user" && !contextual::is_contextual(&item);
            if output {
                item.meta.context_output = true;
                let tokens = truncate::override_tokens(self.settings.truncation());
                item.meta.fallback_token_limit = Some(tokens);
            }
            self.client_context
                .push((entry, item.id().unwrap_or_default().to_owned()));
            self.commit(item);
        }
    }

    /// What a compaction keeps, with the context of the newest input before its last message of
    /// the user (0.171). Context of earlier inputs is gone.
    pub(crate) fn with_client_context(&self, mut kept: Vec<Item>) -> Vec<Item> {
        if !self.profile.client_context_as_output {
            return kept;
        }
        let recorded = |id: &str| {
            self.history
                .items()
                .iter()
                .rfind(|item| item.id() == Some(id))
        };
        let said = self.client_context.iter();
        let said: Vec<Item> = said.filter_map(|(_, id)| recorded(id).cloned()).collect();
        let place = kept.iter().rposition(context::is_real_user_message);
        let place = place.unwrap_or(kept.len());
        kept.splice(place..place, said);
        kept
    }

    fn context_item(&self, entry: &ClientContext) -> Item {
        if !entry.application && self.profile.client_context_as_output {
            let mut map = Map::new();
            for (key, value) in [
                ("type", "function_call_output"),
                ("name", &tool_name(&entry.name)),
                ("namespace", "agent"),
                ("output", &entry.text),
            ] {
                map.insert(key.to_owned(), json!(value));
            }
            return Item::new(map);
        }
        let (role, tag) = if entry.application {
            ("developer", entry.name.clone())
        } else {
            ("user", format!("{EXTERNAL}{}", entry.name))
        };
        let text = format!("<{tag}>{}</{tag}>", entry.text);
        let content = vec![json!({"type": "input_text", "text": text})];
        let mut item = items::message(role, None, content);
        item.passthrough.insert(
            "content_item_kinds".to_owned(),
            json!([format!("{KIND}{}", entry.name)]),
        );
        item.passthrough.insert(
            "content_item_metadata".to_owned(),
            json!([{"provenance": {"type": "harness", "hook": false}}]),
        );
        item
    }
}

/// The name of an entry as one of a tool: letters, digits and `_`; a blank is `_`.
fn tool_name(name: &str) -> String {
    let kept = name.chars().filter_map(|c| match c {
        ' ' => Some('_'),
        c => (c.is_ascii_alphanumeric() || c == '_').then_some(c),
    });
    let kept: String = kept.collect();
    if kept.is_empty() {
        return "untrusted_content".to_owned();
    }
    kept
}

/// Opening of the tag around a text that is not to be trusted.
pub(crate) const EXTERNAL: &str = "external_";

/// Whether an item carries context of the client.
pub(crate) fn is_client_context(item: &Item) -> bool {
    let kinds = item.passthrough.get("content_item_kinds");
    let named = kinds
        .and_then(Value::as_array)
        .and_then(|kinds| kinds.first()?.as_str())
        .is_some_and(|kind| kind.starts_with(KIND));
    named || item.meta.context_output
}
