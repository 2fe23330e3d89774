//! Identity placeholders: every raw id gets a class and a number at its first appearance.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Part, Site, State};

/// Raw ids and their placeholders.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    known: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, usize>,
}

impl Registry {
    /// The placeholder of a raw id; a new one of this class if it was not seen before.
    pub(crate) fn name(&mut self, raw: &str, class: &'static str) -> String {
        if let Some(name) = self.known.get(raw) {
            return name.clone();
        }
        let count = self.counts.entry(class).or_insert(0);
        *count += 1;
        let name = format!("<{class}:{count}>");
        self.known.insert(raw.to_owned(), name.clone());
        name
    }
}

/// Prefixes of item ids; the text after them is random or scripted.
const ITEM_PREFIXES: &[&str] = &[
    "msg_", "fc_", "fco_", "rs_", "ctc_", "ctco_", "cmp_", "ws_", "lsh_", "ig_", "tsc_", "tso_",
];

const THREAD_KEYS: &[&str] = &[
    "thread_id",
    "session_id",
    "prompt_cache_key",
    "thread-id",
    "session-id",
    "x-client-request-id",
    "forked_from_id",
    "forked_from_thread_id",
    "parent_thread_id",
];
const TURN_KEYS: &[&str] = &[
    "turn_id",
    "root_turn_id",
    "parent_turn_id",
    "last_started_turn_id",
    "turn",
];
const WINDOW_KEYS: &[&str] = &[
    "context_window_id",
    "window_id",
    "first_window_id",
    "previous_window_id",
];
const ITEM_KEYS: &[&str] = &["id", "message_id", "item_id"];

/// Whether a text has the form of a UUID.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
        })
}

fn uuid_at<'v>(keys: &[&str], site: &Site<'_>, value: &'v Value) -> Option<&'v str> {
    let text = value.as_str()?;
    (!site.free && keys.contains(&site.key) && is_uuid(text)).then_some(text)
}

/// `<thread>:N` in `x-codex-window-id` and in the metadata's `window_id`.
pub(crate) fn window_name(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    if site.free || !["x-codex-window-id", "window_id"].contains(&site.key) {
        return None;
    }
    let (thread, number) = value.as_str()?.rsplit_once(':')?;
    if !is_uuid(thread) || number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(format!("{}:{number}", state.ids.name(thread, "thread")).into())
}

/// Thread and session ids.
pub(crate) fn thread(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    let own = site.part == Part::Rollout
        && site.kind == "session_meta"
        && site.parent == "payload"
        && site.key == "id";
    let id = if own {
        uuid_at(&["id"], site, value)
    } else {
        uuid_at(THREAD_KEYS, site, value)
    }?;
    Some(state.ids.name(id, "thread").into())
}

/// Turn ids.
pub(crate) fn turn(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    Some(
        state
            .ids
            .name(uuid_at(TURN_KEYS, site, value)?, "turn")
            .into(),
    )
}

/// Ids of context windows.
pub(crate) fn window(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    Some(
        state
            .ids
            .name(uuid_at(WINDOW_KEYS, site, value)?, "window")
            .into(),
    )
}

/// Ids in the text of a `<context_window>` fragment, one a line behind `id: `.
pub(crate) fn window_text(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    const MARK: &str = "urrent context window id: ";
    let raw = value.as_str()?;
    if site.key != "text" || !raw.contains(MARK) {
        return None;
    }
    let mut out = String::new();
    for (number, line) in super::text::plain(raw, &state.places)
        .split('\n')
        .enumerate()
    {
        if number > 0 {
            out.push('\n');
        }
        match line.split_once("id: ").filter(|(_, id)| is_uuid(id)) {
            Some((before, id)) => {
                out.push_str(before);
                out.push_str("id: ");
                out.push_str(&state.ids.name(id, "window"));
            }
            None => out.push_str(line),
        }
    }
    Some(out.into())
}

/// Ids of items. An id of no known form stays as it is: the script made it.
pub(crate) fn item(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    let text = value.as_str()?;
    if site.free || !ITEM_KEYS.contains(&site.key) {
        return None;
    }
    if is_uuid(text) {
        return Some(state.ids.name(text, "item").into());
    }
    let prefix = ITEM_PREFIXES
        .iter()
        .find(|p| text.len() > p.len() && text.starts_with(**p))?;
    Some(format!("{prefix}{}", state.ids.name(text, "item")).into())
}

/// Every other whole value that is a UUID, or `word_UUID`.
pub(crate) fn uuid(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    let text = value.as_str()?;
    if site.free {
        return None;
    }
    if is_uuid(text) {
        return Some(state.ids.name(text, "uuid").into());
    }
    let (word, id) = text.split_at_checked(text.len().checked_sub(36)?)?;
    let plain = word.ends_with('_') && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    (plain && is_uuid(id)).then(|| format!("{word}{}", state.ids.name(id, "uuid")).into())
}
