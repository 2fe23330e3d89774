//! A rollout line that is no record: torn, glued, or broken by an edit.
//!
//! It stays text. Its strings and numbers are masked one by one by the key before them, as those of
//! a record are; what is cut off in the middle of a string stays as it is.

use serde_json::{Map, Value};

use super::text::{escape, replace_places};
use super::{FREE, Part, Site, State, leaf};

/// How a record begins: inside a string of another one its quotes would be escaped.
const RECORD_START: &str = r#"{"timestamp":""#;

/// `{"$raw": line}`
pub(crate) fn line(text: &str, state: &mut State) -> Value {
    let starts = text.match_indices(RECORD_START).map(|(at, _)| at);
    let mut cuts: Vec<usize> = std::iter::once(0).chain(starts).collect();
    cuts.push(text.len());
    let mut out = String::with_capacity(text.len());
    for pair in cuts.windows(2) {
        piece(&text[pair[0]..pair[1]], state, &mut out);
    }
    let mut map = Map::new();
    map.insert("$raw".into(), replace_places(out, &state.places).into());
    Value::Object(map)
}

fn piece(text: &str, state: &mut State, out: &mut String) {
    let mut key = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', ':']) {
        let (before, from) = rest.split_at(at);
        out.push_str(&escape(before));
        if let Some(tail) = from.strip_prefix(':') {
            out.push(':');
            rest = number(tail, &key, state, out);
            continue;
        }
        let Some((token, tail)) = string(from) else {
            rest = from;
            break;
        };
        if tail.starts_with(':') {
            token[1..token.len() - 1].clone_into(&mut key);
            out.push_str(&escape(token));
        } else {
            out.push_str(&masked(token, &key, state));
        }
        rest = tail;
    }
    out.push_str(&escape(rest));
}

/// A whole JSON string at the start of a text, quotes included, and what follows.
fn string(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(text.split_at(at + 1)),
            _ => {}
        }
    }
    None
}

/// Masks a number behind its key; gives what follows.
fn number<'a>(text: &'a str, key: &str, state: &mut State, out: &mut String) -> &'a str {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (digits, tail) = text.split_at(end.unwrap_or(text.len()));
    out.push_str(&masked(digits, key, state));
    tail
}

/// A token as JSON, masked; as it stands where nothing is to be masked.
fn masked(token: &str, key: &str, state: &mut State) -> String {
    let Ok(value) = serde_json::from_str::<Value>(token) else {
        return escape(token);
    };
    let site = Site {
        part: Part::Rollout,
        kind: "",
        parent: "",
        key,
        free: FREE.contains(&key),
    };
    if site.free {
        return escape(token);
    }
    match leaf(value.clone(), &site, state) {
        now if now == value => escape(token),
        now => now.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_times_of_a_torn_line_are_masked_by_their_keys() {
        let mut state = State::default();
        let thread = "019b0000-0000-7000-8000-000000000001";
        let text = format!(
            r#"{{"timestamp":"2026-01-02T03:04:05.123Z","ordinal":4,"payload":{{"turn_id":"{thread}","started_at":17,"text":"{thread} <b> 1:2","id":"msg_{thread}","text":"to"#
        );
        let raw = line(&text, &mut state);
        assert_eq!(
            raw["$raw"],
            format!(
                r#"{{"timestamp":"<time>","ordinal":4,"payload":{{"turn_id":"<turn:1>","started_at":"<time>","text":"{thread} <b> 1:2","id":"msg_<item:1>","text":"to"#
            )
        );
    }

    #[test]
    fn a_record_behind_a_torn_one_is_masked_as_well() {
        let time = "2026-01-02T03:04:05.123Z";
        let text = format!(r#"{{"text":"to{{"timestamp":"{time}","x":1"#);
        let raw = line(&text, &mut State::default());
        assert_eq!(raw["$raw"], r#"{"text":"to{"timestamp":"<time>","x":1"#);
    }

    #[test]
    fn what_is_no_json_stays() {
        for text in ["no record at all", "{\"a", "\u{feff}{}", ""] {
            assert_eq!(line(text, &mut State::default())["$raw"], text);
        }
    }
}
