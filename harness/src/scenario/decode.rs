//! Reads the scenario types out of a node tree.
//!
//! A serde deserializer that goes on after a finding: an unknown key is noted and skipped, a list
//! element that does not fit is noted and left out. So one run names every finding of a file.

use std::cell::RefCell;
use std::fmt;

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde_json::Value;

use super::error::{Mark, Problem, start, suggest};
use super::tree::{Key, Node, NodeKind};

/// Name under which [`Located`](super::values::Located) asks for a position.
pub(super) const LOCATED: &str = "$located";
/// Name under which a list asks for an element that may have been left out.
pub(super) const MAYBE: &str = "$maybe";
/// Name under which a type asks for a scalar as written, a list or a mapping.
pub(super) const AS_WRITTEN: &str = "$as_written";

/// Characters of a scalar that a message shows.
const WORD_CHARS_MAX: usize = 40;

/// A finding on its way up; it gets its position at the innermost node.
#[derive(Debug)]
pub(super) struct DecodeError {
    at: Option<Mark>,
    what: String,
    help: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            at: None,
            what: message.to_string(),
            help: String::new(),
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        de::Error::custom(format!(
            "expected {}, found {}",
            wanted(&expected.to_string()),
            given(found)
        ))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        de::Error::invalid_type(found, expected)
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            at: None,
            what: format!("missing key `{field}`"),
            help: format!("add `{field}:` here"),
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self {
            at: None,
            what: format!("unknown key `{field}`"),
            help: suggest(field, expected),
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self {
            at: None,
            what: format!("unknown word `{variant}`"),
            help: suggest(variant, expected),
        }
    }
}

/// What a reader of the file calls the types of the format.
fn wanted(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "`true` or `false`",
        "a string" => "a text",
        "a sequence" => "a list",
        "a map" => "a mapping",
        other => other,
    }
}

/// What stands there instead, in the words of the file.
fn given(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("`{value}`"),
        Unexpected::Signed(value) => format!("`{value}`"),
        Unexpected::Float(value) => format!("`{value}`"),
        Unexpected::Char(value) => format!("`{value}`"),
        Unexpected::Str(text) => format!("`{}`", start(text, WORD_CHARS_MAX).escape_debug()),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a mapping".to_owned(),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        other => other.to_string(),
    }
}

/// Decodes `node`; every finding is returned.
pub(super) fn decode<T: de::DeserializeOwned>(node: &Node) -> Result<T, Vec<Problem>> {
    let problems = RefCell::new(Vec::new());
    let reader = Reader {
        node,
        problems: &problems,
    };
    let result = T::deserialize(reader);
    let mut found = problems.take();
    match result {
        Ok(value) if found.is_empty() => Ok(value),
        Ok(_) => Err(found),
        Err(error) => {
            found.push(error.into_problem(node.at));
            Err(found)
        }
    }
}

impl DecodeError {
    fn into_problem(self, fallback: Mark) -> Problem {
        Problem::new(self.at.unwrap_or(fallback), self.what).help(self.help)
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    node: &'a Node,
    problems: &'a RefCell<Vec<Problem>>,
}

impl<'a> Reader<'a> {
    fn child(self, node: &'a Node) -> Self {
        Self {
            node,
            problems: self.problems,
        }
    }

    fn place<T>(self, result: Result<T, DecodeError>) -> Result<T, DecodeError> {
        result.map_err(|error| DecodeError {
            at: error.at.or(Some(self.node.at)),
            ..error
        })
    }

    fn any<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.node.kind {
            NodeKind::Scalar { text, json } => match json {
                Some(Value::Bool(value)) => visitor.visit_bool(*value),
                Some(Value::Number(number)) => visit_number(number, visitor),
                Some(Value::Null) => visitor.visit_unit(),
                _ => visitor.visit_str(text),
            },
            NodeKind::List(items) => visitor.visit_seq(Items {
                reader: self,
                rest: items.iter(),
            }),
            NodeKind::Map(entries) => visitor.visit_map(Entries::new(self, entries, None)),
        }
    }

    fn as_written<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.node.kind {
            NodeKind::Scalar { text, .. } => visitor.visit_str(text),
            NodeKind::List(_) | NodeKind::Map(_) => self.any(visitor),
        }
    }
}

fn visit_number<'de, V: Visitor<'de>>(
    number: &serde_json::Number,
    visitor: V,
) -> Result<V::Value, DecodeError> {
    if let Some(value) = number.as_u64() {
        visitor.visit_u64(value)
    } else if let Some(value) = number.as_i64() {
        visitor.visit_i64(value)
    } else {
        visitor.visit_f64(number.as_f64().unwrap_or_default())
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.place(self.any(visitor))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.place(self.as_written(visitor))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.place(self.as_written(visitor))
    }

    /// A key that is written is given: `null` is a value like another.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match name {
            LOCATED => visitor.visit_seq(WithPosition {
                reader: self,
                given: 0,
            }),
            MAYBE => visitor.visit_seq(Once { reader: Some(self) }),
            AS_WRITTEN => self.place(self.as_written(visitor)),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match &self.node.kind {
            NodeKind::Map(entries) => {
                self.place(visitor.visit_map(Entries::new(self, entries, Some(fields))))
            }
            NodeKind::Scalar { .. } if self.node.is_empty() => {
                self.place(visitor.visit_map(Entries::new(self, &[], Some(fields))))
            }
            NodeKind::Scalar { .. } | NodeKind::List(_) => {
                let error = DecodeError {
                    at: None,
                    what: "a mapping is expected here".to_owned(),
                    help: format!("valid keys: {}", fields.join(", ")),
                };
                self.place(Err(error))
            }
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let result = match &self.node.kind {
            NodeKind::Scalar { text, .. } if variants.contains(&text.as_str()) => {
                visitor.visit_enum(Word(text))
            }
            NodeKind::Scalar { text, .. } => Err(de::Error::unknown_variant(text, variants)),
            NodeKind::List(_) | NodeKind::Map(_) => Err(DecodeError {
                at: None,
                what: "one word is expected here".to_owned(),
                help: format!("valid here: {}", variants.join(", ")),
            }),
        };
        self.place(result)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

/// The word of an enum without content.
struct Word<'a>(&'a str);

impl<'de> EnumAccess<'de> for Word<'_> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), DecodeError> {
        let value: Result<V::Value, DecodeError> = seed.deserialize(self.0.into_deserializer());
        Ok((value?, self))
    }
}

impl<'de> VariantAccess<'de> for Word<'_> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        _seed: T,
    ) -> Result<T::Value, DecodeError> {
        Err(de::Error::custom("a word takes no value"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, DecodeError> {
        Err(de::Error::custom("a word takes no value"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, DecodeError> {
        Err(de::Error::custom("a word takes no value"))
    }
}

/// Line, column and the value itself.
struct WithPosition<'a> {
    reader: Reader<'a>,
    given: usize,
}

impl<'de> SeqAccess<'de> for WithPosition<'_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let at = self.reader.node.at;
        self.given += 1;
        match self.given {
            1 => seed
                .deserialize((at.line as u64).into_deserializer())
                .map(Some),
            2 => seed
                .deserialize((at.column as u64).into_deserializer())
                .map(Some),
            3 => seed.deserialize(self.reader).map(Some),
            _ => Ok(None),
        }
    }
}

struct Items<'a> {
    reader: Reader<'a>,
    rest: std::slice::Iter<'a, Node>,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some(node) = self.rest.next() else {
            return Ok(None);
        };
        seed.deserialize(self.reader.child(node)).map(Some)
    }
}

/// One value, or none with its finding noted.
struct Once<'a> {
    reader: Option<Reader<'a>>,
}

impl<'de> SeqAccess<'de> for Once<'_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some(reader) = self.reader.take() else {
            return Ok(None);
        };
        match seed.deserialize(reader) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                reader
                    .problems
                    .borrow_mut()
                    .push(error.into_problem(reader.node.at));
                Ok(None)
            }
        }
    }
}

struct Entries<'a> {
    reader: Reader<'a>,
    rest: std::slice::Iter<'a, (Key, Node)>,
    value: Option<&'a Node>,
    fields: Option<&'static [&'static str]>,
}

impl<'a> Entries<'a> {
    fn new(
        reader: Reader<'a>,
        entries: &'a [(Key, Node)],
        fields: Option<&'static [&'static str]>,
    ) -> Self {
        Self {
            reader,
            rest: entries.iter(),
            value: None,
            fields,
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DecodeError> {
        for (key, value) in self.rest.by_ref() {
            if let Some(fields) = self.fields
                && !fields.contains(&key.text.as_str())
            {
                let problem = Problem::new(key.at, format!("unknown key `{}`", key.text))
                    .help(suggest(&key.text, fields));
                self.reader.problems.borrow_mut().push(problem);
                continue;
            }
            self.value = Some(value);
            return seed
                .deserialize(key.text.as_str().into_deserializer())
                .map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, DecodeError> {
        match self.value.take() {
            Some(node) => seed.deserialize(self.reader.child(node)),
            None => Err(de::Error::custom("a value was asked for before its key")),
        }
    }
}
