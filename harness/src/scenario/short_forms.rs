//! Short forms: a scalar or a list where the long form is a mapping.
//!
//! One visitor shape serves all of them; only what a scalar, a list and a mapping mean differs.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};

use super::decode::AS_WRITTEN;
use super::reply::{
    CompactionFields, CompactionItem, Delivered, DeliveredFields, For, ForCompaction, Output,
    OutputFields, Pattern, PatternFields, Reasoning, ReasoningFields, TextMatch, TextMatchFields,
};
use super::schema::{EndsFields, EndsWith};
use super::values::{Generator, OneOrMany, Part, Text, version_range};

/// A type with a short form.
trait ShortForm: Sized {
    /// The mapping.
    type Fields: DeserializeOwned + JsonSchema;
    /// What is expected, for a message.
    const EXPECTED: &'static str;
    /// Whether a list is allowed.
    const LIST: bool = false;

    /// Reads a scalar as written.
    fn from_text(text: &str) -> Result<Self, String>;

    /// Reads the mapping.
    fn from_fields(fields: Self::Fields) -> Result<Self, String>;

    /// Reads a list of parts.
    fn from_list(_parts: Vec<Part>) -> Result<Self, String> {
        Err(format!("no list here: {}", Self::EXPECTED))
    }
}

struct ShortVisitor<T>(PhantomData<T>);

impl<'de, T: ShortForm> Visitor<'de> for ShortVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        let fields = T::Fields::deserialize(MapAccessDeserializer::new(map))?;
        T::from_fields(fields).map_err(de::Error::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
        let parts = Vec::deserialize(SeqAccessDeserializer::new(seq))?;
        T::from_list(parts).map_err(de::Error::custom)
    }
}

macro_rules! short_form {
    ($type:ty, $name:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_newtype_struct(AS_WRITTEN, ShortVisitor(PhantomData))
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let fields = generator.subschema_for::<<$type as ShortForm>::Fields>();
                let scalar = json_schema!({"type": ["string", "number", "boolean"]});
                let mut forms = vec![scalar, fields];
                if <$type as ShortForm>::LIST {
                    let part = generator.subschema_for::<Part>();
                    forms.push(json_schema!({"type": "array", "items": part}));
                }
                let expected = <$type as ShortForm>::EXPECTED;
                json_schema!({"description": expected, "anyOf": forms})
            }
        }
    };
}

short_form!(For, "For");
short_form!(Reasoning, "Reasoning");
short_form!(CompactionItem, "CompactionItem");
short_form!(Output, "Output");
short_form!(Delivered, "Delivered");
short_form!(Pattern, "Pattern");
short_form!(TextMatch, "TextMatch");
short_form!(EndsWith, "Ends");

impl ShortForm for For {
    type Fields = ForCompaction;
    const EXPECTED: &'static str = "`prewarm`, or a mapping with `compaction`.";

    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "prewarm" => Ok(Self::Prewarm),
            _ => Err(format!(
                "unknown kind of request `{text}`: {}",
                Self::EXPECTED
            )),
        }
    }

    fn from_fields(fields: ForCompaction) -> Result<Self, String> {
        Ok(Self::Compaction(fields))
    }
}

impl ShortForm for Reasoning {
    type Fields = ReasoningFields;
    const EXPECTED: &'static str = "One summary text, or a mapping.";

    fn from_text(text: &str) -> Result<Self, String> {
        let summary = Some(OneOrMany::One(Text::Plain(text.to_owned())));
        Ok(Self {
            fields: ReasoningFields {
                summary,
                ..ReasoningFields::default()
            },
        })
    }

    fn from_fields(fields: ReasoningFields) -> Result<Self, String> {
        Ok(Self { fields })
    }
}

impl ShortForm for CompactionItem {
    type Fields = CompactionFields;
    const EXPECTED: &'static str = "The encrypted content, or a mapping.";

    fn from_text(text: &str) -> Result<Self, String> {
        let encrypted_content = Text::Plain(text.to_owned());
        Ok(Self {
            fields: CompactionFields {
                encrypted_content,
                item_id: None,
            },
        })
    }

    fn from_fields(fields: CompactionFields) -> Result<Self, String> {
        Ok(Self { fields })
    }
}

impl ShortForm for Output {
    type Fields = OutputFields;
    const EXPECTED: &'static str =
        "A text, a list of parts, a generator, `{fail: …}` or `{rpc_error: }`.";
    const LIST: bool = true;

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self::Parts(OneOrMany::One(Part::Text(Text::Plain(
            text.to_owned(),
        )))))
    }

    fn from_fields(fields: OutputFields) -> Result<Self, String> {
        let OutputFields {
            fail,
            rpc_error,
            repeat,
            bytes,
            fixed,
            join,
            png,
        } = fields;
        match (fail, rpc_error) {
            (Some(parts), None) => Ok(Self::Fail(parts)),
            (None, Some(_)) => Ok(Self::RpcError),
            (Some(_), Some(_)) => Err("`fail` and `rpc_error` exclude each other".to_owned()),
            (None, None) => {
                let image = png.is_some();
                let made = Text::Made(Box::new(Generator {
                    repeat,
                    bytes,
                    fixed,
                    join,
                    png,
                }));
                let part = if image {
                    Part::Image {
                        url: made,
                        detail: None,
                    }
                } else {
                    Part::Text(made)
                };
                Ok(Self::Parts(OneOrMany::One(part)))
            }
        }
    }

    fn from_list(parts: Vec<Part>) -> Result<Self, String> {
        Ok(Self::Parts(OneOrMany::Many(parts)))
    }
}

impl ShortForm for Delivered {
    type Fields = DeliveredFields;
    const EXPECTED: &'static str = "`cut`, or `{cut: version range}`.";

    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "cut" => Ok(Self::Cut),
            _ => Err(format!("unknown word `{text}`: {}", Self::EXPECTED)),
        }
    }

    fn from_fields(fields: DeliveredFields) -> Result<Self, String> {
        version_range(&fields.cut).map(Self::CutOn)
    }
}

impl ShortForm for Pattern {
    type Fields = PatternFields;
    const EXPECTED: &'static str = "A role, `compaction_prompt`, an item type, or a mapping.";

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self::Word(text.to_owned()))
    }

    fn from_fields(fields: PatternFields) -> Result<Self, String> {
        Ok(Self::Fields(Box::new(fields)))
    }
}

impl ShortForm for TextMatch {
    type Fields = TextMatchFields;
    const EXPECTED: &'static str = "The whole text, or `{prefix: …}`, `{contains: …}`.";

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self::Is(Text::Plain(text.to_owned())))
    }

    fn from_fields(fields: TextMatchFields) -> Result<Self, String> {
        let TextMatchFields {
            is,
            prefix,
            contains,
            repeat,
            bytes,
            fixed,
            join,
        } = fields;
        match (is, prefix, contains) {
            (Some(text), None, None) => Ok(Self::Is(text)),
            (None, Some(text), None) => Ok(Self::Prefix(text)),
            (None, None, Some(text)) => Ok(Self::Contains(text)),
            (None, None, None) => {
                let made = Generator {
                    repeat,
                    bytes,
                    fixed,
                    join,
                    png: None,
                };
                Ok(Self::Is(Text::Made(Box::new(made))))
            }
            _ => Err("`is`, `prefix` and `contains` exclude each other".to_owned()),
        }
    }
}

impl ShortForm for EndsWith {
    type Fields = EndsFields;
    const EXPECTED: &'static str =
        "`completed`, `interrupted`, `failed`, or `{failed: part of the message}`.";

    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "completed" => Ok(Self::Completed),
            "interrupted" => Ok(Self::Interrupted),
            "failed" => Ok(Self::Failed(None)),
            _ => Err(format!("unknown word `{text}`: {}", Self::EXPECTED)),
        }
    }

    fn from_fields(fields: EndsFields) -> Result<Self, String> {
        Ok(Self::Failed(Some(fields.failed)))
    }
}
