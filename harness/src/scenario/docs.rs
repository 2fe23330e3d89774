//! `docs/scenario-format.md`, written from the JSON Schema and so from the types' doc comments.

use std::fmt::Write as _;

use serde_json::Value;

use super::json_schema::schema;

const HEAD: &str = "\
# Scenario format v1

Generated from the types by `turnproof schema --markdown`; do not edit.

A scenario is one YAML file below `scenarios/`. Its path without `.yaml` is its id. Unknown and
duplicate keys are errors. Scalars where a text is expected are text as written (`say: 1.10`,
`say: no`); inside `arguments`, `raw`, `inject` and `parameters` only what JSON itself would type is
typed (`yes`, `0123`, `1_000` stay texts). In `inject` and `raw` a mapping with exactly the keys
`repeat` and `bytes`, or `$text`, or `png`, is a generator.

Default ids are numbered through the whole file, also over replies that another version gets:
`resp_1`, `msg_1`, `fc_1`, `ctc_1`, `rs_1`, `cmp_1`, and `call_1` for call ids.

Replies of a step are consumed one for each request, in order, retries included. A compaction before
the first sampling of a step asks before the turn does, so its reply stands first.
";

/// The text of `docs/scenario-format.md`.
pub fn format_markdown() -> String {
    let root = schema();
    let mut text = HEAD.to_owned();
    section(&mut text, "Scenario", &root);
    if let Some(Value::Object(definitions)) = root.get("$defs") {
        let mut names: Vec<&String> = definitions.keys().collect();
        names.sort();
        for name in names {
            section(&mut text, name, &definitions[name.as_str()]);
        }
    }
    text
}

fn section(text: &mut String, name: &str, schema: &Value) {
    let description = schema
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let _ = write!(text, "\n## {name}\n\n{}\n", one_line(description));
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if let Some(Value::Object(properties)) = schema.get("properties") {
        text.push_str("\n| key | value | meaning |\n| --- | --- | --- |\n");
        for (key, property) in properties {
            let mark = if required.contains(&key.as_str()) {
                " (required)"
            } else {
                ""
            };
            let meaning = property
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let kind = kind(property).replace('|', "\\|");
            let _ = writeln!(text, "| `{key}`{mark} | {kind} | {} |", cell(meaning));
        }
    } else if let Some(Value::Array(words)) = schema.get("oneOf") {
        text.push_str("\n| word | meaning |\n| --- | --- |\n");
        for word in words {
            let value = word["const"].as_str().unwrap_or_default();
            let meaning = word
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let _ = writeln!(text, "| `{value}` | {} |", cell(meaning));
        }
    } else if schema.get("anyOf").is_some() {
        let _ = write!(text, "\nForms: {}.\n", kind(schema));
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}

/// A short name of what a schema takes, `null` left out.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(forms) = schema.get("anyOf").and_then(Value::as_array) {
        let mut names: Vec<String> = Vec::new();
        for form in forms.iter().filter(|form| form["type"] != "null") {
            let name = kind(form);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        return names.join(" or ");
    }
    if let Some(word) = schema.get("const") {
        return format!(
            "`{}`",
            word.as_str()
                .map_or_else(|| word.to_string(), str::to_owned)
        );
    }
    match &schema["type"] {
        Value::String(name) => named(name, schema),
        Value::Array(names) => {
            let names = names
                .iter()
                .filter_map(Value::as_str)
                .filter(|name| *name != "null");
            let names: Vec<String> = names.map(|name| named(name, schema)).collect();
            if names == ["string", "number", "boolean"] {
                "scalar".to_owned()
            } else {
                names.join(" or ")
            }
        }
        _ => "any JSON value".to_owned(),
    }
}

fn named(name: &str, schema: &Value) -> String {
    match name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" => match schema.get("additionalProperties") {
            Some(value @ Value::Object(_)) => format!("mapping to {}", kind(value)),
            Some(Value::Bool(true)) => "mapping to any JSON value".to_owned(),
            _ if schema.get("maxProperties").is_some() => "nothing".to_owned(),
            _ => "mapping".to_owned(),
        },
        "string" => "text".to_owned(),
        other => other.to_owned(),
    }
}
