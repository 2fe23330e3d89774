//! What a compaction keeps of the history: the user's messages within a budget of tokens.

use serde_json::{Value, json};

use crate::context;
use crate::history::seen_by;
use crate::items::Item;
use crate::planted::Planted;
use crate::profile::Profile;
use crate::session::Session;
use crate::settings::Model;
use crate::tokens::image_tokens;
use crate::truncate::{self, BYTES_PER_TOKEN, Budget};

/// Tokens of user text that survive a local compaction.
const KEPT_USER_TOKENS: u64 = 20_000;
/// Tokens of user messages that survive a remote compaction.
const KEPT_REMOTE_TOKENS: u64 = 64_000;

/// User messages that survive, newest first within the budget, returned oldest first.
pub(crate) fn kept_user_texts(history: &[Item], profile: &Profile) -> Vec<Item> {
    let mut left = KEPT_USER_TOKENS;
    let mut kept = Vec::new();
    for item in history
        .iter()
        .rev()
        .filter(|item| context::is_real_user_message(item))
    {
        if left == 0 {
            break;
        }
        let text = item.texts();
        let bytes: u64 = text.iter().map(|text| text.len() as u64).sum();
        let cost = bytes.div_ceil(BYTES_PER_TOKEN);
        if cost <= left {
            left -= cost;
            kept.push(without_images(item, profile));
        } else {
            let mut item = item.clone();
            if let Some(cut) = truncate::split(&text.concat(), Budget::of_tokens(left)) {
                cut_message(&mut item, &cut, profile);
            }
            kept.push(item);
            left = 0;
        }
    }
    if kept.len() > 1 && profile.plants(Planted::OldestTextLost) {
        kept.pop();
    }
    if !profile.plants(Planted::KeptReversed) {
        kept.reverse();
    }
    kept
}

/// Writes head, marker and tail: in one part on 0.144.6, in three later.
fn cut_message(item: &mut Item, cut: &[String; 3], profile: &Profile) {
    let part = |text: &str| json!({"type": "input_text", "text": text});
    if profile.joins_kept_parts {
        let content = json!([part(&cut.concat())]);
        item.payload.insert("content".to_owned(), content);
        return;
    }
    let content: Vec<Value> = cut.iter().map(|text| part(text)).collect();
    item.payload
        .insert("content".to_owned(), Value::Array(content));
    let user = json!({"provenance": {"type": "user"}});
    let marker = json!({"provenance": {"type": "harness", "hook": false}});
    let kinds = json!(["user.text", "unknown", "user.text"]);
    item.passthrough
        .insert("content_item_kinds".to_owned(), kinds);
    item.passthrough.insert(
        "content_item_metadata".to_owned(),
        json!([user, marker, user]),
    );
}

fn without_images(item: &Item, profile: &Profile) -> Item {
    if profile.plants(Planted::ImagesKept) {
        return item.clone();
    }
    let texts = item.texts();
    let parts = item.payload["content"].as_array().map_or(0, Vec::len);
    if texts.len() == parts && (texts.len() == 1 || !profile.joins_kept_parts) {
        return item.clone();
    }
    let part = |text: &str| json!({"type": "input_text", "text": text});
    let content: Vec<Value> = if profile.joins_kept_parts || texts.is_empty() {
        vec![part(&texts.concat())]
    } else {
        texts.iter().map(|text| part(text)).collect()
    };
    let mut kept = item.clone();
    if texts.is_empty() {
        kept.passthrough.shift_remove("content_item_metadata");
        if let Some(kinds) = kept.passthrough.get_mut("content_item_kinds") {
            *kinds = json!(["unknown"]);
        }
    } else {
        keep_text_parts(&mut kept, &item.payload["content"]);
    }
    kept.payload
        .insert("content".to_owned(), Value::Array(content));
    kept
}

impl Session {
    /// User messages and hook prompts that a remote compaction keeps, oldest first: cut part by
    /// part, images in place as the model that is asked sees them (compaction.md §6.4).
    pub(super) fn kept_user_items(&self, asked: &Model) -> Vec<Item> {
        if self.profile.plants(Planted::RemoteTextsLost) {
            return Vec::new();
        }
        let mut left = KEPT_REMOTE_TOKENS;
        let mut kept = Vec::new();
        let items = self.history.items().iter().rev();
        let items = items.map(|item| seen_by(item, asked, &self.profile));
        for item in items.filter(context::is_kept_remotely) {
            if left == 0 {
                break;
            }
            let cost = self.kept_cost(&item);
            if cost <= left {
                left -= cost;
                kept.push(item);
                continue;
            }
            if let Some(cut) = cut_parts(&item, left) {
                kept.push(cut);
            }
            left = 0;
        }
        kept.reverse();
        kept
    }

    fn kept_cost(&self, item: &Item) -> u64 {
        let texts: u64 = item
            .texts()
            .iter()
            .map(|text| (text.len() as u64).div_ceil(BYTES_PER_TOKEN))
            .sum();
        let images = if self.profile.counts_kept_images {
            image_tokens(item)
        } else {
            0
        };
        texts + images
    }
}

/// Leaves of what is known by part only that of text parts.
fn keep_text_parts(item: &mut Item, content: &Value) {
    for key in ["content_item_kinds", "content_item_metadata"] {
        if let Some(Value::Array(known)) = item.passthrough.get_mut(key) {
            let mut index = 0;
            known.retain(|_| {
                index += 1;
                content[index - 1]["text"].is_string()
            });
        }
    }
}

/// A message within `left` tokens: its parts in order, the one that does not fit cut, later ones
/// dropped. `None` where it holds an image: such a message is dropped whole.
fn cut_parts(item: &Item, mut left: u64) -> Option<Item> {
    let mut item = item.clone();
    let parts = item.payload.get_mut("content")?.as_array_mut()?;
    if parts.iter().any(|part| part["type"] == "input_image") {
        return None;
    }
    let mut kept = Vec::new();
    for part in std::mem::take(parts) {
        if left == 0 {
            break;
        }
        let text = part["text"].as_str().unwrap_or_default();
        let cost = (text.len() as u64).div_ceil(BYTES_PER_TOKEN);
        if cost <= left {
            left -= cost;
            kept.push(part);
        } else {
            let cut = truncate::middle(text, Budget::of_tokens(left));
            kept.push(json!({"type": "input_text", "text": cut}));
            left = 0;
        }
    }
    *parts = kept;
    Some(item)
}
