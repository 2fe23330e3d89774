//! JSON with a bound on how many values it holds.
//!
//! A line of `[1,1,1,…` takes forty times its bytes in memory once it is parsed. A bound on bytes
//! alone would be none.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Values of one line: far more than the tools, parts and items of any record that was seen.
pub const VALUES_OF_A_LINE_MAX: usize = 200_000;
/// What the error says when there are more.
pub const TOO_MANY: &str = "too many values";

/// Parses one JSON text of at most `max` values; gives the value and how many there were.
pub fn parse(text: &[u8], max: usize) -> Result<(Value, usize), serde_json::Error> {
    let left = Cell::new(max);
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = Counted(&left).deserialize(&mut parser)?;
    parser.end()?;
    Ok((value, max - left.get()))
}

/// Builds a [`Value`] and counts down.
#[derive(Clone, Copy)]
struct Counted<'a>(&'a Cell<usize>);

impl Counted<'_> {
    fn one<E: Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        let left = self.0.get().checked_sub(1);
        self.0.set(left.ok_or_else(|| E::custom(TOO_MANY))?);
        Ok(value.into())
    }
}

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.one(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.one(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.one(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.one(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.one(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.one(value)
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.one(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            values.push(value);
        }
        self.one(values)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            // A repeated key counts the last time, in its first place, as in `Value` itself.
            values.insert(key, map.next_value_seed(self)?);
        }
        self.one(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_parses_as_serde_json_does() {
        for text in [
            r#"{"a":[1,-2,3.5,1e300,null,true,"é\n\ud83d\ude00"],"b":{},"a":{"z":0,"y":[]}}"#,
            "18446744073709551615",
            "\"x\"",
            "",
            "[1,",
            "{\"a\" 1}",
            "1 2",
            "\"\\ud800\"",
        ] {
            let expected = serde_json::from_str::<Value>(text);
            let found = parse(text.as_bytes(), 100);
            match (expected, found) {
                (Ok(expected), Ok((found, _))) => {
                    assert_eq!(found.to_string(), expected.to_string());
                }
                (Err(expected), Err(found)) => {
                    assert_eq!(found.to_string(), expected.to_string());
                }
                (expected, found) => panic!("{text}: {expected:?}, {found:?}"),
            }
        }
    }

    #[test]
    fn more_values_than_allowed_are_an_error() {
        assert_eq!(parse(b"[1,[2],{\"a\":3}]", 6).expect("six").1, 6);
        let error = parse(b"[1,[2],{\"a\":3}]", 5).unwrap_err();
        assert!(error.to_string().starts_with(TOO_MANY), "{error}");
    }
}
