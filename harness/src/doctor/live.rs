//! The live history while a file streams by: how many items, how many tokens, which calls.
//!
//! Tokens are the engine's local estimate of the profile, so they can be held against recorded
//! usage. Tool outputs count whole, as recorded: how much of them a model saw depends on a policy
//! that the file does not name.

use engine::items::{self, Item, Malformed};
use engine::profile::Profile;
use engine::tokens::estimate;
use serde_json::Value;

use super::findings::Findings;
use super::pairing::Pairing;
use super::turns::{Start, Turn};
use crate::rollout_file::Line;

/// The history that the next request would hold.
#[derive(Debug, Default)]
pub struct Live {
    /// Items.
    pub items: u64,
    /// Their estimated tokens.
    pub tokens: i64,
    /// Checkpoints before.
    pub checkpoints: u64,
    pairing: Pairing,
}

impl Live {
    /// An item enters the history.
    pub fn item(&mut self, item: &Item, line: &Line, profile: &Profile) {
        self.pairing.item(item, line.place);
        self.items += 1;
        self.tokens += estimate(item, profile) + hidden_tokens(item, line);
    }

    /// A checkpoint empties it.
    pub fn checkpoint(&mut self, into: &mut Findings) {
        self.pairing.checkpoint(into);
        self.items = 0;
        self.tokens = 0;
        self.checkpoints += 1;
    }

    /// A checkpoint of the old kind: of its message alone the length is known. How much of the
    /// user's texts a resume puts before it is left to the engine.
    pub fn legacy_message(&mut self, message: &str, line: &Line) {
        self.items = 1;
        self.tokens = line.text_bytes(message).div_ceil(4) as i64;
    }

    /// The state at the start of a turn.
    pub fn start(&self) -> Start {
        Start {
            items: self.items,
            tokens: self.tokens,
            checkpoints: self.checkpoints,
            by_user: false,
        }
    }

    /// Back to the start of this turn; false where a checkpoint lies between.
    pub fn roll_back(&mut self, to: &Turn) -> bool {
        if to.start.checkpoints != self.checkpoints {
            return false;
        }
        self.items = to.start.items;
        self.tokens = to.start.tokens;
        self.pairing.roll_back(to.line);
        true
    }

    /// The file ends: what is wrong with the calls that a resume reads.
    pub fn finish(&self, partial: bool, into: &mut Findings) {
        self.pairing.finish(partial, into);
    }
}

/// An item as a record holds it. What stands beside its payload counts in the estimate of 0.144.
pub fn stored(value: &Value, profile: &Profile) -> Result<Option<Item>, Malformed> {
    let mut item = items::parse(value, profile)?;
    let passthrough = value["internal_chat_message_metadata_passthrough"].as_object();
    if let (Some(item), Some(passthrough)) = (&mut item, passthrough) {
        item.passthrough.clone_from(passthrough);
    }
    Ok(item)
}

/// Roughly the tokens of what a condensed line left out of an item's texts.
fn hidden_tokens(item: &Item, line: &Line) -> i64 {
    if line.cuts.is_empty() {
        return 0;
    }
    let values = item.payload.iter();
    values
        .map(|(key, value)| hidden_bytes(key, value, line))
        .sum::<u64>() as i64
        / 4
}

fn hidden_bytes(key: &str, value: &Value, line: &Line) -> u64 {
    match value {
        Value::String(text) => {
            let hidden = line
                .cut(text)
                .map_or(0, |cut| cut.bytes.saturating_sub(cut.kept));
            match key {
                // An image counts the same whatever its size.
                "image_url" => 0,
                "encrypted_content" => hidden * 3 / 4,
                _ => hidden,
            }
        }
        Value::Array(list) => list
            .iter()
            .map(|value| hidden_bytes(key, value, line))
            .sum(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| hidden_bytes(key, value, line))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout_file::{LineReader, line::LINE_BYTES_WHOLE_MAX, record};
    use engine::profile::Version;

    /// Estimated tokens of the item in a line.
    fn tokens(payload: &str) -> i64 {
        let text = format!(r#"{{"timestamp":"","type":"response_item","payload":{payload}}}"#);
        let mut reader = LineReader::new(text.as_bytes());
        let line = reader.read().unwrap().unwrap();
        let (record, _) = record::read(line);
        let profile = Profile::of(Version::V171);
        let item = items::parse(&record.expect("a record").payload, &profile);
        let mut history = Live::default();
        history.item(&item.unwrap().expect("an item"), line, &profile);
        history.tokens
    }

    #[test]
    fn a_condensed_item_counts_nearly_as_a_whole_one() {
        let bytes = 2 * LINE_BYTES_WHOLE_MAX;
        let long = "x".repeat(bytes);
        let message =
            |part: &str| format!(r#"{{"type":"message","role":"user","content":[{part}]}}"#);
        let text = tokens(&message(&format!(
            r#"{{"type":"input_text","text":"{long}"}}"#
        )));
        assert!((text - bytes as i64 / 4).abs() <= 2, "{text}");
        let url = format!("data:image/png;base64,{long}");
        let image = message(&format!(r#"{{"type":"input_image","image_url":"{url}"}}"#));
        assert_eq!(tokens(&image), 1844);
    }
}
