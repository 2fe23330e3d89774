//! What a `response.completed` event says, or why it cannot be read: the client's own words.
//!
//! Rule `turn.usage.unreadable`. Names of types are part of the message that a client is told.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Error, Value};

use crate::error::Failure;
use crate::profile::Profile;
use crate::tokens::Usage;

/// A response that ended well.
#[derive(Debug)]
pub(crate) struct Completed {
    /// Id of the response.
    pub(crate) id: String,
    /// What it used; `None` when the server does not say.
    pub(crate) usage: Option<Usage>,
    /// The model wants to be asked again.
    pub(crate) asks_again: bool,
}

#[derive(Deserialize)]
struct ResponseCompleted {
    #[serde(deserialize_with = "plain")]
    id: String,
    #[serde(default, deserialize_with = "shape")]
    usage: Option<ResponseCompletedUsage>,
    #[serde(default, deserialize_with = "plain")]
    end_turn: Option<bool>,
}

#[derive(Deserialize)]
struct ResponseCompletedUsage {
    #[serde(deserialize_with = "whole")]
    input_tokens: i64,
    #[serde(default, deserialize_with = "shape")]
    input_tokens_details: Option<ResponseCompletedInputTokensDetails>,
    #[serde(deserialize_with = "whole")]
    output_tokens: i64,
    #[serde(default, deserialize_with = "shape")]
    output_tokens_details: Option<ResponseCompletedOutputTokensDetails>,
    #[serde(deserialize_with = "whole")]
    total_tokens: i64,
}

#[derive(Deserialize)]
struct ResponseCompletedInputTokensDetails {
    #[serde(deserialize_with = "whole")]
    cached_tokens: i64,
    #[serde(default, deserialize_with = "whole")]
    cache_write_tokens: i64,
}

#[derive(Deserialize)]
struct ResponseCompletedOutputTokensDetails {
    #[serde(deserialize_with = "whole")]
    reasoning_tokens: i64,
}

/// A whole number; the client names no number that it cannot read.
fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let value = Value::deserialize(from)?;
    match &value {
        Value::Number(number) => number
            .as_i64()
            .ok_or_else(|| D::Error::custom("invalid number")),
        other => i64::deserialize(other).map_err(D::Error::custom),
    }
}

/// An object, or null for none.
fn shape<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(from)?;
    if value.is_null() {
        return Ok(None);
    }
    read(value, &format!("struct {}", name::<T>()))
        .map(Some)
        .map_err(D::Error::custom)
}

/// A text or a truth value.
fn plain<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    let wanted = if name::<T>() == "String" {
        "a string"
    } else {
        "a boolean"
    };
    read(value, wanted).map_err(D::Error::custom)
}

/// The client reads numbers as texts and does not show them.
fn read<T: DeserializeOwned>(value: Value, wanted: &str) -> Result<T, Error> {
    if value.is_number() {
        return Err(Error::custom(format!(
            "invalid type: number, expected {wanted}"
        )));
    }
    serde_json::from_value(value)
}

/// Last part of a type's path.
fn name<T>() -> &'static str {
    let path = std::any::type_name::<T>();
    path.rsplit_once("::").map_or(path, |(_, name)| name)
}

/// Reads the `response` of the event; `None` when it has none, and the client passes over it.
///
/// # Errors
/// A response that the client cannot read is a broken stream.
pub(crate) fn read_completed(
    response: &Value,
    profile: &Profile,
) -> Result<Option<Completed>, Failure> {
    if response.is_null() {
        return Ok(None);
    }
    let mut response = response.clone();
    let details = response.pointer_mut("/usage/input_tokens_details");
    if let (Some(Value::Object(details)), false) = (details, profile.usage_records) {
        details.remove("cache_write_tokens");
    }
    let read = read::<ResponseCompleted>(response, "struct ResponseCompleted");
    let said = read.map_err(|error| {
        Failure::disconnected(&format!("failed to parse ResponseCompleted: {error}"))
    })?;
    let usage = said.usage.map(|usage| Usage {
        input: usage.input_tokens,
        cached: usage
            .input_tokens_details
            .as_ref()
            .map_or(0, |it| it.cached_tokens),
        cache_write: usage
            .input_tokens_details
            .as_ref()
            .map_or(0, |it| it.cache_write_tokens),
        output: usage.output_tokens,
        reasoning: usage
            .output_tokens_details
            .map_or(0, |it| it.reasoning_tokens),
        total: usage.total_tokens,
    });
    Ok(Some(Completed {
        id: said.id,
        usage,
        asks_again: said.end_turn == Some(false),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Version;
    use serde_json::json;

    fn refused(response: &Value) -> String {
        read_completed(response, &Profile::of(Version::V171))
            .unwrap_err()
            .message
    }

    #[test]
    fn what_cannot_be_read_is_told_in_the_words_of_the_client() {
        let usage = |usage: Value| refused(&json!({"id": "r", "usage": usage}));
        let said = |detail: &str| {
            format!(
                "stream disconnected before completion: failed to parse ResponseCompleted: {detail}"
            )
        };
        let (input, output, total) = ("input_tokens", "output_tokens", "total_tokens");
        assert_eq!(
            usage(json!({input: 5, total: 6})),
            said("missing field `output_tokens`")
        );
        assert_eq!(
            usage(json!({input: 5, output: 1.5, total: 6})),
            said("invalid number")
        );
        assert_eq!(
            usage(json!({input: "5", output: 1, total: 6})),
            said("invalid type: string \"5\", expected i64")
        );
        assert_eq!(
            usage(json!({input: 5, output: 1, total: 6, "input_tokens_details": 7})),
            said("invalid type: number, expected struct ResponseCompletedInputTokensDetails")
        );
        assert_eq!(
            usage(json!({"input_tokens_details": {}})),
            said("missing field `cached_tokens`")
        );
        assert_eq!(
            usage(json!(true)),
            said("invalid type: boolean `true`, expected struct ResponseCompletedUsage")
        );
        assert_eq!(
            refused(&json!({"id": 7})),
            said("invalid type: number, expected a string")
        );
        assert_eq!(
            refused(&json!({"id": "r", "end_turn": "x"})),
            said("invalid type: string \"x\", expected a boolean")
        );
        assert_eq!(refused(&json!({})), said("missing field `id`"));
    }

    #[test]
    fn usage_is_not_said_or_null() {
        for response in [json!({"id": "r"}), json!({"id": "r", "usage": null})] {
            assert!(
                read_completed(&response, &Profile::of(Version::V171))
                    .unwrap()
                    .unwrap()
                    .usage
                    .is_none()
            );
        }
        assert!(
            read_completed(&Value::Null, &Profile::of(Version::V171))
                .unwrap()
                .is_none()
        );
    }
}
