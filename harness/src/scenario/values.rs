//! Values that occur all over a scenario: texts, generators, lists with positions, values by version.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use semver::{Version, VersionReq};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::decode::{AS_WRITTEN, LOCATED, MAYBE};
use super::error::Mark;

/// A value with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Located<T> {
    /// Where it begins.
    pub at: Mark,
    /// The value.
    pub value: T,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Positioned<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Positioned<T> {
            type Value = Located<T>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a value with its position")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
                let line = parts.next_element::<usize>()?.unwrap_or_default();
                let column = parts.next_element::<usize>()?.unwrap_or_default();
                let value = parts
                    .next_element()?
                    .ok_or_else(|| de::Error::custom("no value"))?;
                Ok(Located {
                    at: Mark { line, column },
                    value,
                })
            }
        }
        deserializer.deserialize_newtype_struct(LOCATED, Positioned(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

/// A list whose elements know their position. An element that does not fit is a finding and is
/// left out, so that the others are still looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Many<T>(pub Vec<Located<T>>);

impl<T> Default for Many<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = Many<T>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(Maybe(item)) = items.next_element::<Maybe<Located<T>>>()? {
                    list.extend(item);
                }
                Ok(Many(list))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Many(Vec::new()))
            }
        }
        deserializer.deserialize_seq(List(PhantomData))
    }
}

/// A list whose brackets are written, empty or not: a key that was left without a value is a slip.
pub(super) fn written_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Many<T>, D::Error> {
    let list: Vec<Maybe<Located<T>>> = Vec::deserialize(deserializer)?;
    Ok(Many(
        list.into_iter().filter_map(|Maybe(item)| item).collect(),
    ))
}

impl<T: JsonSchema> JsonSchema for Many<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("List_of_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Vec<T>>()
    }
}

/// An element that may have been left out after its finding was noted.
struct Maybe<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrNone<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrNone<T> {
            type Value = Maybe<T>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an element")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut one: A) -> Result<Self::Value, A::Error> {
                one.next_element().map(Maybe)
            }
        }
        deserializer.deserialize_newtype_struct(MAYBE, OneOrNone(PhantomData))
    }
}

/// A mapping in file order.
#[derive(Debug, Clone, PartialEq)]
pub struct Ordered<T>(pub Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a mapping")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Ordered(Vec::new()))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Ordered<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Mapping_to_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({"type": "object", "additionalProperties": value})
    }
}

/// A text: a scalar as written (`1.10` and `no` stay text), or a generator.
#[derive(Debug, Clone, PartialEq)]
pub enum Text {
    /// As written.
    Plain(String),
    /// Made by a generator.
    Made(Box<Generator>),
}

/// Makes a text instead of writing it out.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// The text that is repeated until `bytes` are full; only whole characters are put.
    pub repeat: Option<String>,
    /// Bytes of UTF-8 that `repeat` fills, for instance 80000. What is left below one repetition
    /// is filled with `.`.
    pub bytes: Option<usize>,
    /// Name of a fixed text (`summary_prefix`, `compaction_prompt`, `turn_aborted`, …), expanded
    /// for the subject.
    #[serde(rename = "$text")]
    pub fixed: Option<String>,
    /// Texts put one behind the other.
    pub join: Option<Vec<Text>>,
    /// A black PNG of this size as a data URL, `64x64`.
    pub png: Option<String>,
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text or a generator ({repeat, bytes}, {$text}, {join})")
            }
            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text::Plain(text.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
                Generator::deserialize(MapAccessDeserializer::new(map))
                    .map(|made| Text::Made(Box::new(made)))
            }
        }
        deserializer.deserialize_newtype_struct(AS_WRITTEN, TextVisitor)
    }
}

impl JsonSchema for Text {
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let made = generator.subschema_for::<Generator>();
        json_schema!({
            "description": "A text. A scalar is text as written (`1.10` and `no` stay text); a \
                            mapping is a generator.",
            "anyOf": [{"type": ["string", "number", "boolean"]}, made]
        })
    }
}

/// One element, or a list of them.
#[derive(Debug, Clone, PartialEq)]
pub enum OneOrMany<T> {
    /// A scalar or a mapping.
    One(T),
    /// A list.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// The elements in order.
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = OneOrMany<T>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("one element or a list")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                T::deserialize(WrittenScalar::<E>(text, PhantomData)).map(OneOrMany::One)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(OneOrMany::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(OneOrMany::Many)
            }
        }
        deserializer.deserialize_newtype_struct(AS_WRITTEN, Either(PhantomData))
    }
}

/// A scalar handed on as written.
struct WrittenScalar<'a, E>(&'a str, PhantomData<E>);

impl<'de, E: de::Error> Deserializer<'de> for WrittenScalar<'_, E> {
    type Error = E;
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_str(self.0)
    }
    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("One_or_many_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}

/// A piece of a message or of a tool output.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(Text),
    /// An image as a URL.
    Image {
        /// URL or `{png: WxH}`.
        url: Text,
        /// `auto`, `high`, `original`.
        detail: Option<String>,
    },
}

/// The long form of a part.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartFields {
    /// The text of this part.
    pub text: Option<Text>,
    /// The image of this part: a URL or `{png: WxH}`.
    pub image: Option<Text>,
    /// Detail of the image.
    pub detail: Option<String>,
    /// Short form of `image: {png: WxH}`.
    pub png: Option<String>,
    /// Short form of `text: {repeat, bytes}`.
    pub repeat: Option<String>,
    /// See `repeat`.
    pub bytes: Option<usize>,
    /// Short form of `text: {$text: id}`.
    #[serde(rename = "$text")]
    pub fixed: Option<String>,
    /// Short form of `text: {join: [...]}`.
    pub join: Option<Vec<Text>>,
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartVisitor;
        impl<'de> Visitor<'de> for PartVisitor {
            type Value = Part;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text or a part ({text}, {image}, {png})")
            }
            fn visit_str<E>(self, text: &str) -> Result<Part, E> {
                Ok(Part::Text(Text::Plain(text.to_owned())))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Part, A::Error> {
                part(PartFields::deserialize(MapAccessDeserializer::new(map))?)
                    .map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_newtype_struct(AS_WRITTEN, PartVisitor)
    }
}

fn part(fields: PartFields) -> Result<Part, &'static str> {
    let PartFields {
        text,
        image,
        detail,
        png,
        repeat,
        bytes,
        fixed,
        join,
    } = fields;
    if let Some(url) = image {
        return Ok(Part::Image { url, detail });
    }
    if png.is_some() {
        let url = Text::Made(Box::new(Generator {
            png,
            ..Generator::default()
        }));
        return Ok(Part::Image { url, detail });
    }
    if let Some(text) = text {
        return Ok(Part::Text(text));
    }
    if repeat.is_some() || fixed.is_some() || join.is_some() {
        let made = Generator {
            repeat,
            bytes,
            fixed,
            join,
            png: None,
        };
        return Ok(Part::Text(Text::Made(Box::new(made))));
    }
    Err("a part is a text or an image: `text:`, `image:`, `png:`")
}

impl JsonSchema for Part {
    fn schema_name() -> Cow<'static, str> {
        "Part".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fields = generator.subschema_for::<PartFields>();
        json_schema!({
            "description": "A piece of a message or of a tool output: a text, or a mapping.",
            "anyOf": [{"type": ["string", "number", "boolean"]}, fields]
        })
    }
}

/// What a user sends or a tool answers: one part or a list of parts (`[]` = none).
pub type Parts = OneOrMany<Part>;

/// A key that takes no value (`compact:`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nothing;

impl<'de> Deserialize<'de> for Nothing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null | Value::Bool(true) => Ok(Nothing),
            Value::Object(map) if map.is_empty() => Ok(Nothing),
            _ => Err(de::Error::custom("this key takes no value: leave it empty")),
        }
    }
}

impl JsonSchema for Nothing {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Nothing".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "null"}, {"const": true}, {"type": "object", "maxProperties": 0}]})
    }
}

/// A number, or one for each range of versions; the first range that matches counts.
#[derive(Debug, Clone, PartialEq)]
pub enum Count {
    /// On every version.
    Same(usize),
    /// By version range.
    ByVersion(Vec<(VersionReq, usize)>),
}

impl Count {
    /// The number for this version; `None` where no range matches.
    pub fn on(&self, version: &Version) -> Option<usize> {
        match self {
            Self::Same(number) => Some(*number),
            Self::ByVersion(ranges) => ranges
                .iter()
                .find(|(range, _)| range.matches(version))
                .map(|(_, number)| *number),
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountVisitor;
        impl<'de> Visitor<'de> for CountVisitor {
            type Value = Count;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number, or numbers by version range")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Count, E> {
                usize::try_from(number).map(Count::Same).map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                let mut ranges = Vec::new();
                while let Some((range, number)) = map.next_entry::<String, usize>()? {
                    ranges.push((version_range(&range).map_err(de::Error::custom)?, number));
                }
                Ok(Count::ByVersion(ranges))
            }
        }
        deserializer.deserialize_any(CountVisitor)
    }
}

impl JsonSchema for Count {
    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number, or a mapping from version ranges to numbers \
                            (`{\"<0.164\": 3, \"*\": 1}`); the first range that matches counts.",
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
            ]
        })
    }
}

/// Parses a range such as `<0.164` or `>=0.164, <0.171`.
pub(crate) fn version_range(text: &str) -> Result<VersionReq, String> {
    VersionReq::parse(text).map_err(|error| format!("`{text}` is no version range: {error}"))
}
