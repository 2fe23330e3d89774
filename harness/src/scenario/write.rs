//! Writes a scenario as YAML that a person can read: small mappings in flow style, the rest in
//! blocks, a text in quotes wherever YAML could read something else.
//!
//! It takes the scenario as a JSON tree in file order. It does not look at what the tree means.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Longest line that is filled in flow style, in characters.
const LINE_CHARS_MAX: usize = 100;
/// Words that a reader of YAML may take for something else than a text.
const TYPED_WORDS: [&str; 11] = [
    "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf",
];

/// The text of a scenario, with comment lines before it.
pub fn yaml(comments: &[String], scenario: &Map<String, Value>) -> String {
    let mut out = String::new();
    for line in comments {
        let _ = writeln!(out, "# {}", one_line(line));
    }
    mapping(&mut out, scenario, 0, true);
    out
}

fn one_line(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control() || ('\u{2028}'..='\u{2029}').contains(&c);
            let as_is = (!escaped).then_some(c);
            as_is
                .into_iter()
                .chain(escaped.then(|| c.escape_default()).into_iter().flatten())
        })
        .collect()
}

/// `starts_line`: the first key needs its indentation.
fn mapping(out: &mut String, map: &Map<String, Value>, indent: usize, starts_line: bool) {
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 || starts_line {
            out.push_str(&" ".repeat(indent));
        }
        let key = scalar(key);
        out.push_str(&key);
        out.push(':');
        let used = indent + key.chars().count() + 2;
        // Steps are what a reader looks for: each begins a line.
        let in_block = key == "steps" && indent == 0;
        below(out, value, used, indent, in_block);
    }
}

/// What stands behind `key:` or `-`.
fn below(out: &mut String, value: &Value, used: usize, indent: usize, in_block: bool) {
    let text = flow(value);
    let fits = used + text.chars().count() <= LINE_CHARS_MAX;
    match value {
        Value::Object(map) if !map.is_empty() && !fits => {
            out.push('\n');
            mapping(out, map, indent + 2, true);
        }
        Value::Array(list) if !list.is_empty() && (!fits || in_block) => {
            out.push('\n');
            sequence(out, list, indent + 2);
        }
        _ => {
            let _ = writeln!(out, " {text}");
        }
    }
}

fn sequence(out: &mut String, list: &[Value], indent: usize) {
    for value in list {
        out.push_str(&" ".repeat(indent));
        out.push('-');
        let fits = indent + 2 + flow(value).chars().count() <= LINE_CHARS_MAX;
        match value {
            Value::Object(map) if !map.is_empty() && !fits => {
                out.push(' ');
                mapping(out, map, indent + 2, false);
            }
            _ => below(out, value, indent + 2, indent, false),
        }
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => scalar(text),
        Value::Array(list) => {
            let parts: Vec<String> = list.iter().map(flow).collect();
            format!("[{}]", parts.join(", "))
        }
        Value::Object(map) => {
            let parts: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", scalar(key), flow(value)))
                .collect();
            format!("{{{}}}", parts.join(", "))
        }
    }
}

/// A text as it stands where nobody could read anything else, in double quotes otherwise.
fn scalar(text: &str) -> String {
    let plain = text.chars().next().is_some_and(char::is_alphabetic)
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || " _./-".contains(c))
        && !text.ends_with(' ')
        && !TYPED_WORDS.contains(&text.to_ascii_lowercase().as_str());
    if plain {
        return text.to_owned();
    }
    let mut quoted = String::new();
    for c in Value::String(text.to_owned()).to_string().chars() {
        // YAML does not take these as they are, or takes them for line ends.
        let odd = ('\u{7f}'..='\u{9f}').contains(&c)
            || ['\u{2028}', '\u{2029}', '\u{feff}', '\u{fffe}', '\u{ffff}'].contains(&c);
        if odd {
            let _ = write!(quoted, "\\u{:04x}", u32::from(c));
        } else {
            quoted.push(c);
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn written(scenario: &Value) -> String {
        yaml(&[], scenario.as_object().expect("a mapping"))
    }

    #[test]
    fn small_parts_stand_in_one_line_and_steps_in_their_own() {
        let long = "a long text ".repeat(12);
        let text = written(&json!({
            "description": "It speaks.",
            "models": {"main": {"context_window": 1000}},
            "steps": [{"user": "One?", "replies": [{"say": "no", "usage": 5}]}, {"user": long}],
        }));
        let expected = format!(
            "description: It speaks.\nmodels: {{main: {{context_window: 1000}}}}\nsteps:\n  \
             - {{user: \"One?\", replies: [{{say: \"no\", usage: 5}}]}}\n  - user: \"{long}\"\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn a_comment_stays_on_its_line() {
        let text = yaml(&["a\nb\u{2028}c".to_owned()], &Map::new());
        assert_eq!(text, "# a\\nb\\u{2028}c\n");
    }

    proptest! {
        #[test]
        fn every_text_reads_back(texts in prop::collection::vec(".{0,60}", 1..4)) {
            let scenario = json!({"description": "It speaks.", "steps": [{"inject": [
                {"type": "message", "role": "user", "content": texts}]}]});
            let text = written(&scenario);
            let loaded = crate::scenario::load_bytes("t.yaml", "t", text.as_bytes(), None);
            let loaded = loaded.expect("valid").scenario;
            let items = loaded.steps.0[0].value.inject.as_ref().expect("items");
            prop_assert_eq!(&items.0[0].value["content"], &json!(texts));
        }
    }
}
