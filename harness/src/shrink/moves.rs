//! What may be made smaller in a tree: removals, shorter forms, shorter texts, smaller numbers.
//!
//! Each move makes the tree smaller in a fixed order (nodes, then bytes of texts, then numbers), so
//! that no sequence of moves comes back to where it was. A move knows nothing of what a scenario
//! means; the loader and the predicate judge.

use crate::scenario::plain::{Place, Tree};

/// Keys of the top level that stay: the sentence says why the scenario exists.
const KEPT: &[&str] = &["description"];
/// Words and numbers under these keys name something; a shorter word names nothing, and a status of
/// 0 is none.
const NAMES: &[&str] = &[
    "type",
    "role",
    "tool",
    "call_id",
    "id",
    "name",
    "namespace",
    "model",
    "$text",
    "versions",
    "reason",
    "for",
    "call",
    "output_schema",
    "provider_name",
    "status",
    "http",
    "handshake",
    "websocket_close",
];
/// Texts of one word and no more than this are short enough.
const WORD_BYTES_MAX: usize = 12;
/// What a long word becomes.
const WORD: &str = "x";
/// Pairs are tried among no more nodes than this: their number grows with the square.
const PAIRED_NODES_MAX: usize = 48;

/// Places of lists: outer ones first.
pub(super) fn lists(tree: &Tree) -> Vec<Place> {
    let mut places = tree.places();
    places.retain(|place| matches!(tree.at(place), Some(Tree::List(_))));
    places
}

/// Number of elements of the list at a place.
pub(super) fn list_len(tree: &Tree, place: &[usize]) -> usize {
    match tree.at(place) {
        Some(Tree::List(items)) => items.len(),
        _ => 0,
    }
}

/// Keys below the top level, each once, in order of appearance.
pub(super) fn keys(tree: &Tree) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for place in tree.places().iter().filter(|place| place.len() > 1) {
        let (last, way) = (place[place.len() - 1], &place[..place.len() - 1]);
        if let Some(Tree::Map(entries)) = tree.at(way)
            && let Some((key, _)) = entries.get(last)
            && !keys.contains(key)
        {
            keys.push(key.clone());
        }
    }
    keys
}

/// Nodes whose removal is tried: every one but what has to stay. Inner nodes of a removed one go
/// with it, so outer ones come first; among neighbours the last comes first, because a removal at
/// the end changes neither context nor numbered ids of what stands before it.
pub(super) fn removable(tree: &Tree) -> Vec<Place> {
    let mut places = tree.places();
    places.retain(|place| match place[..] {
        [_] => tree.key_of(place).is_some_and(|key| !KEPT.contains(&key)),
        _ => true,
    });
    places.sort_by(|a, b| a.len().cmp(&b.len()).then(b.cmp(a)));
    places
}

/// Pairs of nodes that belong together over a distance: steps, replies and items, and usages, which
/// decide whether a later step compacts. None where there are too many.
pub(super) fn pairs(tree: &Tree) -> Vec<(Place, Place)> {
    let mut nodes = removable(tree);
    nodes.retain(|place| {
        let way = &place[..place.len() - 1];
        let element = matches!(tree.at(way), Some(Tree::List(_)));
        match tree.key_of(place) {
            Some("steps" | "replies" | "items" | "inject" | "do" | "while_running") => element,
            Some("usage" | "ends" | "attempts" | "gate" | "model" | "fault") => !element,
            _ => false,
        }
    });
    if nodes.len() > PAIRED_NODES_MAX {
        nodes.retain(|place| place.len() == 2);
    }
    if nodes.len() > PAIRED_NODES_MAX {
        return Vec::new();
    }
    let later = |at: usize| nodes[at + 1..].iter();
    let both = nodes
        .iter()
        .enumerate()
        .flat_map(|(at, one)| later(at).map(move |other| (one.clone(), other.clone())));
    // The second is gone with the first if it lies in it.
    both.filter(|(one, other)| !other.starts_with(one))
        .collect()
}

/// The tree without two nodes.
pub(super) fn without_pair(tree: &Tree, one: &[usize], other: &[usize]) -> Option<Tree> {
    // The later one first, so that the place of the other still holds.
    let (first, second) = if one > other {
        (one, other)
    } else {
        (other, one)
    };
    tree.without(first)?.without(second)
}

/// Shorter ways to write a node: `[x]` as `x`, `items: [{say: x}]` as `say: x`.
pub(super) fn shorter_forms(tree: &Tree) -> Vec<Tree> {
    let mut out = Vec::new();
    for place in tree.places() {
        match tree.at(&place) {
            Some(Tree::List(items)) if items.len() == 1 => {
                // Parts are a list of texts or mappings with `text` and `image`.
                let item = match &items[0] {
                    Tree::Map(entries) if entries.len() == 1 && entries[0].0 == "text" => {
                        &entries[0].1
                    }
                    other => other,
                };
                out.extend(tree.with(&place, item.clone()));
            }
            Some(Tree::Map(entries)) => {
                let items = entries.iter().position(|(key, _)| key == "items");
                if let Some(at) = items
                    && let Tree::List(list) = &entries[at].1
                    && let [Tree::Map(only)] = &list[..]
                {
                    let mut flat = entries.clone();
                    flat.splice(at..=at, only.iter().cloned());
                    out.extend(tree.with(&place, Tree::Map(flat)));
                }
                if let [(key, inner)] = &entries[..]
                    && matches!(
                        key.as_str(),
                        "summary" | "encrypted_content" | "is" | "repeat"
                    )
                {
                    out.extend(tree.with(&place, inner.clone()));
                }
                if let Some(Tree::Text(text)) = tree.at(&place).and_then(|node| node.get("repeat"))
                {
                    out.extend(tree.with(&place, Tree::Text(text.clone())));
                }
            }
            _ => {}
        }
    }
    out
}

/// Smaller values of the leaf at a place, smallest first.
pub(super) fn smaller_leaf(tree: &Tree, place: &[usize]) -> Vec<Tree> {
    let key = tree.key_of(place).unwrap_or_default();
    if place.len() == 1 && (KEPT.contains(&key) || key == "rules") || NAMES.contains(&key) {
        return Vec::new();
    }
    match tree.at(place) {
        Some(Tree::Text(text)) if key == "png" => smaller_image(text).map(Tree::Text),
        Some(Tree::Text(text)) => return shorter_texts(text).into_iter().map(Tree::Text).collect(),
        Some(Tree::Typed(text)) => {
            return smaller_numbers(text).into_iter().map(Tree::Typed).collect();
        }
        _ => None,
    }
    .into_iter()
    .collect()
}

fn smaller_image(size: &str) -> Option<String> {
    let (width, height) = size.split_once('x')?;
    let (width, height): (u32, u32) = (width.parse().ok()?, height.parse().ok()?);
    let smaller = (width.div_ceil(2).max(1), height.div_ceil(2).max(1));
    (smaller != (width, height)).then(|| format!("{}x{}", smaller.0, smaller.1))
}

/// A short word, the first word, the first half.
fn shorter_texts(text: &str) -> Vec<String> {
    let is_word = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_word && text.len() <= WORD_BYTES_MAX {
        return Vec::new();
    }
    let first = text.split_whitespace().next().unwrap_or(WORD);
    let half = &text[..text.floor_char_boundary(text.len() / 2)];
    let mut out = Vec::new();
    for shorter in [first, WORD, half.trim_end()] {
        let is_new = !out.iter().any(|known: &String| known == shorter);
        // A long first word is for the next round, which takes the short word.
        if !shorter.is_empty() && shorter.len() < text.len() && is_new {
            out.push(shorter.to_owned());
        }
    }
    out
}

/// Zero, then toward zero: a half, three quarters, all but one tenth.
fn smaller_numbers(written: &str) -> Vec<String> {
    let Ok(number) = written.parse::<i64>() else {
        return Vec::new();
    };
    let toward_zero = [0, number / 2, number - number / 4, number - number / 10];
    let mut out: Vec<i64> = Vec::new();
    for smaller in toward_zero {
        if smaller.unsigned_abs() < number.unsigned_abs() && !out.contains(&smaller) {
            out.push(smaller);
        }
    }
    out.iter().map(i64::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(source: &str) -> Tree {
        Tree::read(source).expect("valid YAML")
    }

    fn written(trees: &[Tree]) -> Vec<String> {
        let text = |tree: &Tree| crate::scenario::write::write(tree).trim_end().to_owned();
        trees.iter().map(text).collect()
    }

    #[test]
    fn the_description_is_never_removed_and_the_end_goes_first() {
        let tree = tree("description: d\nmodels: {a: {}}\nsteps: [{user: x}]\n");
        let places = removable(&tree);
        let wanted: [&[usize]; 5] = [&[2], &[1], &[2, 0], &[1, 0], &[2, 0, 0]];
        assert_eq!(places, wanted);
    }

    #[test]
    fn pairs_are_steps_replies_and_what_makes_a_step_compact() {
        let tree =
            tree("d: x\nsteps:\n  - {user: a, replies: [{say: b, usage: 9}]}\n  - {compact: }\n");
        let pairs = pairs(&tree);
        let step_and_usage = (vec![1, 1], vec![1, 0, 1, 0, 1]);
        assert!(pairs.contains(&step_and_usage), "{pairs:?}");
        let inside = (vec![1, 0], vec![1, 0, 1, 0]);
        assert!(!pairs.contains(&inside), "{pairs:?}");
        let (one, other) = &step_and_usage;
        let rest = without_pair(&tree, one, other).expect("both are there");
        assert_eq!(
            rest,
            super::Tree::read("d: x\nsteps: [{user: a, replies: [{say: b}]}]").unwrap()
        );
    }

    #[test]
    fn lists_of_one_and_items_of_one_are_written_short() {
        let parts = tree("user: [{text: a}]");
        assert_eq!(written(&shorter_forms(&parts)), ["user: a"]);
        let reply = tree("r: {items: [{say: a}], usage: 5}");
        let forms = written(&shorter_forms(&reply));
        assert!(
            forms.contains(&"r: {say: a, usage: 5}".to_owned()),
            "{forms:?}"
        );
        let text = tree("say: {repeat: ab, bytes: 50}");
        assert_eq!(written(&shorter_forms(&text)), ["say: ab"]);
    }

    #[test]
    fn texts_and_numbers_get_smaller_and_names_stay() {
        assert_eq!(shorter_texts("some longer text"), ["some", "x", "some lon"]);
        assert_eq!(shorter_texts("short"), Vec::<String>::new());
        assert_eq!(shorter_texts("漢字漢字漢字漢字"), ["x", "漢字漢字"]);
        assert_eq!(smaller_numbers("1000"), ["0", "500", "750", "900"]);
        assert_eq!(smaller_numbers("-3"), ["0", "-1"]);
        assert_eq!(smaller_numbers("0"), Vec::<String>::new());
        assert_eq!(smaller_numbers("true"), Vec::<String>::new());
        assert_eq!(smaller_image("64x3"), Some("32x2".to_owned()));
        assert_eq!(smaller_image("1x1"), None);
        let item = tree("a: {type: function_call_output, output: function_call_output}");
        assert_eq!(smaller_leaf(&item, &[0, 0]), []);
        assert_eq!(
            smaller_leaf(&item, &[0, 1]),
            [Tree::Text("x".into()), Tree::Text("function_c".into())]
        );
    }

    #[test]
    fn keys_are_named_once() {
        let tree = tree("top: 1\nsteps: [{a: 1, b: {a: 2}}, {c: 3}]\n");
        assert_eq!(keys(&tree), ["a", "b", "c"]);
    }
}
