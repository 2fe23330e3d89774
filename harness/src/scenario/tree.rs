//! YAML text to a tree of nodes with positions.
//!
//! Scalars keep the text as written next to what JSON would make of it, so that the type that reads
//! a scalar decides: text where text is expected, a number only where JSON itself would type one.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::error::{Mark, Problem};

/// A node with its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Mark,
    pub(crate) kind: NodeKind,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeKind {
    /// Text as written, and its JSON value where a plain scalar has one that is not a string.
    Scalar { text: String, json: Option<Value> },
    /// A sequence.
    List(Vec<Node>),
    /// A mapping in file order.
    Map(Vec<(Key, Node)>),
}

/// A mapping key with its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) at: Mark,
    pub(crate) text: String,
}

impl Node {
    /// Whether nothing is written (`key:`).
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.kind, NodeKind::Scalar { text, json: Some(Value::Null) } if text.is_empty())
    }
}

/// The tree of a document that is valid, for a reader that has no use for the reason.
pub(crate) fn read(source: &str) -> Option<Node> {
    parse(source).ok()
}

/// Parses one YAML document.
pub(super) fn parse(source: &str) -> Result<Node, Problem> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::AsString,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 0,
            max_alias_expansions_per_anchor: 0,
        },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Spanned<Raw>>(source, options)
        .map(|raw| node(raw, source))
        .map_err(|error| explain(&error, source))
}

/// A YAML value before its scalars are looked up in the source.
enum Raw {
    Typed,
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

fn node(raw: Spanned<Raw>, source: &str) -> Node {
    let at = mark(raw.referenced);
    let kind = match raw.value {
        Raw::Typed => typed(slice(raw.referenced, source)),
        Raw::Text(text) => NodeKind::Scalar { text, json: None },
        Raw::List(items) => {
            NodeKind::List(items.into_iter().map(|item| node(item, source)).collect())
        }
        Raw::Map(entries) => NodeKind::Map(
            entries
                .into_iter()
                .map(|(key, value)| {
                    (
                        Key {
                            at: mark(key.referenced),
                            text: key.value,
                        },
                        node(value, source),
                    )
                })
                .collect(),
        ),
    };
    Node { at, kind }
}

/// A plain scalar that YAML types: JSON's own opinion counts, the rest stays text.
fn typed(text: &str) -> NodeKind {
    let text = text.trim();
    let json = if text.is_empty() {
        Some(Value::Null)
    } else {
        serde_json::from_str(text).ok()
    };
    NodeKind::Scalar {
        text: text.to_owned(),
        json,
    }
}

fn slice(location: serde_saphyr::Location, source: &str) -> &str {
    let span = location.span();
    let range = span.byte_offset().zip(span.byte_len());
    range
        .and_then(|(offset, length)| {
            let start = usize::try_from(offset).ok()?;
            source.get(start..start.checked_add(usize::try_from(length).ok()?)?)
        })
        .unwrap_or_default()
}

fn mark(location: serde_saphyr::Location) -> Mark {
    Mark {
        line: usize::try_from(location.line()).unwrap_or(0),
        column: usize::try_from(location.column()).unwrap_or(0),
    }
}

/// Our words for what the parser refuses.
fn explain(error: &serde_saphyr::Error, source: &str) -> Problem {
    let error = error.without_snippet();
    let at = error.location().map(mark).unwrap_or_default();
    if let Some(tab) = indentation_tab(source) {
        return Problem::new(tab, "a tab in the indentation")
            .why("YAML indents with spaces only")
            .help("replace the tab by two spaces");
    }
    if let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error {
        let name = key.as_deref().unwrap_or("?");
        return Problem::new(at, format!("duplicate key `{name}`"))
            .why("a mapping holds each key once")
            .help("remove one of the two");
    }
    let message = error.to_string();
    if message.contains("alias") || message.contains("multiple YAML documents") {
        return Problem::new(at, "an alias or a second document")
            .why("a scenario is one document without aliases")
            .help("write the value out, or make a second file");
    }
    let first = message.lines().next().unwrap_or_default();
    let what = first
        .split(" at line ")
        .next()
        .unwrap_or(first)
        .trim_end_matches(':');
    Problem::new(at, format!("not valid YAML: {what}"))
        .help("check the indentation: list items and keys of one level start in one column")
}

/// The first tab among the leading white space of a line.
fn indentation_tab(source: &str) -> Option<Mark> {
    source.lines().enumerate().find_map(|(index, line)| {
        let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
        let column = line[..blanks].find('\t')?;
        (blanks < line.len()).then_some(Mark {
            line: index + 1,
            column: column + 1,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(source: &str) -> (String, Option<Value>) {
        let node = parse(source).expect("valid YAML");
        let NodeKind::Map(entries) = node.kind else {
            panic!("a mapping")
        };
        let NodeKind::Scalar { text, json } = entries[0].1.kind.clone() else {
            panic!("a scalar")
        };
        (text, json)
    }

    #[test]
    fn scalars_keep_their_text() {
        assert_eq!(scalar("a: 1.10"), ("1.10".into(), Some(Value::from(1.1))));
        assert_eq!(scalar("a: no"), ("no".into(), None));
        assert_eq!(scalar("a: 0123"), ("0123".into(), None));
        assert_eq!(scalar("a: 1_000"), ("1_000".into(), None));
        assert_eq!(scalar("a: \"12\""), ("12".into(), None));
        assert_eq!(scalar("a: ~"), ("~".into(), None));
        assert_eq!(scalar("a: null"), ("null".into(), Some(Value::Null)));
        assert_eq!(scalar("a:"), (String::new(), Some(Value::Null)));
        assert_eq!(scalar("a: |\n  12\n"), ("12\n".into(), None));
        assert_eq!(scalar("a: .inf"), (".inf".into(), None));
    }

    #[test]
    fn positions_count_from_one() {
        let node = parse("a: 1\nb:\n  - 汉: x\n").expect("valid YAML");
        let NodeKind::Map(entries) = &node.kind else {
            panic!("a mapping")
        };
        assert_eq!(entries[1].0.at, Mark { line: 2, column: 1 });
        let NodeKind::List(items) = &entries[1].1.kind else {
            panic!("a list")
        };
        assert_eq!(items[0].at.line, 3);
    }
}
