//! Generators to texts.

use engine::texts::KNOWN;
use serde_json::Value;

use super::png;
use super::values::{Generator, Part, Parts, Text};

/// Largest generated text in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Fills what is left below one repetition.
const FILL: char = '.';

/// The text itself.
pub(super) fn text(text: &Text) -> Result<String, String> {
    match text {
        Text::Plain(plain) => Ok(plain.clone()),
        Text::Made(generator) => made(generator),
    }
}

fn made(generator: &Generator) -> Result<String, String> {
    let Generator {
        repeat,
        bytes,
        fixed,
        join,
        png,
    } = generator;
    match (repeat, fixed, join, png) {
        (Some(repeat), None, None, None) => {
            let bytes = bytes.ok_or("`repeat` needs `bytes`")?;
            filled(repeat, bytes)
        }
        (None, Some(id), None, None) => known(id),
        (None, None, Some(texts), None) => texts.iter().map(self::text).collect(),
        (None, None, None, Some(size)) => png::data_url(size),
        _ => Err("a generator has exactly one of `repeat`, `$text`, `join`, `png`".to_owned()),
    }
}

fn filled(repeat: &str, bytes: usize) -> Result<String, String> {
    if bytes > TEXT_BYTES_MAX {
        return Err(format!(
            "{bytes} bytes are more than the limit of {TEXT_BYTES_MAX}"
        ));
    }
    if repeat.is_empty() {
        return Err("`repeat` is empty".to_owned());
    }
    let mut text = repeat.repeat(bytes / repeat.len());
    text.extend(std::iter::repeat_n(FILL, bytes - text.len()));
    Ok(text)
}

fn known(id: &str) -> Result<String, String> {
    KNOWN
        .iter()
        .find(|known| known.id == id)
        .map(|known| known.ours.to_owned())
        .ok_or_else(|| {
            let ids: Vec<&str> = KNOWN.iter().map(|known| known.id).collect();
            format!("unknown fixed text `{id}`; known: {}", ids.join(", "))
        })
}

/// Expands `{repeat, bytes}`, `{$text}` and `{png}` inside free JSON of `inject` and `raw`.
pub(super) fn expand(value: &Value) -> Result<Value, String> {
    match value {
        Value::Array(items) => items
            .iter()
            .map(expand)
            .collect::<Result<_, _>>()
            .map(Value::Array),
        Value::Object(map) => {
            let keys: Vec<&str> = map.keys().map(String::as_str).collect();
            let is_generator = matches!(
                keys[..],
                ["repeat", "bytes"] | ["bytes", "repeat"] | ["$text" | "png"]
            );
            if is_generator {
                let generator: Generator =
                    serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
                return made(&generator).map(Value::String);
            }
            let entries = map
                .iter()
                .map(|(key, value)| Ok((key.clone(), expand(value)?)));
            entries.collect::<Result<_, String>>().map(Value::Object)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(value.clone()),
    }
}

/// Parts of user input in app-server shape. Every version refuses an image that lies elsewhere.
pub(super) fn user_input(parts: &Parts) -> Result<Vec<Value>, String> {
    parts
        .as_slice()
        .iter()
        .map(|part| {
            let shaped = shape(part, "text", "image", "url")?;
            if shaped["url"]
                .as_str()
                .is_some_and(engine::images::is_remote)
            {
                let url = &shaped["url"];
                return Err(format!(
                    "every version refuses the image {url} of a user: `{{png: 64x64}}` makes one"
                ));
            }
            Ok(shaped)
        })
        .collect()
}

/// Parts of a tool answer in app-server shape.
pub(super) fn tool_content(parts: &Parts) -> Result<Vec<Value>, String> {
    parts
        .as_slice()
        .iter()
        .map(|part| shape(part, "inputText", "inputImage", "imageUrl"))
        .collect()
}

fn shape(part: &Part, text_type: &str, image_type: &str, url_key: &str) -> Result<Value, String> {
    let mut object = serde_json::Map::new();
    match part {
        Part::Text(written) => {
            object.insert("type".to_owned(), text_type.into());
            object.insert("text".to_owned(), text(written)?.into());
        }
        Part::Image { url, detail } => {
            object.insert("type".to_owned(), image_type.into());
            object.insert(url_key.to_owned(), text(url)?.into());
            if let Some(detail) = detail {
                object.insert("detail".to_owned(), detail.as_str().into());
            }
        }
    }
    Ok(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_characters_fill_the_bytes() {
        assert_eq!(filled("汉", 7).expect("fits"), "汉汉.");
        assert!(filled("", 1).is_err() && filled("x", TEXT_BYTES_MAX + 1).is_err());
    }

    #[test]
    fn generators_expand_inside_free_json() {
        let value = serde_json::json!({"a": [{"repeat": "x", "bytes": 3}], "b": {"repeat": "x"}});
        let wanted = serde_json::json!({"a": ["xxx"], "b": {"repeat": "x"}});
        assert_eq!(expand(&value).expect("valid"), wanted);
    }
}
