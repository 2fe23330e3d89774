//! What the client and, as events, the rollout are told about items.

use serde_json::{Value, json};

use crate::contextual;
use crate::events::Event;
use crate::images;
use crate::items::{self, Item};
use crate::profile::Profile;
use crate::session::Session;
use crate::turn::Turn;

impl Session {
    /// `item_completed` of a paginated file.
    pub(crate) fn record_item_completed(&mut self, turn: &str, item: &Value) {
        if !self.recorder.paginated() {
            return;
        }
        let now = self.ports.clock.now_ms();
        let event = json!({
            "type": "item_completed",
            "thread_id": self.thread,
            "turn_id": turn,
            "item": item,
            "started_at_ms": now,
            "completed_at_ms": now,
        });
        self.recorder.event(event);
    }

    /// Id of a message that the client sees: its own, else one made for the event (0.144).
    fn shown_id(&self, item: &Item) -> String {
        let own = item.payload.get("id").and_then(Value::as_str);
        own.map_or_else(|| self.ports.ids.uuid(), str::to_owned)
    }

    pub(crate) fn announce_message(&mut self, turn: &Turn, item: &Item) {
        let id = self.shown_id(item);
        let text = item.texts().concat();
        self.announce_item("agentMessage", &id, json!(text));
        if self.recorder.paginated() {
            let content = json!([{"type": "Text", "text": text}]);
            let mut completed = json!({"type": "AgentMessage", "id": id, "content": content});
            if let Some(phase) = item.payload.get("phase") {
                completed["phase"] = phase.clone();
            }
            self.record_item_completed(&turn.id, &completed);
        } else {
            let phase = item.payload.get("phase").cloned().unwrap_or(Value::Null);
            let event = json!({"type": "agent_message", "message": text, "phase": phase,
                "memory_citation": null});
            self.recorder.event(event);
        }
    }

    /// `content`: as it came, with parts that are not kept.
    pub(crate) fn announce_reasoning(&mut self, turn: &Turn, item: &Item, content: &Value) {
        let id = own_id(item);
        let summary = items::content_texts(item.payload.get("summary"));
        let content = items::content_texts(Some(content));
        self.announce_item(
            "reasoning",
            &id,
            json!({"summary": summary, "content": content}),
        );
        if self.recorder.paginated() {
            let completed = json!({"type": "Reasoning", "id": id, "summary_text": summary,
                "raw_content": content});
            self.record_item_completed(&turn.id, &completed);
        } else {
            for text in summary {
                self.recorder
                    .event(json!({"type": "agent_reasoning", "text": text}));
            }
        }
    }

    /// What hooks had to say, in a message of the user.
    pub(crate) fn announce_hook_prompt(&mut self, turn: &Turn, item: &Item) {
        let texts = item.texts();
        let prompts = texts
            .iter()
            .filter_map(|text| contextual::hook_prompt(text));
        let fragments: Vec<Value> = prompts
            .map(|prompt| json!({"text": prompt.text, "hookRunId": prompt.run}))
            .collect();
        if fragments.is_empty() {
            return;
        }
        let id = self.shown_id(item);
        let shown = json!({"fragments": fragments});
        self.announce_item("hookPrompt", &id, shown);
        let completed = json!({"type": "HookPrompt", "id": id, "fragments": fragments});
        self.record_item_completed(&turn.id, &completed);
    }

    /// A finished search of the provider.
    pub(crate) fn announce_search(&mut self, turn: &Turn, item: &Item) {
        let id = own_id(item);
        let action = item
            .payload
            .get("action")
            .filter(|action| action.is_object());
        let action = action.cloned().unwrap_or_else(|| json!({"type": "other"}));
        let query = query(&action);
        let mut shown = json!({"query": query, "action": client_action(&action)});
        if self.profile.wide_metadata {
            shown["results"] = Value::Null;
        }
        self.announce_item("webSearch", &id, shown);
        if self.recorder.paginated() {
            let completed =
                json!({"type": "WebSearch", "id": id, "query": query, "action": action});
            self.record_item_completed(&turn.id, &completed);
        } else {
            let event = json!({"type": "web_search_end", "call_id": id, "query": query,
                "action": action});
            self.recorder.event(event);
        }
    }

    fn announce_item(&self, kind: &'static str, id: &str, shown: Value) {
        self.ports.observer.event(Event::ItemStarted {
            kind,
            id: id.to_owned(),
        });
        self.ports.observer.event(Event::ItemCompleted {
            kind,
            id: id.to_owned(),
            shown,
        });
    }

    /// Records user input and its event.
    pub(crate) fn record_user(&mut self, turn: &Turn, parts: &[Value], order: u64) {
        let content: Vec<Value> = parts.iter().map(wire_part).collect();
        let kinds: Vec<&str> = parts.iter().map(part_kind).collect();
        let metadata = vec![json!({"provenance": {"type": "user"}}); parts.len()];
        let mut item = items::message("user", None, content);
        item.passthrough
            .insert("content_item_kinds".to_owned(), json!(kinds));
        item.passthrough
            .insert("content_item_metadata".to_owned(), Value::Array(metadata));
        self.prepare(&mut item, &turn.id, true);
        item.meta.user_input_order = Some(order);
        item.meta.mcp_attribution |= !contextual::is_contextual(&item);
        let all_text = item.texts().len() == parts.len();
        if all_text {
            self.retain(&mut item, &turn.id, "user", true);
        } else {
            // What stands for an image that cannot be sent is retained with the texts.
            let mut seen = item.clone();
            images::prepare(&mut seen);
            let text = seen.texts().join("\n");
            self.retain_text(&mut item, &text, &turn.id, "user", false);
        }
        self.commit(item);
        let client_id = self.remarks.message_id.take();
        self.announce_user(turn, parts, client_id);
    }

    /// Tells the client and the rollout of a message of the user (parts in app-server shape).
    pub(crate) fn announce_user(
        &mut self,
        turn: &Turn,
        parts: &[Value],
        client_id: Option<String>,
    ) {
        let id = self.ports.ids.uuid();
        let stored: Vec<Value> = parts.iter().map(stored_part).collect();
        let seen = match stored.as_slice() {
            [only] if only["type"] == "text" => only["text"].clone(),
            _ => parts
                .iter()
                .map(|part| client_part(part, &self.profile))
                .collect(),
        };
        self.announce_item("userMessage", &id, seen);
        if self.recorder.paginated() {
            let mut completed = json!({"type": "UserMessage", "id": id});
            if let Some(id) = client_id {
                completed["client_id"] = json!(id);
            }
            completed["content"] = json!(stored);
            self.record_item_completed(&turn.id, &completed);
        } else {
            let images: Vec<&Value> = parts.iter().filter_map(|part| part.get("url")).collect();
            let mut event = json!({"type": "user_message"});
            if let Some(id) = client_id {
                event["client_id"] = json!(id);
            }
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            event["message"] = json!(texts.collect::<String>());
            event["images"] = json!(images);
            let details: Vec<&Value> = parts.iter().filter_map(|part| part.get("detail")).collect();
            if !details.is_empty() {
                event["image_details"] = json!(details);
            }
            if self.profile.wide_metadata && !images.is_empty() {
                // All images of an input stand in it; a file would have a place of its own.
                event["image_order"] = json!(vec!["inline"; images.len()]);
            }
            event["local_images"] = json!([]);
            if self.profile.wide_metadata {
                event["audio"] = json!([]);
                event["local_audio"] = json!([]);
            }
            event["text_elements"] = json!([]);
            self.recorder.event(event);
        }
    }
}

/// A part of the user's input as a content part.
fn wire_part(part: &Value) -> Value {
    match part["type"].as_str() {
        Some("image") => {
            let detail = part["detail"].as_str().unwrap_or("high");
            json!({"type": "input_image", "image_url": part["url"], "detail": detail})
        }
        _ => json!({"type": "input_text", "text": part["text"]}),
    }
}

fn part_kind(part: &Value) -> &'static str {
    match part["type"].as_str() {
        Some("image") => "user.image",
        _ => "user.text",
    }
}

/// A part of the user's input as an `item_completed` line holds it.
fn stored_part(part: &Value) -> Value {
    match part["type"].as_str() {
        Some("image") => image("image_url", &part["url"], part.get("detail")),
        _ => json!({"type": "text", "text": part["text"], "text_elements": []}),
    }
}

/// An image under the key of its place, with a detail where there is one.
pub(crate) fn image(key: &str, url: &Value, detail: Option<&Value>) -> Value {
    let mut image = json!({"type": "image", key: url});
    if let Some(detail) = detail {
        image["detail"] = detail.clone();
    }
    image
}

/// A part of the user's input as the client sees it.
fn client_part(part: &Value, profile: &Profile) -> Value {
    match part["type"].as_str() {
        Some("image") if profile.wide_metadata => {
            json!({"type": "image", "url": part["url"], "detail": part["detail"]})
        }
        Some("image") => json!({"type": "image", "detail": part["detail"], "url": part["url"]}),
        _ => json!({"type": "text", "text": part["text"], "text_elements": []}),
    }
}

/// An item's own id, or nothing.
fn own_id(item: &Item) -> String {
    let own = item.payload.get("id").and_then(Value::as_str);
    own.unwrap_or_default().to_owned()
}

/// One line that says what a search looked for.
fn query(action: &Value) -> String {
    let text = |key: &str| action[key].as_str().unwrap_or_default();
    match action["type"].as_str() {
        Some("search") if !text("query").is_empty() => text("query").to_owned(),
        Some("search") => {
            let queries = action["queries"].as_array();
            let mut queries = queries.into_iter().flatten().filter_map(Value::as_str);
            match (queries.next(), queries.next()) {
                (Some(first), Some(_)) => format!("{first} ..."),
                (first, _) => first.unwrap_or_default().to_owned(),
            }
        }
        Some("open_page") => text("url").to_owned(),
        Some("find_in_page") => match (text("pattern"), text("url")) {
            ("", url) => url.to_owned(),
            (pattern, "") => format!("'{pattern}'"),
            (pattern, url) => format!("'{pattern}' in {url}"),
        },
        _ => String::new(),
    }
}

/// An action as the client sees it: every key of its type, `null` where it is not said.
fn client_action(action: &Value) -> Value {
    let (name, keys): (&str, &[&str]) = match action["type"].as_str() {
        Some("search") => ("search", &["query", "queries"]),
        Some("open_page") => ("openPage", &["url"]),
        Some("find_in_page") => ("findInPage", &["url", "pattern"]),
        _ => ("other", &[]),
    };
    let mut shown = json!({"type": name});
    for key in keys {
        shown[*key] = action[*key].clone();
    }
    shown
}
