//! Entries of the model catalogue that no version starts with.
//!
//! A real binary reads the catalogue when it starts, and ends where one value has the wrong type: so
//! it is looked at here, key by key, as each version was seen to take it. A key that is not known
//! here is passed on; no version looks at it.

use serde_json::Value;

use super::error::{Mark, Problem, start, suggest};
use super::schema::Scenario;

/// Characters of a value that a message shows.
const VALUE_CHARS_MAX: usize = 60;

/// What a key of the catalogue takes.
enum Shape {
    Flag,
    Whole,
    /// At most what 32 bits hold.
    SmallWhole,
    Text,
    Word(&'static [&'static str]),
    List(&'static Shape),
    /// A mapping with at least these keys.
    Fields(&'static [(&'static str, Shape)]),
    OrNull(&'static Shape),
}

use Shape::{Fields, Flag, List, OrNull, SmallWhole, Text, Whole, Word};

/// Keys of an entry. Seen with 0.144.6 and 0.171.0, by giving each a value of every type.
const KEYS: &[(&str, Shape)] = &[
    ("additional_speed_tiers", List(&Text)),
    ("auto_compact_token_limit", OrNull(&Whole)),
    ("availability_nux", OrNull(&Fields(&[("message", Text)]))),
    ("base_instructions", Text),
    ("comp_hash", OrNull(&Text)),
    ("context_window", OrNull(&Whole)),
    ("default_reasoning_level", OrNull(&Text)),
    (
        "default_reasoning_summary",
        Word(&["auto", "concise", "detailed", "none"]),
    ),
    (
        "default_verbosity",
        OrNull(&Word(&["low", "medium", "high"])),
    ),
    ("description", OrNull(&Text)),
    ("display_name", Text),
    ("effective_context_window_percent", Whole),
    ("experimental_supported_tools", List(&Text)),
    ("include_skills_usage_instructions", Flag),
    ("input_modalities", List(&Word(&MODALITIES))),
    ("max_context_window", OrNull(&Whole)),
    ("model_messages", OrNull(&Fields(&[]))),
    ("priority", SmallWhole),
    (
        "service_tiers",
        List(&Fields(&[
            ("id", Text),
            ("name", Text),
            ("description", Text),
        ])),
    ),
    (
        "shell_type",
        Word(&[
            "default",
            "local",
            "unified_exec",
            "disabled",
            "shell_command",
        ]),
    ),
    ("support_verbosity", Flag),
    ("supported_in_api", Flag),
    (
        "supported_reasoning_levels",
        List(&Fields(&[("effort", Text), ("description", Text)])),
    ),
    ("supports_image_detail_original", Flag),
    ("supports_parallel_tool_calls", Flag),
    ("supports_reasoning_summaries", Flag),
    ("supports_search_tool", Flag),
    (
        "truncation_policy",
        Fields(&[("mode", Word(&["bytes", "tokens"])), ("limit", Whole)]),
    ),
    ("upgrade", OrNull(&Fields(&[("model", Text)]))),
    ("use_responses_lite", Flag),
    ("visibility", Word(&["list", "hide", "none"])),
    ("web_search_tool_type", Word(&["text", "text_and_image"])),
];

/// What a model of the catalogue can take.
const MODALITIES: [&str; 3] = ["text", "image", "audio"];

impl Shape {
    /// What a value is not, with the place of it inside the key; `None` where it fits.
    fn wrong(&self, value: &Value, place: &str) -> Option<(String, String)> {
        let not = |wanted: &str| {
            let shown = start(&value.to_string(), VALUE_CHARS_MAX);
            Some((place.to_owned(), format!("{wanted}, not `{shown}`")))
        };
        match (self, value) {
            (Flag, Value::Bool(_)) | (Text, Value::String(_)) | (OrNull(_), Value::Null) => None,
            (OrNull(shape), _) => shape.wrong(value, place),
            (Flag, _) => not("`true` or `false`"),
            (Text, _) => not("a text"),
            (Whole, _) if value.is_i64() => None,
            (Whole, _) => not("a whole number"),
            (SmallWhole, _) => {
                let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
                number.map_or_else(|| not("a whole number of 32 bits"), |_| None)
            }
            (Word(words), Value::String(word)) if words.contains(&word.as_str()) => None,
            (Word(words), _) => not(&format!("one of {}", words.join(", "))),
            (List(shape), Value::Array(list)) => list
                .iter()
                .enumerate()
                .find_map(|(at, value)| shape.wrong(value, &format!("{place}/{at}"))),
            (List(_), _) => not("a list"),
            (Fields(keys), Value::Object(map)) => keys.iter().find_map(|(key, shape)| {
                let place = format!("{place}/{key}");
                let Some(value) = map.get(*key) else {
                    return Some((place, "there".to_owned()));
                };
                shape.wrong(value, &place)
            }),
            (Fields(_), _) => not("a mapping"),
        }
    }
}

/// Everything that no version starts with.
pub(super) fn problems(scenario: &Scenario) -> Vec<Problem> {
    let mut found = modalities(scenario);
    let models = scenario.models.0.iter();
    for (key, value) in models.flat_map(|(_, model)| &model.extra.0) {
        if key == "slug" {
            let what = "`slug` is set by the harness itself";
            let help = "a model is called by its name under `models:`";
            found.push(Problem::new(value.at, what).help(help));
        }
        if let Some((_, shape)) = KEYS.iter().find(|(known, _)| known == key)
            && let Some((place, what)) = shape.wrong(&value.value, key)
        {
            found.push(refused(value.at, &place, &what));
        }
    }
    found
}

fn refused(at: Mark, place: &str, what: &str) -> Problem {
    let why = "no version starts with such a catalogue";
    Problem::new(at, format!("`{place}` of a model has to be {what}"))
        .why(why)
        .help("leave the key out for what a model has by default")
}

/// Words for a modality that no catalogue knows: no version starts with such a catalogue.
fn modalities(scenario: &Scenario) -> Vec<Problem> {
    let models = scenario.models.0.iter();
    let words =
        models.flat_map(|(_, model)| model.input_modalities.iter().flat_map(|list| &list.0));
    words
        .filter(|word| !MODALITIES.contains(&word.value.as_str()))
        .map(|word| {
            let what = format!("unknown modality `{}`", word.value);
            Problem::new(word.at, what).help(suggest(&word.value, &MODALITIES))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(key: &str, value: &Value) -> Option<(String, String)> {
        let (_, shape) = KEYS.iter().find(|(known, _)| *known == key)?;
        shape.wrong(value, key)
    }

    #[test]
    fn values_that_end_a_binary_are_named_with_their_place() {
        for (key, value, what) in [
            (
                "visibility",
                json!(4),
                "visibility has to be one of list, hide, none, not `4`",
            ),
            (
                "priority",
                json!(1.5),
                "priority has to be a whole number of 32 bits, not `1.5`",
            ),
            (
                "priority",
                json!(99_999_999_999_u64),
                "priority has to be a whole number of 32 bits, not `99999999999`",
            ),
            (
                "supported_in_api",
                json!(null),
                "supported_in_api has to be `true` or `false`, not `null`",
            ),
            (
                "additional_speed_tiers",
                json!(["a", 1]),
                "additional_speed_tiers/1 has to be a text, not `1`",
            ),
            (
                "service_tiers",
                json!([{"id": "a", "name": "b"}]),
                "service_tiers/0/description has to be there",
            ),
            (
                "truncation_policy",
                json!({"mode": "x"}),
                "truncation_policy/mode has to be one of bytes, tokens, not `\"x\"`",
            ),
            ("upgrade", json!(5), "upgrade has to be a mapping, not `5`"),
        ] {
            let (place, said) = of(key, &value).expect(key);
            assert_eq!(format!("{place} has to be {said}"), what);
        }
    }

    #[test]
    fn values_that_a_binary_takes_pass() {
        for (key, value) in [
            ("visibility", json!("hide")),
            ("priority", json!(-1)),
            ("comp_hash", json!(null)),
            ("default_verbosity", json!("low")),
            (
                "supported_reasoning_levels",
                json!([{"effort": "odd", "description": "", "more": 1}]),
            ),
            ("model_messages", json!({})),
            ("description", json!(null)),
            ("nobody_knows_it", json!(5)),
        ] {
            assert_eq!(of(key, &value), None, "{key}");
        }
    }

    /// A word that stands there twice would hide the second one.
    #[test]
    fn each_key_stands_there_once_in_order() {
        assert!(KEYS.is_sorted_by(|a, b| a.0 < b.0));
    }
}
