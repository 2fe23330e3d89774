//! The canonical rule for item ids on the wire: ids that follow it are not written.
//!
//! The rule: an item whose content was sent before has the id it had then (the lowest-numbered one
//! not yet used in this request); a new item has the prefix of its type and the next free number;
//! the prompt of a compaction request has no id. An id that does not follow the rule is written,
//! a missing one as `"id": null`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fold::same;

/// What was numbered so far.
#[derive(Debug, Default, Clone)]
pub(crate) struct Numbering {
    /// Ids by content without id, in order of first appearance.
    seen: BTreeMap<String, Vec<String>>,
    highest: usize,
    used: Vec<String>,
}

impl Numbering {
    /// Starts a request whose leading items were sent before. Base instructions that are an item
    /// have number 1.
    pub(crate) fn begin(&mut self, leading: &[Value], base: bool) {
        self.used.clear();
        self.highest = self.highest.max(usize::from(base));
        for item in leading {
            self.note(item);
        }
    }

    /// Ends a request: everything in it counts as sent.
    pub(crate) fn finish(&mut self, input: &[Value], base: bool) {
        self.begin(input, base);
        self.used.clear();
    }

    /// The item without its id if the rule gives it back.
    pub(crate) fn shorten(&mut self, item: &Value, prompt: bool) -> Value {
        let Some(map) = item.as_object() else {
            return item.clone();
        };
        let mut bare = map.clone();
        let id = bare.shift_remove("id");
        let bare = Value::Object(bare);
        let short = match id {
            None if self.expected(&bare, prompt).is_none() => Some(bare),
            None => Some(with_id(&bare, Value::Null)),
            Some(_) => None,
        };
        let short = short.or_else(|| {
            let mut again = self.clone();
            let bare = Value::Object({
                let mut m = map.clone();
                m.shift_remove("id");
                m
            });
            same(&again.lengthen(&bare, prompt), item).then_some(bare)
        });
        self.note(item);
        short.unwrap_or_else(|| item.clone())
    }

    /// The inverse of [`Self::shorten`].
    pub(crate) fn lengthen(&mut self, short: &Value, prompt: bool) -> Value {
        let item = match short.as_object().map(|m| m.get("id")) {
            Some(None) => match self.expected(short, prompt) {
                Some(id) => with_id(short, id.into()),
                None => short.clone(),
            },
            Some(Some(Value::Null)) => bare(short),
            Some(Some(_)) | None => short.clone(),
        };
        self.note(&item);
        item
    }

    fn expected(&self, bare: &Value, prompt: bool) -> Option<String> {
        let prefix = prefix(bare.get("type")?.as_str()?)?;
        if prompt {
            return None;
        }
        let known = self.seen.get(&bare.to_string());
        let old = known.and_then(|ids| ids.iter().find(|id| !self.used.contains(id)));
        Some(
            old.cloned()
                .unwrap_or_else(|| format!("{prefix}<item:{}>", self.highest + 1)),
        )
    }

    fn note(&mut self, item: &Value) {
        let Some(id) = item.get("id").and_then(Value::as_str) else {
            return;
        };
        self.used.push(id.to_owned());
        let ids = self.seen.entry(bare(item).to_string()).or_default();
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
        let number = id
            .rsplit_once("<item:")
            .and_then(|(_, n)| n.strip_suffix('>'));
        if let Some(number) = number.and_then(|n| n.parse::<usize>().ok()) {
            self.highest = self.highest.max(number);
        }
    }
}

fn bare(item: &Value) -> Value {
    let mut out = item.clone();
    if let Some(map) = out.as_object_mut() {
        map.shift_remove("id");
    }
    out
}

/// The id stands after `type`.
fn with_id(bare: &Value, id: Value) -> Value {
    let mut out: Map<String, Value> = bare.as_object().cloned().unwrap_or_default();
    let at = out.keys().position(|k| k == "type").map_or(0, |i| i + 1);
    out.shift_insert(at, "id".into(), id);
    Value::Object(out)
}

fn prefix(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "message" => "msg_",
        "function_call" => "fc_",
        "function_call_output" => "fco_",
        "reasoning" => "rs_",
        "custom_tool_call" => "ctc_",
        "custom_tool_call_output" => "ctco_",
        "compaction" => "cmp_",
        "web_search_call" => "ws_",
        "local_shell_call" => "lsh_",
        _ => return None,
    })
}
