//! The tools of a request: built-in ones, those of the client, and the normal form of their schemas.
//!
//! Seen in `scenarios/request/rewrites_odd_tool_schemas` and `infers_the_type_of_a_schema`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::profile::Profile;
use crate::settings::{Settings, Tool};
use crate::texts;

/// Namespace that holds the plain tools of a lite model (0.164+).
const LITE_NAMESPACE: &str = "functions";

/// Tools of a turn request: built-in ones, then the client's; a namespace stands where its first
/// tool was declared.
pub(crate) fn tools(settings: &Settings, profile: &Profile) -> Vec<Value> {
    let mut tools = Vec::new();
    if profile.built_in_tools {
        tools.push(update_plan());
    }
    if settings.token_budget.is_some() {
        tools.extend(crate::token_budget::tools());
    }
    if profile.built_in_tools {
        tools.push(view_image(settings.model.image_detail_original));
    }
    let lite = profile.lite_namespace && settings.model.sampling.lite;
    for tool in settings.tools.iter().filter(|tool| !tool.defer_loading) {
        let spec = function(tool, profile);
        match (&tool.namespace, lite) {
            (Some(name), _) => into_namespace(&mut tools, name, name, spec),
            (None, true) => into_namespace(&mut tools, LITE_NAMESPACE, "", spec),
            (None, false) => tools.push(spec),
        }
    }
    tools
}

/// Names of the namespaces with deferred tools, in declaration order.
pub(crate) fn deferred_namespaces(settings: &Settings) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let deferred = settings.tools.iter().filter(|tool| tool.defer_loading);
    for name in deferred.filter_map(|tool| tool.namespace.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Puts a tool into its namespace, which is made where there is none.
pub(crate) fn into_namespace(tools: &mut Vec<Value>, name: &str, description: &str, spec: Value) {
    let known = tools
        .iter_mut()
        .find(|tool| tool["type"] == "namespace" && tool["name"] == name);
    match known.and_then(|known| known["tools"].as_array_mut()) {
        Some(members) => members.push(spec),
        None => tools.push(
            json!({"type": "namespace", "name": name, "description": description,
            "tools": [spec]}),
        ),
    }
}

fn function(tool: &Tool, profile: &Profile) -> Value {
    let mut parameters = schema(&tool.parameters, profile);
    drop_unused_definitions(&mut parameters);
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "strict": false,
        "parameters": parameters,
    })
}

/// Keys of a schema that go on the wire, in the binary's order.
const KEPT: [&str; 14] = [
    "$ref",
    "type",
    "description",
    "enum",
    "items",
    "minItems",
    "properties",
    "required",
    "additionalProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "$defs",
    "definitions",
];

/// Keys that give a schema without a type one.
const HINTS: [(&str, &[&str]); 4] = [
    (
        "object",
        &["properties", "required", "additionalProperties"],
    ),
    ("array", &["items"]),
    ("string", &["enum", "const", "format"]),
    (
        "number",
        &[
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ],
    ),
];

/// Keys beside which a schema stays without a type.
const COMPOSED: [&str; 4] = ["$ref", "anyOf", "oneOf", "allOf"];

/// A JSON Schema in its normal form: known keys in a fixed order, properties sorted by name, a type
/// guessed from the other keys; a part that says nothing becomes empty.
fn schema(value: &Value, profile: &Profile) -> Value {
    let Some(given) = value.as_object() else {
        // `true` and `false` say nothing about the value.
        return json!({"type": "string"});
    };
    let kind = given.get("type").cloned().or_else(|| hinted(given));
    if kind.is_none() && !COMPOSED.iter().any(|key| given.contains_key(*key)) {
        return json!({});
    }
    let has = |name: &str| match &kind {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    };
    let mut out = Map::new();
    for key in KEPT {
        let child = match (key, given.get(key)) {
            ("type", _) => kind.clone(),
            ("enum", None) => given.get("const").map(|only| json!([only])),
            ("items", None) if has("array") => Some(json!({"type": "string"})),
            ("properties", None) if has("object") => Some(json!({})),
            ("minItems", _) if !profile.keeps_min_items => None,
            (_, None) => None,
            (_, Some(child)) => Some(member(key, child, profile)),
        };
        if let Some(child) = child {
            out.insert(key.to_owned(), child);
        }
    }
    Value::Object(out)
}

fn hinted(given: &Map<String, Value>) -> Option<Value> {
    if COMPOSED.iter().any(|key| given.contains_key(*key)) {
        return None;
    }
    let found = |keys: &[&str]| keys.iter().any(|key| given.contains_key(*key));
    let hint = HINTS.iter().find(|(_, keys)| found(keys));
    hint.map(|(kind, _)| json!(kind))
}

fn member(key: &str, child: &Value, profile: &Profile) -> Value {
    match (key, child) {
        ("properties" | "$defs" | "definitions", Value::Object(members)) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            let members = names.into_iter();
            members
                .map(|name| (name.clone(), schema(&child[name.as_str()], profile)))
                .collect()
        }
        ("items", child) | ("additionalProperties", child @ Value::Object(_)) => {
            schema(child, profile)
        }
        ("anyOf" | "oneOf" | "allOf", Value::Array(branches)) => {
            branches.iter().map(|one| schema(one, profile)).collect()
        }
        (_, child) => child.clone(),
    }
}

/// Drops definitions that nothing refers to.
fn drop_unused_definitions(whole: &mut Value) {
    let mut used = BTreeSet::new();
    let mut rest = whole.clone();
    let mut tables = Map::new();
    for table in ["$defs", "definitions"] {
        let taken = rest.as_object_mut().and_then(|map| map.shift_remove(table));
        tables.extend(taken.map(|taken| (table.to_owned(), taken)));
    }
    let mut open = vec![rest];
    while let Some(part) = open.pop() {
        let mut found = Vec::new();
        references(&part, &mut found);
        for name in found {
            let target = json!({"$": tables})
                .pointer(&format!("/${}", &name[1..]))
                .cloned();
            if used.insert(name) {
                open.extend(target);
            }
        }
    }
    for (table, entries) in tables {
        let mut entries = entries.as_object().cloned().unwrap_or_default();
        entries.retain(|name, _| used.contains(&format!("#/{table}/{name}")));
        if let Some(map) = whole.as_object_mut() {
            if entries.is_empty() {
                map.shift_remove(&table);
            } else {
                map.insert(table, Value::Object(entries));
            }
        }
    }
}

fn references(part: &Value, found: &mut Vec<String>) {
    match part {
        Value::Object(map) => {
            let reference = map.get("$ref").and_then(Value::as_str);
            found.extend(
                reference
                    .filter(|name| name.starts_with("#/"))
                    .map(str::to_owned),
            );
            map.values().for_each(|child| references(child, found));
        }
        Value::Array(list) => list.iter().for_each(|child| references(child, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Shape as seen on 0.144.6, wording ours at equal length where it is longer than a line.
fn update_plan() -> Value {
    json!({
        "type": "function",
        "name": "update_plan",
        "description": texts::UPDATE_PLAN,
        "strict": false,
        "parameters": {
            "type": "object",
            "properties": {
                "explanation": {
                    "type": "string",
                    "description": "Optional explanation for this plan update."
                },
                "plan": {
                    "type": "array",
                    "description": "The list of steps",
                    "items": {
                        "type": "object",
                        "properties": {
                            "status": {
                                "type": "string",
                                "description": "Step status.",
                                "enum": ["pending", "in_progress", "completed"]
                            },
                            "step": {"type": "string", "description": "Task step text."}
                        },
                        "required": ["step", "status"],
                        "additionalProperties": false
                    }
                }
            },
            "required": ["plan"],
            "additionalProperties": false
        }
    })
}

/// `original`: the model takes images in their own size, so that it may ask for it.
fn view_image(original: bool) -> Value {
    let mut properties = Map::new();
    if original {
        properties.insert(
            "detail".to_owned(),
            json!({
                "type": "string",
                "description": "Image detail level. Defaults to `high`; use `original` to \
                                preserve exact resolution.",
                "enum": ["high", "original"],
            }),
        );
    }
    properties.insert(
        "path".to_owned(),
        json!({
            "type": "string",
            "description": "Local filesystem path to an image file.",
        }),
    );
    json!({
        "type": "function",
        "name": "view_image",
        "description": texts::VIEW_IMAGE,
        "strict": false,
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": ["path"],
            "additionalProperties": false,
        },
    })
}
