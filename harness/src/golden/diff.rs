//! Structural differences of two values: what, where, expected and actual.

use serde_json::Value;
use similar::{Algorithm, DiffOp, TextDiff, capture_diff_slices};

use super::fold::same;

/// One difference below some place.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// JSON pointer.
    pub pointer: String,
    /// Value in the golden; `None` if only the recording has it.
    pub expected: Option<Value>,
    /// Value in the recording; `None` if it is missing there.
    pub actual: Option<Value>,
}

/// All differences of two values, in order.
pub fn changes(expected: &Value, actual: &Value) -> Vec<Change> {
    let mut out = Vec::new();
    go(expected, actual, &mut String::new(), &mut out);
    out
}

fn go(expected: &Value, actual: &Value, at: &mut String, out: &mut Vec<Change>) {
    if same(expected, actual) {
        return;
    }
    match (expected, actual) {
        (Value::Object(a), Value::Object(b)) => {
            let before = out.len();
            for (key, value) in a {
                below(at, key, |at| match b.get(key) {
                    Some(other) => go(value, other, at, out),
                    None => push(at, Some(value), None, out),
                });
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                below(at, key, |at| push(at, None, Some(value), out));
            }
            if out.len() == before {
                // Same entries: the order of keys differs.
                let keys =
                    |m: &serde_json::Map<String, Value>| m.keys().cloned().collect::<Value>();
                below(at, "$key_order", |at| {
                    push(at, Some(&keys(a)), Some(&keys(b)), out);
                });
            }
        }
        (Value::Array(a), Value::Array(b)) => list(a, b, at, out),
        _ => push(at, Some(expected), Some(actual), out),
    }
}

/// Lists are aligned first, so that one new element is one difference.
fn list(a: &[Value], b: &[Value], at: &mut String, out: &mut Vec<Change>) {
    let text = |list: &[Value]| list.iter().map(Value::to_string).collect::<Vec<_>>();
    for op in capture_diff_slices(Algorithm::Myers, &text(a), &text(b)) {
        match op {
            DiffOp::Equal { .. } => {}
            DiffOp::Delete {
                old_index, old_len, ..
            } => {
                for (i, value) in a.iter().enumerate().skip(old_index).take(old_len) {
                    below(at, &i.to_string(), |at| push(at, Some(value), None, out));
                }
            }
            DiffOp::Insert {
                new_index, new_len, ..
            } => {
                for (i, value) in b.iter().enumerate().skip(new_index).take(new_len) {
                    below(at, &i.to_string(), |at| push(at, None, Some(value), out));
                }
            }
            DiffOp::Replace {
                old_index,
                old_len,
                new_index,
                new_len,
            } => {
                for i in 0..old_len.max(new_len) {
                    let old = (i < old_len).then(|| &a[old_index + i]);
                    let new = (i < new_len).then(|| &b[new_index + i]);
                    let index = if i < old_len {
                        old_index + i
                    } else {
                        new_index + i
                    };
                    below(at, &index.to_string(), |at| match (old, new) {
                        (Some(old), Some(new)) => go(old, new, at, out),
                        _ => push(at, old, new, out),
                    });
                }
            }
        }
    }
}

fn below(at: &mut String, key: &str, f: impl FnOnce(&mut String)) {
    let length = at.len();
    at.push('/');
    at.push_str(&key.replace('~', "~0").replace('/', "~1"));
    f(at);
    at.truncate(length);
}

fn push(at: &str, expected: Option<&Value>, actual: Option<&Value>, out: &mut Vec<Change>) {
    out.push(Change {
        pointer: at.to_owned(),
        expected: expected.cloned(),
        actual: actual.cloned(),
    });
}

/// Longest value printed whole, in bytes.
const SHOWN_BYTES_MAX: usize = 600;

/// Expected and actual for a person: two lines, or a unified diff of texts of several lines.
pub fn explain(change: &Change) -> String {
    if let (Some(Value::String(a)), Some(Value::String(b))) = (&change.expected, &change.actual)
        && (a.contains('\n') || b.contains('\n'))
    {
        let diff = TextDiff::from_lines(a, b);
        return diff
            .unified_diff()
            .context_radius(2)
            .header("expected", "actual")
            .to_string();
    }
    let show = |value: &Option<Value>| match value {
        None => "(nothing)".to_owned(),
        Some(value) => clip(&value.to_string()),
    };
    format!(
        "- expected {}\n+ actual   {}\n",
        show(&change.expected),
        show(&change.actual)
    )
}

fn clip(text: &str) -> String {
    if text.len() <= SHOWN_BYTES_MAX {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    format!("{}… ({} bytes)", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pointers(a: &Value, b: &Value) -> Vec<String> {
        changes(a, b).into_iter().map(|c| c.pointer).collect()
    }

    #[test]
    fn names_the_field() {
        let a = json!({"input": [{"t": "a"}, {"t": "b"}], "n": 1});
        assert_eq!(
            pointers(&a, &json!({"input": [{"t": "a"}, {"t": "c"}], "n": 1})),
            ["/input/1/t"]
        );
        assert_eq!(
            pointers(&a, &json!({"input": [{"t": "b"}, {"t": "a"}], "n": 1})).len(),
            2
        );
        assert_eq!(
            pointers(&a, &json!({"n": 1, "input": [{"t": "a"}, {"t": "b"}]})),
            ["/$key_order"]
        );
        let longer = json!({"input": [{"t": "x"}, {"t": "a"}, {"t": "b"}], "n": 1});
        assert_eq!(pointers(&a, &longer), ["/input/0"]);
        assert_eq!(pointers(&json!({"n": 1}), &json!({"n": 1.0})), ["/n"]);
    }

    proptest::proptest! {
        #[test]
        fn no_change_means_the_same_bytes(
            a in super::super::fold::tests::json_value(),
            b in super::super::fold::tests::json_value(),
        ) {
            let none = changes(&a, &b).is_empty();
            proptest::prop_assert_eq!(none, same(&a, &b));
        }
    }
}
