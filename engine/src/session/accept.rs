//! Items that a client gives: all of them are response items, or none is taken.

use std::fmt;

use serde_json::Value;

use crate::images::is_remote;
use crate::items::{self, Item};
use crate::profile::Profile;

/// Why items of a client are refused (`history.refused_items`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The list is empty.
    NoItems,
    /// An injected image lies on another machine (`history.image.remote`).
    RemoteImage,
    /// The item with this index (from 0) does not have the shape of its kind.
    Malformed(usize),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoItems => f.write_str("items must not be empty"),
            Self::RemoteImage => f.write_str("remote image URLs are not supported"),
            Self::Malformed(index) => write!(f, "items[{index}] is not a valid response item"),
        }
    }
}

impl std::error::Error for Refused {}

/// Whether a part of an item is an image on another machine.
pub(super) fn has_remote_image(item: &Item) -> bool {
    let parts = ["content", "output"]
        .into_iter()
        .filter_map(|key| item.payload.get(key));
    parts
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(|part| part["image_url"].as_str())
        .any(is_remote)
}

/// Items in stored form; a kind that is accepted and not kept is `None`.
pub(super) fn accepted(values: &[Value], profile: &Profile) -> Result<Vec<Option<Item>>, Refused> {
    if values.is_empty() {
        return Err(Refused::NoItems);
    }
    values
        .iter()
        .enumerate()
        .map(|(index, value)| items::parse(value, profile).map_err(|_| Refused::Malformed(index)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile::Version;

    #[test]
    fn all_items_are_taken_or_none() {
        let profile = Profile::of(Version::V171);
        let good = json!({"type": "message", "role": "user", "content": []});
        let bad = json!({"type": "message", "role": "user", "content": 5});
        let kept = |values: &[Value]| accepted(values, &profile).map(|items| items.len());
        assert_eq!(kept(&[good.clone(), json!({"type": "unheard_of"})]), Ok(2));
        assert_eq!(kept(&[good.clone(), bad]), Err(Refused::Malformed(1)));
        assert_eq!(kept(&[json!(5), good]), Err(Refused::Malformed(0)));
        assert_eq!(kept(&[]), Err(Refused::NoItems));
    }

    #[test]
    fn an_image_on_another_machine_is_seen_wherever_it_stands() {
        let profile = Profile::of(Version::V171);
        let image = |url: &str| json!([{"type": "input_image", "image_url": url}]);
        let remote = |value: Value| {
            let items = accepted(&[value], &profile).expect("items");
            items.iter().flatten().any(has_remote_image)
        };
        let message = |url: &str| json!({"type": "message", "role": "user", "content": image(url)});
        let output = json!({"type": "function_call_output", "call_id": "c",
            "output": image("https://x.example/a.png")});
        assert!(remote(message("HTTP://x.example/a.png")) && remote(output));
        assert!(!remote(message("ftp://x.example/a.png")));
    }
}
