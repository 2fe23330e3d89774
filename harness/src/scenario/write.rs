//! Writes a tree as YAML, as the scenarios of the suite are written: flow style for what fits in a
//! line, block style around it. What it writes reads back as the same tree. The only writer of
//! scenarios: `import` and `shrink` both end here.

use std::fmt::Write as _;

use super::plain::Tree;

/// Columns that a flow node has to fit in. A long text is never broken.
const COLUMNS_MAX: usize = 100;
/// Spaces for each level.
const INDENT: usize = 2;

/// The text of a scenario file.
pub fn write(tree: &Tree) -> String {
    let mut out = String::new();
    match tree {
        Tree::Map(entries) if !entries.is_empty() => {
            for (index, (key, value)) in entries.iter().enumerate() {
                entry(&mut out, key, value, 0, index > 0);
            }
            out.push('\n');
        }
        other => {
            flow(&mut out, other);
            out.push('\n');
        }
    }
    out
}

/// The text of a scenario file with comment lines before it.
pub fn write_with_comments(comments: &[String], tree: &Tree) -> String {
    let mut out = String::new();
    for line in comments {
        out.push_str("# ");
        out.extend(line.chars().flat_map(|shown| {
            // Nothing ends a comment but the end of its line, and nothing hides in it.
            let escaped = needs_escape(shown).then(|| shown.escape_default());
            let as_is = escaped.is_none().then_some(shown);
            as_is.into_iter().chain(escaped.into_iter().flatten())
        }));
        out.push('\n');
    }
    out + &write(tree)
}

/// `key: value`, on a line of its own where it is not the first of its block.
fn entry(out: &mut String, key: &str, value: &Tree, indent: usize, own_line: bool) {
    if own_line {
        new_line(out, indent);
    }
    scalar(out, key, true);
    out.push(':');
    let used = out.len() - out.rfind('\n').map_or(0, |at| at + 1);
    // Steps stand one below the other even where all of them fit in a line.
    let is_steps = indent == 0 && key == "steps";
    if !is_steps && fits(value, used + 1) {
        let mut text = String::new();
        block_scalar_or_flow(&mut text, value);
        if !text.is_empty() {
            out.push(' ');
            out.push_str(&text);
        }
        return;
    }
    match value {
        Tree::List(items) if !items.is_empty() => {
            for item in items {
                new_line(out, indent + INDENT);
                element(out, item, indent + INDENT);
            }
        }
        Tree::Map(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                entry(out, key, value, indent + INDENT, true);
            }
        }
        other => {
            out.push(' ');
            block_scalar_or_flow(out, other);
        }
    }
}

/// `- element`.
fn element(out: &mut String, item: &Tree, indent: usize) {
    out.push_str("- ");
    match item {
        Tree::Map(entries) if !entries.is_empty() && !fits(item, indent + INDENT) => {
            for (index, (key, value)) in entries.iter().enumerate() {
                entry(out, key, value, indent + INDENT, index > 0);
            }
        }
        // A list of texts too long for a line, as in `content`; the inner one starts a line.
        Tree::List(items) if !items.is_empty() && !fits(item, indent + INDENT) => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    new_line(out, indent + INDENT);
                }
                element(out, item, indent + INDENT);
            }
        }
        Tree::List(_) | Tree::Map(_) => flow(out, item),
        Tree::Typed(text) if text.is_empty() => out.push_str("null"),
        Tree::Typed(text) => out.push_str(text),
        Tree::Text(text) => scalar(out, text, false),
    }
}

fn new_line(out: &mut String, indent: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Whether a node may stand behind `used` columns: every scalar, and what is short enough.
fn fits(node: &Tree, used: usize) -> bool {
    match node {
        Tree::Typed(_) | Tree::Text(_) => true,
        Tree::List(_) | Tree::Map(_) => {
            let mut text = String::new();
            flow(&mut text, node);
            used + text.chars().count() <= COLUMNS_MAX
        }
    }
}

fn block_scalar_or_flow(out: &mut String, node: &Tree) {
    match node {
        Tree::Text(text) => scalar(out, text, false),
        other => flow(out, other),
    }
}

fn flow(out: &mut String, node: &Tree) {
    match node {
        Tree::Typed(text) => out.push_str(text),
        Tree::Text(text) => scalar(out, text, true),
        Tree::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                match item {
                    // Nothing at all is no element of a flow list.
                    Tree::Typed(text) if text.is_empty() => out.push_str("null"),
                    other => flow(out, other),
                }
            }
            out.push(']');
        }
        Tree::Map(entries) => {
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                scalar(out, key, true);
                out.push_str(": ");
                flow(out, value);
            }
            out.push('}');
        }
    }
}

/// A text as the value of a key.
pub(super) fn text_value(text: &str) -> String {
    let mut out = String::new();
    scalar(&mut out, text, false);
    out
}

/// A text, plain where that reads back as the same text.
fn scalar(out: &mut String, text: &str, in_flow: bool) {
    if is_plain(text, in_flow) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // YAML takes some of them for line ends and refuses others.
            hidden if needs_escape(hidden) => {
                let _ = write!(out, "\\u{:04X}", hidden as u32);
            }
            shown => out.push(shown),
        }
    }
    out.push('"');
}

fn needs_escape(character: char) -> bool {
    matches!(character, '\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{2028}' | '\u{2029}'
        | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn is_plain(text: &str, in_flow: bool) -> bool {
    let Some(first) = text.chars().next() else {
        return false;
    };
    let starts = first.is_alphanumeric() || matches!(first, '_' | '$' | '/' | '(');
    let flows = |c: char| matches!(c, ',' | '[' | ']' | '{' | '}');
    let odd = |c: char| needs_escape(c) || (in_flow && flows(c));
    if !starts || text.ends_with([' ', ':']) || text.contains(odd) {
        return false;
    }
    if text.contains(": ") || text.contains(" #") {
        return false;
    }
    // Words and numbers that YAML has an opinion on: the reader itself says what they are.
    let short = text.len() <= 5 && text.chars().all(char::is_alphabetic);
    if first.is_numeric() || short {
        let read = Tree::read(&format!("- {text}"));
        return read == Some(Tree::List(vec![Tree::Text(text.to_owned())]));
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ -~]{0,12}",
            "\\PC{0,6}",
            any::<String>(),
            "[a-z]{1,9}",
            prop::sample::select(vec![
                "true",
                "False",
                "null",
                "~",
                "no",
                "yes",
                "on",
                "1.10",
                "0123",
                "1_000",
                ".inf",
                "0x1F",
                "1e5",
                "64x64",
                "- a",
                "a: b",
                "a #b",
                "? a",
                "a:",
                "\n",
                " a",
                "a ",
                "|",
                "a\nb\n",
                "\u{85}",
                "\u{feff}",
                "https://x.y/z",
                "a,b",
                "[a]",
                "{a}",
                "'",
                "---",
                "...",
                "12:30:45",
                "2026-01-01",
                "1 2",
                "NaN",
                "=",
                "<<",
                "&a",
                "*a",
                "!t",
                "%",
            ])
            .prop_map(str::to_owned),
        ]
    }

    fn tree() -> impl Strategy<Value = Tree> {
        let typed = prop::sample::select(vec!["1", "-2.50", "true", "false", "null", "1e3"]);
        let leaf = prop_oneof![
            3 => text().prop_map(Tree::Text),
            1 => typed.prop_map(|text| Tree::Typed(text.to_owned())),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::List),
                prop::collection::btree_map(text(), inner, 0..5)
                    .prop_map(|map| Tree::Map(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(steps in tree(), other in tree()) {
            let top = Tree::Map(vec![("steps".to_owned(), steps), ("other".to_owned(), other)]);
            let text = write(&top);
            prop_assert_eq!(Tree::read(&text), Some(top), "{}", text);
        }
    }

    #[test]
    fn small_parts_flow_and_long_ones_stand_in_blocks() {
        let source = "description: A turn, written out.\n\
            models: {main: {auto_compact_token_limit: 500}}\n\
            steps:\n  \
              - {user: Hello., replies: [{say: \"Hi, you.\"}]}\n  \
              - user: A text that is so long that the step does not fit in a line of one hundred columns.\n    \
                replies: [{fault: {drop_connection: }}, {say: Yes.}]\n";
        let tree = Tree::read(source).expect("valid YAML");
        assert_eq!(write(&tree), source);
    }

    #[test]
    fn a_comment_stays_on_its_line() {
        let comments = ["a\nb\u{2028}c 漢".to_owned()];
        let text = write_with_comments(&comments, &Tree::Map(Vec::new()));
        assert_eq!(text, "# a\\nb\\u{2028}c 漢\n{}\n");
    }

    /// What JSON says is a text stays one, whatever YAML would read.
    #[test]
    fn a_json_tree_reads_back_as_itself() {
        let json = serde_json::json!({"steps": [{"inject": [{"content": ["1", "no", null, 1.5,
            true, "", [], {}, "a: b", [["x".repeat(120), "y"], 2]]}]}]});
        let tree = Tree::from(&json);
        let text = write(&tree);
        assert_eq!(Tree::read(&text), Some(tree), "{text}");
    }

    /// Every scenario of the suite is written and read back.
    #[test]
    fn scenarios_of_the_suite_read_back() {
        let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let suite = crate::scenario::Suite::find(here).expect("a suite");
        assert!(suite.files.len() > 500);
        for file in &suite.files {
            let source = std::fs::read_to_string(&file.path).expect("readable");
            let tree = Tree::read(&source).expect("valid YAML");
            let text = write(&tree);
            assert_eq!(Tree::read(&text), Some(tree), "{}: {text}", file.id);
        }
    }
}
