//! Swaps the fixed texts of a real binary for ours, and back.
//!
//! Real texts are learned by running the binary (`driver/codex/calibrate.rs`) and never stored in
//! the repository. A pair has the same length plain and JSON-escaped, so a swap moves no offset.
//! Texts are found plain, JSON-escaped (a body, a rollout line) and escaped twice (JSON inside a
//! JSON string), whole or cut by a truncation marker.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Shortest piece of a known text that is recognised beside a truncation marker, in bytes.
pub const FRAGMENT_BYTES_MIN: usize = 24;

/// One fixed text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Id in `engine::texts::KNOWN`.
    pub id: String,
    /// What the binary says.
    pub real: String,
    /// Our wording.
    pub ours: String,
}

/// The fixed texts of one binary.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Calibration {
    /// Every known text that this binary uses.
    pub pairs: Vec<Pair>,
}

/// How a text stands in its surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    EscapedTwice,
    Escaped,
    Plain,
}

/// Longest first: a form that another one contains has to come later.
const FORMS: [Form; 3] = [Form::EscapedTwice, Form::Escaped, Form::Plain];

impl Form {
    fn of(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Escaped => escape(text),
            Self::EscapedTwice => escape(&escape(text)),
        }
    }
}

fn escape(text: &str) -> String {
    let quoted = Value::String(text.to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

impl Calibration {
    /// What the binary says, in our words.
    pub fn to_ours(&self, text: &str) -> String {
        self.swap(text, |pair| (&pair.real, &pair.ours))
    }

    /// Our words, as the binary says them.
    pub fn to_real(&self, text: &str) -> String {
        self.swap(text, |pair| (&pair.ours, &pair.real))
    }

    /// [`Self::to_ours`] for bytes; bytes that are not UTF-8 stay as they are.
    pub fn to_ours_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.to_ours(text).into_bytes(),
            Err(_) => bytes.to_vec(),
        }
    }

    /// [`Self::to_ours`] for every string of a JSON value.
    pub fn to_ours_value(&self, value: &Value) -> Value {
        map_strings(value, &|text| self.to_ours(text))
    }

    /// [`Self::to_real`] for every string of a JSON value.
    pub fn to_real_value(&self, value: &Value) -> Value {
        map_strings(value, &|text| self.to_real(text))
    }

    fn swap<'a>(&'a self, text: &str, sides: fn(&'a Pair) -> (&'a str, &'a str)) -> String {
        let mut swapped = text.to_owned();
        for pair in &self.pairs {
            let (from, to) = sides(pair);
            for form in FORMS {
                let from = form.of(from);
                if swapped.contains(&from) {
                    swapped = swapped.replace(&from, &form.of(to));
                }
            }
        }
        for pair in &self.pairs {
            let (from, to) = sides(pair);
            swapped = swap_fragments(swapped, from, to);
        }
        swapped
    }

    /// The id of a real text of which a line is left in a captured string, if there is one.
    pub fn remnant(&self, captured: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|pair| {
                own_line(pair)
                    .is_some_and(|line| FORMS.iter().any(|form| captured.contains(&form.of(line))))
            })
            .map(|pair| pair.id.as_str())
    }
}

/// The first line of the real text that says more than a tag and that ours does not have.
fn own_line(pair: &Pair) -> Option<&str> {
    pair.real.lines().map(str::trim).find(|line| {
        line.len() >= FRAGMENT_BYTES_MIN && !line.starts_with('<') && !pair.ours.contains(line)
    })
}

fn map_strings(value: &Value, map: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(map(text)),
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| map_strings(item, map)).collect())
        }
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(key, value)| (key.clone(), map_strings(value, map)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Swaps the pieces of a text that a cut left beside its marker.
fn swap_fragments(mut text: String, from: &str, to: &str) -> String {
    let mut searched = 0;
    while let Some((start, end)) = find_marker(&text, searched) {
        let after = swap_suffix(&mut text, end, from, to);
        let shift = swap_prefix(&mut text, start, from, to);
        searched = after.saturating_add_signed(shift);
    }
    text
}

/// Byte range of the next `…N tokens truncated…` or `…N chars truncated…`.
fn find_marker(text: &str, mut searched: usize) -> Option<(usize, usize)> {
    const DOTS: &str = "…";
    while let Some(found) = text.get(searched..)?.find(DOTS) {
        let start = searched + found;
        let inside = start + DOTS.len();
        let rest = &text[inside..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let unit = [" tokens truncated…", " chars truncated…"]
            .into_iter()
            .find(|unit| digits > 0 && rest[digits..].starts_with(unit));
        if let Some(unit) = unit {
            return Some((start, inside + digits + unit.len()));
        }
        searched = inside;
    }
    None
}

/// Swaps the longest end of `from` that begins at `at`; returns where to go on.
fn swap_suffix(text: &mut String, at: usize, from: &str, to: &str) -> usize {
    for cut in 1..from.len().saturating_sub(FRAGMENT_BYTES_MIN) {
        if !(from.is_char_boundary(cut) && to.is_char_boundary(cut)) {
            continue;
        }
        for form in FORMS {
            let piece = form.of(&from[cut..]);
            if text[at..].starts_with(&piece) {
                let ours = form.of(&to[cut..]);
                text.replace_range(at..at + piece.len(), &ours);
                return at + ours.len();
            }
        }
    }
    at
}

/// Swaps the longest beginning of `from` that ends at `at`; returns by how much `at` moved.
fn swap_prefix(text: &mut String, at: usize, from: &str, to: &str) -> isize {
    for cut in (FRAGMENT_BYTES_MIN..from.len()).rev() {
        if !(from.is_char_boundary(cut) && to.is_char_boundary(cut)) {
            continue;
        }
        for form in FORMS {
            let piece = form.of(&from[..cut]);
            if text[..at].ends_with(&piece) {
                let ours = form.of(&to[..cut]);
                text.replace_range(at - piece.len()..at, &ours);
                return ours.len() as isize - piece.len() as isize;
            }
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: &str = "The \"real\" wording of a text\nthat is long enough to be cut in two.";
    const OURS: &str = "Our own \"words\" for this text\nthat has the same bytes as the first";

    fn calibration() -> Calibration {
        assert_eq!(REAL.len(), OURS.len());
        assert_eq!(escape(REAL).len(), escape(OURS).len());
        Calibration {
            pairs: vec![Pair {
                id: "t".into(),
                real: REAL.into(),
                ours: OURS.into(),
            }],
        }
    }

    #[test]
    fn a_text_is_swapped_in_every_form_and_back() {
        let calibration = calibration();
        for form in FORMS {
            let real = format!("a {} b", form.of(REAL));
            let ours = calibration.to_ours(&real);
            assert_eq!(ours, format!("a {} b", form.of(OURS)));
            assert_eq!(ours.len(), real.len());
            assert_eq!(calibration.to_real(&ours), real);
            assert_eq!(calibration.remnant(&real), Some("t"));
            assert_eq!(calibration.remnant(&ours), None);
        }
    }

    #[test]
    fn pieces_beside_a_marker_are_swapped_at_equal_offsets() {
        let calibration = calibration();
        for form in FORMS {
            let cut = |text: &str| {
                let (left, right) = (form.of(&text[..40]), form.of(&text[36..]));
                format!("x {left}…7 tokens truncated…{right} y …9 chars truncated… z")
            };
            assert_eq!(calibration.to_ours(&cut(REAL)), cut(OURS), "{form:?}");
            assert_eq!(calibration.to_real(&cut(OURS)), cut(REAL), "{form:?}");
        }
    }

    #[test]
    fn a_short_piece_and_a_piece_without_a_marker_stay() {
        let calibration = calibration();
        for text in [
            format!("{}…7 tokens truncated…", &REAL[..20]),
            REAL[..40].to_owned(),
        ] {
            assert_eq!(calibration.to_ours(&text), text);
        }
    }

    #[test]
    fn strings_of_json_values_are_swapped() {
        let value = serde_json::json!({"a": [REAL, 1], "b": null});
        let ours = calibration().to_ours_value(&value);
        assert_eq!(ours, serde_json::json!({"a": [OURS, 1], "b": null}));
        assert_eq!(calibration().to_real_value(&ours), value);
    }
}
