//! Generic lossless folding of a value against a template: what the template says is left out.
//!
//! `unfold(fold(v, t), t) == v` for every `v` and `t`, key order included. An object that meets an
//! object template becomes a difference: only keys whose value is not the template's stay, `$drop`
//! lists template keys that are missing, `$order` gives the key order where it is not the
//! template's. Everything else stands as it is. A template may hold holes: `{"$hole": "always"}`
//! (the value is always written) and `{"$hole": "optional"}` (written where present).

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::mask::text::{escape_key, unescape_key};

const RESERVED: &[&str] = &["drop", "order"];

/// Equality that sees key order and the form of numbers.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|((ka, va), (kb, vb))| ka == kb && same(va, vb))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        // -0.0 and 0.0 are equal and print differently.
        (Value::Number(a), Value::Number(b)) => {
            a == b && (!a.is_f64() || a.to_string() == b.to_string())
        }
        _ => a == b,
    }
}

/// What is compared where an envelope has nothing.
pub static NOTHING: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

/// Whether a template value is a hole, and whether its key may be missing.
fn hole(template: &Value) -> Option<bool> {
    template.get("$hole").map(|kind| kind == "optional")
}

/// The template value of a key whose value is always written.
pub fn hole_value(optional: bool) -> Value {
    serde_json::json!({"$hole": if optional { "optional" } else { "always" }})
}

/// Leaves out of `value` what `template` already says.
pub fn fold(value: &Value, template: &Value) -> Value {
    let (Value::Object(value), Value::Object(model)) = (value, template) else {
        return value.clone();
    };
    if hole(template).is_some() {
        return Value::Object(value.clone());
    }
    let mut out = Map::new();
    for (key, own) in value {
        let Some(given) = model.get(key) else {
            out.insert(escape_key(key, RESERVED), own.clone());
            continue;
        };
        if hole(given).is_some() || !same(own, given) {
            out.insert(escape_key(key, RESERVED), fold(own, given));
        }
    }
    let gone: Vec<Value> = model
        .iter()
        .filter(|(key, given)| !value.contains_key(*key) && hole(given) != Some(true))
        .map(|(key, _)| Value::String(key.clone()))
        .collect();
    if !gone.is_empty() {
        out.insert("$drop".into(), Value::Array(gone));
    }
    let natural = model.keys().filter(|k| value.contains_key(*k));
    let natural = natural.chain(value.keys().filter(|k| !model.contains_key(*k)));
    if !natural.eq(value.keys()) {
        let order = value.keys().cloned().map(Value::String).collect();
        out.insert("$order".into(), Value::Array(order));
    }
    Value::Object(out)
}

/// The inverse of [`fold`]; `None` if `folded` cannot have come from it.
pub fn unfold(folded: &Value, template: &Value) -> Option<Value> {
    let (Value::Object(folded), Value::Object(model)) = (folded, template) else {
        return Some(folded.clone());
    };
    if hole(template).is_some() {
        return Some(Value::Object(folded.clone()));
    }
    let dropped = keys(folded.get("$drop"))?;
    let mut out = Map::new();
    for (key, given) in model {
        if dropped.contains(&key.as_str()) {
            continue;
        }
        match folded.get(&escape_key(key, RESERVED)) {
            Some(own) => drop(out.insert(key.clone(), unfold(own, given)?)),
            None if hole(given) == Some(true) => {}
            None if hole(given) == Some(false) => return None,
            None => drop(out.insert(key.clone(), given.clone())),
        }
    }
    for (key, own) in folded {
        if let Some(key) = unescape_key(key, RESERVED)
            && !model.contains_key(&key)
        {
            out.insert(key, own.clone());
        }
    }
    match folded.get("$order") {
        None => Some(Value::Object(out)),
        order => {
            let mut sorted = Map::new();
            for key in keys(order)? {
                sorted.insert(key.to_owned(), out.shift_remove(key)?);
            }
            out.is_empty().then_some(Value::Object(sorted))
        }
    }
}

fn keys(list: Option<&Value>) -> Option<Vec<&str>> {
    match list {
        None => Some(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(Value::as_str).collect(),
        Some(_) => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Small JSON values whose keys collide with each other and with the folding's own words.
    pub(crate) fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3i64..3).prop_map(Value::from),
            "(a|<turn>|<time>|)".prop_map(Value::from),
            Just(json!(1.5)),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            let key = "(a|b|c|d|id|type|[$]drop|[$]order|[$][$]drop|[$]hole|[$]long|[$]same_as)";
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec((key, inner), 0..5)
                    .prop_map(|list| Value::Object(list.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn says_only_what_differs() {
        let template = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": hole_value(true)});
        let value = json!({"b": {"c": 2, "d": 4}, "a": 1, "x": 5});
        let folded = fold(&value, &template);
        assert_eq!(
            folded.to_string(),
            r#"{"b":{"d":4},"x":5,"$order":["b","a","x"]}"#
        );
        assert!(same(&unfold(&folded, &template).unwrap(), &value));
    }

    proptest! {
        #[test]
        fn unfolding_gives_the_value_back(value in json_value(), template in json_value()) {
            let folded = fold(&value, &template);
            let back = unfold(&folded, &template);
            prop_assert_eq!(back.map(|v| v.to_string()), Some(value.to_string()));
        }
    }
}
