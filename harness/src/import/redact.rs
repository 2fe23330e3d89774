//! Texts as the scenario holds them: as recorded, or as stand-ins of the same shape.
//!
//! A stand-in keeps byte length, JSON-escaped length, character boundaries, line ends, quotes and
//! backslashes, blanks at both ends, a tag at the beginning, and Codex's fixed texts. It depends on
//! nothing but the text.

use engine::texts::KNOWN;
use serde_json::{Map, Value, json};

use crate::texts::Calibration;

/// The tag of a text that says what a command may do.
const PERMISSIONS_TAG: &str = "<permissions instructions>";
/// Names of sandboxes and approval policies: no words of a person, and a permissions text without
/// them says nothing.
const PERMISSIONS: [&str; 7] = [
    "danger-full-access",
    "workspace-write",
    "read-only",
    "never",
    "on-request",
    "on-failure",
    "untrusted",
];
/// Shortest run of one character that is written as a generator, in bytes.
const RUN_BYTES_MIN: usize = 160;
/// Beginnings by which Codex tells context from a user's words.
const CONTEXT_HEADS: [&str; 1] = ["# AGENTS.md instructions for "];
/// Keys whose texts are words of the protocol and no words of a person.
const KEYS_KEPT: [&str; 16] = [
    "type",
    "role",
    "id",
    "call_id",
    "name",
    "namespace",
    "status",
    "phase",
    "execution",
    "detail",
    "format",
    "mime_type",
    "item_id",
    "kind",
    "output_format",
    "end_turn",
];

/// How texts are written.
#[derive(Debug, Default)]
pub struct Texts {
    /// They stay as recorded.
    pub keep: bool,
    /// Fixed texts of the binaries known here; they become ours in any case.
    pub calibrations: Vec<Calibration>,
}

impl Texts {
    /// A text of the conversation.
    pub(super) fn plain(&self, text: &str) -> String {
        let mut ours = text.to_owned();
        for calibration in &self.calibrations {
            ours = calibration.to_ours(&ours);
        }
        if self.keep { ours } else { stand_in(&ours) }
    }

    /// [`Self::plain`] as the format writes a text: a fixed text by its id, long runs by generators.
    pub(super) fn text(&self, text: &str) -> Value {
        generated(self.plain(text))
    }

    /// Every text of an item or of a schema that stands as it is.
    pub(super) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let text = self.plain(text);
                one_run(&text).unwrap_or(Value::String(text))
            }
            Value::Array(list) => list.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| {
                    let kept = KEYS_KEPT.contains(&key.as_str()) && value.is_string();
                    let arguments = key == "arguments" && value.is_string();
                    let value = if kept {
                        value.clone()
                    } else if arguments {
                        json!(self.json_text(value.as_str().unwrap_or_default()))
                    } else if key == "image_url" && !self.keep {
                        json!(picture(value.as_str().unwrap_or_default()))
                    } else {
                        self.value(value)
                    };
                    (key.clone(), value)
                })
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Arguments as a mapping: the keys stay.
    pub(super) fn arguments(&self, map: &Map<String, Value>) -> Value {
        let entries = map
            .iter()
            .map(|(key, value)| (key.clone(), self.leaf(value)));
        Value::Object(entries.collect())
    }

    fn leaf(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.plain(text)),
            Value::Array(list) => list.iter().map(|item| self.leaf(item)).collect(),
            Value::Object(map) => self.arguments(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Arguments as a text: JSON keeps its keys and its spacing, anything else becomes a stand-in.
    pub(super) fn json_text(&self, text: &str) -> String {
        if self.keep || serde_json::from_str::<Value>(text).is_err() {
            return self.plain(text);
        }
        json_stand_in(text)
    }

    /// An image: its place is kept, its contents are not.
    pub(super) fn image(&self, url: &str) -> Value {
        if self.keep { json!(url) } else { picture(url) }
    }
}

/// A picture of the same size.
fn picture(url: &str) -> Value {
    use base64::Engine as _;
    let size = url.split_once(";base64,").and_then(|(_, data)| {
        // The size stands in the first 24 bytes of a PNG.
        let head = base64::engine::general_purpose::STANDARD.decode(data.get(..32)?);
        let head = head.ok().filter(|head| head.starts_with(b"\x89PNG"))?;
        let number = |at: usize| Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
        Some((number(16)?, number(20)?))
    });
    let (width, height) = size
        .filter(|(w, h)| (1..=8000).contains(w) && (1..=8000).contains(h))
        .unwrap_or((64, 64));
    json!({"png": format!("{width}x{height}")})
}

/// A text without its meaning.
pub(super) fn stand_in(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, known)) = KNOWN
        .iter()
        .filter(|known| !known.ours.is_empty())
        .filter_map(|known| Some((rest.find(known.ours)?, known.ours)))
        .min_by_key(|(at, known)| (*at, std::cmp::Reverse(known.len())))
    {
        unworded(&rest[..at], &mut out);
        out.push_str(known);
        rest = &rest[at + known.len()..];
    }
    unworded(rest, &mut out);
    out
}

/// What is no fixed text.
fn unworded(text: &str, out: &mut String) {
    let blank_before = text.len() - text.trim_start().len();
    let (before, rest) = text.split_at(blank_before);
    let (inner, after) = rest.split_at(rest.trim_end().len());
    let head = head(inner);
    let tail = tail(&inner[head.len()..], head);
    out.push_str(before);
    out.push_str(head);
    let words = &inner[head.len()..inner.len() - tail.len()];
    if head == PERMISSIONS_TAG {
        permissions(words, out);
    } else {
        out.extend(words.chars().map(other));
    }
    out.push_str(tail);
    out.push_str(after);
}

/// A permissions text: names of sandboxes and policies stay.
fn permissions(text: &str, out: &mut String) {
    // What stands in backticks is recognised by them.
    let other = |c: char| if c == '`' { c } else { other(c) };
    let mut rest = text;
    while let Some((at, name)) = PERMISSIONS
        .iter()
        .filter_map(|name| Some((rest.find(name)?, *name)))
        .min()
    {
        out.extend(rest[..at].chars().map(other));
        out.push_str(name);
        rest = &rest[at + name.len()..];
    }
    out.extend(rest.chars().map(other));
}

/// A tag, or another beginning that decides what the text is taken for.
fn head(text: &str) -> &str {
    if let Some(head) = CONTEXT_HEADS.iter().find(|head| text.starts_with(**head)) {
        return &text[..head.len()];
    }
    let Some(rest) = text.strip_prefix('<') else {
        return "";
    };
    let word = rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || "_- ".contains(c)))
        .unwrap_or(rest.len());
    // A tag is short; what is longer is a person's words.
    if word > 0 && word <= 40 && rest[word..].starts_with('>') {
        &text[..word + 2]
    } else {
        ""
    }
}

/// The closing tag that belongs to the head.
fn tail<'a>(rest: &'a str, head: &str) -> &'a str {
    let name = head.trim_start_matches('<').trim_end_matches('>');
    let name = name.split(' ').next().unwrap_or_default();
    let closing = format!("</{name}>");
    if !name.is_empty() && head.starts_with('<') && rest.ends_with(&closing) {
        &rest[rest.len() - closing.len()..]
    } else {
        ""
    }
}

/// Another character that takes as many bytes, plain and in JSON.
fn other(c: char) -> char {
    match c {
        '"' | '\\' => c,
        c if c < ' ' => c,
        c => match c.len_utf8() {
            1 => 'x',
            2 => 'é',
            3 => '汉',
            _ => '😀',
        },
    }
}

/// JSON whose texts are stand-ins and whose keys, numbers and spaces stay.
fn json_stand_in(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('"') {
        let body = &rest[at + 1..];
        let mut escaped = false;
        let end = body.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some(end) = end else { break };
        let string = &body[..end];
        out.push_str(&rest[..=at]);
        rest = &body[end + 1..];
        if rest.trim_start().starts_with(':') {
            out.push_str(string);
        } else {
            escaped_stand_in(string, &mut out);
        }
        out.push('"');
    }
    out.push_str(rest);
    out
}

/// The inside of a JSON string: escapes stay.
fn escaped_stand_in(string: &str, out: &mut String) {
    let mut chars = string.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(if c.is_whitespace() { c } else { other(c) });
            continue;
        }
        out.push(c);
        let kind = chars.next();
        out.extend(kind);
        if kind == Some('u') {
            let digits: String = chars.by_ref().take(4).collect();
            out.push_str(other_unit(&digits));
        }
    }
}

/// [`other`] of a code unit that is written in hexadecimal digits; halves of a pair stay halves.
fn other_unit(digits: &str) -> &str {
    match u32::from_str_radix(digits, 16).unwrap_or_default() {
        // What has to be escaped stays: a control character, a quote, a backslash.
        0..0x20 | 0x22 | 0x5c => digits,
        0x20..0x80 => "0078",
        0x80..0x800 => "00e9",
        0xd800..0xdc00 => "d83d",
        0xdc00..0xe000 => "de00",
        _ => "6c49",
    }
}

/// A text as the format writes it.
fn generated(text: String) -> Value {
    if let Some(known) = KNOWN.iter().find(|known| known.ours == text) {
        return json!({"$text": known.id});
    }
    if let Some(run) = one_run(&text) {
        return run;
    }
    let mut parts: Vec<Value> = Vec::new();
    let mut words = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let run = rest.len() - rest.trim_start_matches(first).len();
        if run >= RUN_BYTES_MIN {
            if !words.is_empty() {
                parts.push(json!(std::mem::take(&mut words)));
            }
            parts.push(json!({"repeat": first.to_string(), "bytes": run}));
        } else {
            words.push_str(&rest[..run]);
        }
        rest = &rest[run..];
    }
    if parts.is_empty() {
        return Value::String(text);
    }
    if !words.is_empty() {
        parts.push(json!(words));
    }
    json!({"join": parts})
}

/// A long text of one character.
fn one_run(text: &str) -> Option<Value> {
    let first = text.chars().next()?;
    let is_run = text.len() >= RUN_BYTES_MIN && text.chars().all(|c| c == first);
    is_run.then(|| json!({"repeat": first.to_string(), "bytes": text.len()}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(text: &str) -> usize {
        json!(text).to_string().len()
    }

    fn boundaries(text: &str) -> Vec<usize> {
        text.char_indices().map(|(at, _)| at).collect()
    }

    #[test]
    fn a_permissions_text_keeps_the_names_that_it_is_about() {
        let text = "<permissions instructions>\nThe sandbox is `read-only`: see /home/me. Ask: \
            on-request.\n</permissions instructions>";
        let stood = stand_in(text);
        assert_eq!(stood.len(), text.len());
        assert!(
            stood.contains("`read-only`") && stood.contains("on-request"),
            "{stood}"
        );
        assert!(
            !stood.contains("home") && !stood.contains("sandbox"),
            "{stood}"
        );
        // A person's words keep nothing.
        assert!(!stand_in("It is read-only.").contains("read"));
    }

    #[test]
    fn words_go_and_the_shape_stays() {
        let text = "  Read \"a\\b\"\nquickly 汉é😀 ";
        assert_eq!(stand_in(text), "  xxxxx\"x\\x\"\nxxxxxxxx汉é😀 ");
        let context = "<environment_context>\n  <cwd>/a</cwd>\n</environment_context>";
        let expected = format!(
            "<environment_context>\n{}\n</environment_context>",
            "x".repeat(15)
        );
        assert_eq!(stand_in(context), expected);
        assert_eq!(stand_in("a < b and c > d"), "x".repeat(15));
    }

    #[test]
    fn fixed_texts_stay() {
        let known = KNOWN
            .iter()
            .find(|known| known.id == "turn_aborted")
            .expect("known");
        let texts = Texts::default();
        assert_eq!(texts.text(known.ours), json!({"$text": "turn_aborted"}));
        let text = format!("{}\nsecret", known.ours);
        assert_eq!(texts.plain(&text), format!("{}\nxxxxxx", known.ours));
    }

    #[test]
    fn long_runs_become_generators_and_pictures_keep_their_size() {
        let texts = Texts::default();
        assert_eq!(
            texts.text("word ".repeat(100).trim_end()),
            json!({"repeat": "x", "bytes": 499})
        );
        assert_eq!(
            texts.text(&format!("a\n{}", "b".repeat(200))),
            json!({"join": ["x\n", {"repeat": "x", "bytes": 200}]})
        );
        let url = crate::scenario::png::data_url("20x30").expect("a size");
        assert_eq!(texts.image(&url), json!({"png": "20x30"}));
    }

    #[test]
    fn arguments_keep_keys_and_spacing() {
        let texts = Texts::default();
        let text = r#"{ "path" : "a b\n\"q\"\u0041\ud83d\ude02", "n": 12, "l": ["x y"], "" : ""}"#;
        let other = r#"{ "path" : "x x\n\"x\"\u0078\ud83d\ude00", "n": 12, "l": ["x x"], "" : ""}"#;
        assert_eq!(texts.json_text(text), other);
        assert_eq!(texts.json_text("{broken"), "xxxxxxx");
    }

    proptest! {
        #[test]
        fn a_stand_in_has_the_shape_of_its_text(text in "(?s).{0,80}") {
            let other = stand_in(&text);
            prop_assert_eq!(other.len(), text.len());
            prop_assert_eq!(escaped(&other), escaped(&text));
            prop_assert_eq!(boundaries(&other), boundaries(&text));
            prop_assert_eq!(other.trim().is_empty(), text.trim().is_empty());
            prop_assert_eq!(stand_in(&other).len(), other.len());
        }

        #[test]
        fn arguments_stay_json_of_the_same_length(keys in prop::collection::btree_map("(?s).{0,9}", "(?s).{0,20}", 0..4)) {
            let text = json!(keys).to_string();
            let other = Texts::default().json_text(&text);
            prop_assert_eq!(other.len(), text.len());
            let read: Map<String, Value> = serde_json::from_str(&other).expect("still JSON");
            prop_assert!(read.keys().eq(keys.keys()));
            let mapped = Texts::default().arguments(&json!(keys).as_object().expect("a map").clone());
            prop_assert_eq!(mapped.to_string().len(), text.len());
        }
    }
}
