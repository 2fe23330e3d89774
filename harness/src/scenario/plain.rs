//! A scenario as a plain tree, without positions: `shrink` takes its parts away, `import` fills it.
//!
//! Scalars stay as they were written: what JSON would type keeps its spelling, the rest is text.
//! A place is the list of child numbers that lead to it, so that it names map entries and list
//! elements alike.

use serde_json::Value;

use super::tree::{Node, NodeKind, read};

/// A node without its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// A scalar that JSON types (number, boolean, null), or nothing at all, as written.
    Typed(String),
    /// A text.
    Text(String),
    /// A sequence.
    List(Vec<Tree>),
    /// A mapping in file order.
    Map(Vec<(String, Tree)>),
}

/// Child numbers from the root.
pub type Place = Vec<usize>;

impl Tree {
    /// Reads YAML; `None` where it is no single valid document.
    pub fn read(source: &str) -> Option<Self> {
        read(source).map(Self::from)
    }

    /// Child with a number.
    fn child(&self, number: usize) -> Option<&Self> {
        match self {
            Self::List(items) => items.get(number),
            Self::Map(entries) => entries.get(number).map(|(_, value)| value),
            Self::Typed(_) | Self::Text(_) => None,
        }
    }

    /// Children in order.
    fn children(&self) -> usize {
        match self {
            Self::List(items) => items.len(),
            Self::Map(entries) => entries.len(),
            Self::Typed(_) | Self::Text(_) => 0,
        }
    }

    /// The node at a place.
    pub fn at(&self, place: &[usize]) -> Option<&Self> {
        place
            .iter()
            .try_fold(self, |node, number| node.child(*number))
    }

    /// The node at a place, to be changed.
    pub fn at_mut(&mut self, place: &[usize]) -> Option<&mut Self> {
        place.iter().try_fold(self, |node, number| match node {
            Self::List(items) => items.get_mut(*number),
            Self::Map(entries) => entries.get_mut(*number).map(|(_, value)| value),
            Self::Typed(_) | Self::Text(_) => None,
        })
    }

    /// Value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else {
            return None;
        };
        let found = entries.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value)
    }

    /// Sets a key; a new one comes first.
    pub fn set_first(&mut self, key: &str, value: Self) {
        if let Self::Map(entries) = self {
            match entries.iter_mut().find(|(name, _)| name == key) {
                Some((_, old)) => *old = value,
                None => entries.insert(0, (key.to_owned(), value)),
            }
        }
    }

    /// Key of the innermost mapping entry on the way to a place.
    pub fn key_of(&self, place: &[usize]) -> Option<&str> {
        (1..=place.len()).rev().find_map(|length| {
            let parent = self.at(&place[..length - 1])?;
            let Self::Map(entries) = parent else {
                return None;
            };
            entries.get(place[length - 1]).map(|(key, _)| key.as_str())
        })
    }

    /// The tree without the node at a place; `None` for the root.
    pub fn without(&self, place: &[usize]) -> Option<Self> {
        let (last, way) = place.split_last()?;
        self.without_children(way, *last..*last + 1)
    }

    /// The tree without some neighbouring children of the node at a place.
    pub fn without_children(&self, place: &[usize], gone: std::ops::Range<usize>) -> Option<Self> {
        let mut out = self.clone();
        let parent = out.at_mut(place)?;
        if gone.end > parent.children() {
            return None;
        }
        match parent {
            Self::List(items) => drop(items.drain(gone)),
            Self::Map(entries) => drop(entries.drain(gone)),
            Self::Typed(_) | Self::Text(_) => return None,
        }
        Some(out)
    }

    /// The tree with another node at a place.
    pub fn with(&self, place: &[usize], node: Self) -> Option<Self> {
        let mut out = self.clone();
        *out.at_mut(place)? = node;
        Some(out)
    }

    /// The tree without a key, wherever a mapping has it; the top level stays.
    #[must_use]
    pub fn without_key(&self, key: &str) -> Self {
        fn strip(node: &mut Tree, key: &str, is_top: bool) {
            match node {
                Tree::List(items) => items.iter_mut().for_each(|item| strip(item, key, false)),
                Tree::Map(entries) => {
                    if !is_top {
                        entries.retain(|(name, _)| name != key);
                    }
                    for (_, value) in entries {
                        strip(value, key, false);
                    }
                }
                Tree::Typed(_) | Tree::Text(_) => {}
            }
        }
        let mut out = self.clone();
        strip(&mut out, key, true);
        out
    }

    /// Places of all nodes but the root: outer ones before inner ones, in file order.
    pub fn places(&self) -> Vec<Place> {
        let mut level: Vec<Place> = vec![Vec::new()];
        let mut all = Vec::new();
        while !level.is_empty() {
            let mut next = Vec::new();
            for place in &level {
                let count = self.at(place).map_or(0, Self::children);
                next.extend((0..count).map(|number| {
                    let mut inner = place.clone();
                    inner.push(number);
                    inner
                }));
            }
            all.extend(next.iter().cloned());
            level = next;
        }
        all
    }

    /// Elements of the lists under a key, however deep.
    pub fn count_in(&self, key: &str) -> usize {
        let inner = |node: &Self| node.count_in(key);
        match self {
            Self::List(items) => items.iter().map(inner).sum(),
            Self::Map(entries) => entries
                .iter()
                .map(|(name, value)| {
                    let own = match value {
                        Self::List(items) if name == key => items.len(),
                        _ => 0,
                    };
                    own + inner(value)
                })
                .sum(),
            Self::Typed(_) | Self::Text(_) => 0,
        }
    }
}

impl From<&Value> for Tree {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Typed(value.to_string()),
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(entries) => Self::Map(
                entries
                    .iter()
                    .map(|(key, value)| (key.clone(), Self::from(value)))
                    .collect(),
            ),
        }
    }
}

impl From<Node> for Tree {
    fn from(node: Node) -> Self {
        match node.kind {
            NodeKind::Scalar { text, json: None } => Self::Text(text),
            NodeKind::Scalar {
                text,
                json: Some(_),
            } => Self::Typed(text),
            NodeKind::List(items) => Self::List(items.into_iter().map(Self::from).collect()),
            NodeKind::Map(entries) => Self::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| (key.text, Self::from(value)))
                    .collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "a: [1, {b: x, c: y}]\nd: {b: {e: no}}\n";

    fn tree() -> Tree {
        Tree::read(SOURCE).expect("valid YAML")
    }

    #[test]
    fn outer_places_come_first() {
        let places = tree().places();
        let wanted: [&[usize]; 8] = [
            &[0],
            &[1],
            &[0, 0],
            &[0, 1],
            &[1, 0],
            &[0, 1, 0],
            &[0, 1, 1],
            &[1, 0, 0],
        ];
        assert_eq!(places, wanted);
        assert_eq!(tree().key_of(&[0, 1]), Some("a"));
        assert_eq!(tree().key_of(&[0, 1, 1]), Some("c"));
    }

    #[test]
    fn a_node_is_taken_away_and_nothing_else() {
        let wanted = Tree::read("a: [1, {c: y}]\nd: {b: {e: no}}\n");
        assert_eq!(tree().without(&[0, 1, 0]), wanted);
        assert_eq!(tree().without(&[]), None);
        assert_eq!(tree().without(&[0, 7]), None);
        let wanted = Tree::read("a: [1, {c: y}]\nd: {}\n");
        assert_eq!(Some(tree().without_key("b")), wanted);
        let wanted = Tree::read("a: []\nd: {b: {e: no}}\n");
        assert_eq!(tree().without_children(&[0], 0..2), wanted);
    }
}
