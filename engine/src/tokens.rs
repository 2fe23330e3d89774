//! Token usage as counted by the server, and the local estimate of what it has not seen.

use serde_json::{Map, Value, json};

use crate::items::{Item, content_texts};
use crate::profile::{EstimateBasis, Profile};

/// Usage of one or more responses, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Input.
    pub input: i64,
    /// Part of the input that came from a cache.
    pub cached: i64,
    /// Part of the input that was written to a cache (0.164+).
    pub cache_write: i64,
    /// Output.
    pub output: i64,
    /// Part of the output that was reasoning.
    pub reasoning: i64,
    /// Total as the server says.
    pub total: i64,
}

impl Usage {
    /// Adds another usage.
    pub fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cached = self.cached.saturating_add(other.cached);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.total = self.total.saturating_add(other.total);
    }

    /// As in a rollout record.
    pub fn record(&self, profile: &Profile) -> Value {
        self.json(
            profile,
            [
                "input_tokens",
                "cached_input_tokens",
                "cache_write_input_tokens",
                "output_tokens",
                "reasoning_output_tokens",
                "total_tokens",
            ],
            false,
        )
    }

    fn json(&self, profile: &Profile, names: [&str; 6], total_first: bool) -> Value {
        let values = [
            self.input,
            self.cached,
            self.cache_write,
            self.output,
            self.reasoning,
            self.total,
        ];
        let mut map = Map::new();
        if total_first {
            map.insert(names[5].to_owned(), json!(self.total));
        }
        for (index, (name, value)) in names.into_iter().zip(values).enumerate() {
            if index != 2 || profile.usage_records {
                map.insert(name.to_owned(), json!(value));
            }
        }
        Value::Object(map)
    }

    /// As in a client event.
    pub fn client(&self, profile: &Profile) -> Value {
        self.json(
            profile,
            [
                "inputTokens",
                "cachedInputTokens",
                "cacheWriteInputTokens",
                "outputTokens",
                "reasoningOutputTokens",
                "totalTokens",
            ],
            true,
        )
    }
}

/// Bytes that stand for an image given as a data URL.
const IMAGE_BYTES: u64 = 7373;
/// Bytes taken off the decoded length of encrypted reasoning.
const REASONING_OVERHEAD_BYTES: u64 = 650;
/// Bytes added to name and arguments of an injected call (0.171; meaning not known).
const CALL_OVERHEAD_BYTES: u64 = 9;

/// Estimated tokens of one item (compaction.md §2.2).
pub fn estimate(item: &Item, profile: &Profile) -> i64 {
    let bytes = match (item.kind(), profile.estimate) {
        ("reasoning", _) | ("compaction" | "context_compaction", EstimateBasis::Json) => {
            reasoning_bytes(item)
        }
        ("compaction" | "context_compaction", EstimateBasis::Text) => {
            return encrypted_len(item).div_ceil(12) as i64;
        }
        (_, EstimateBasis::Json) => json_bytes(item),
        (kind, EstimateBasis::Text) => text_bytes(item, kind),
    };
    bytes.div_ceil(4) as i64
}

/// Estimated tokens of the base instructions.
pub fn estimate_text(text: &str) -> i64 {
    (text.len() as u64).div_ceil(4) as i64
}

/// Tokens of the images of a message, as a remote compaction counts them.
pub fn image_tokens(item: &Item) -> u64 {
    image_urls(item).len() as u64 * IMAGE_BYTES.div_ceil(4)
}

fn encrypted_len(item: &Item) -> u64 {
    item.payload
        .get("encrypted_content")
        .and_then(Value::as_str)
        .map_or(0, |text| text.len() as u64)
}

fn reasoning_bytes(item: &Item) -> u64 {
    (encrypted_len(item) * 3 / 4).saturating_sub(REASONING_OVERHEAD_BYTES)
}

fn json_bytes(item: &Item) -> u64 {
    let stored = item.stored();
    let whole = stored.to_string().len() as u64;
    image_urls(item)
        .into_iter()
        .fold(whole, |bytes, url| bytes - data_len(url) + IMAGE_BYTES)
}

/// Bytes of a data URL behind its comma.
fn data_len(url: &str) -> u64 {
    url.split_once(',').map_or(0, |(_, data)| data.len() as u64)
}

fn image_urls(item: &Item) -> Vec<&str> {
    ["content", "output"]
        .iter()
        .filter_map(|key| item.payload.get(*key).and_then(Value::as_array))
        .flatten()
        .filter_map(|part| part["image_url"].as_str())
        .filter(|url| url.starts_with("data:"))
        .collect()
}

fn text_bytes(item: &Item, kind: &str) -> u64 {
    let images = image_urls(item).len() as u64 * IMAGE_BYTES;
    let len = |key: &str| {
        item.payload
            .get(key)
            .and_then(Value::as_str)
            .map_or(0, |t| t.len() as u64)
    };
    let parts = |key: &str| {
        content_texts(item.payload.get(key))
            .iter()
            .map(|text| text.len() as u64)
            .sum::<u64>()
    };
    images
        + match kind {
            "message" => parts("content"),
            "additional_tools" => item.payload["tools"].to_string().len() as u64,
            "function_call_output" | "custom_tool_call_output" => {
                let names = len("name") + len("namespace");
                len("output") + parts("output") + len("call_id") + names
            }
            // Only 0.171 meets one: up to 0.164 a call covers what stands before it.
            "function_call" => len("name") + len("arguments") + CALL_OVERHEAD_BYTES,
            "custom_tool_call" => len("name") + len("input") + CALL_OVERHEAD_BYTES,
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::{message, output};
    use crate::profile::Version;

    fn user(text: &str) -> Item {
        message(
            "user",
            None,
            vec![json!({"type": "input_text", "text": text})],
        )
    }

    #[test]
    fn a_sum_stays_at_the_largest_number() {
        let most = Usage {
            input: i64::MAX,
            total: i64::MAX,
            ..Usage::default()
        };
        let mut sum = most;
        sum.add(most);
        assert_eq!((sum.input, sum.total), (i64::MAX, i64::MAX));
    }

    #[test]
    fn name_and_namespace_of_an_output_count_each() {
        let profile = Profile::of(Version::V171);
        let mut named = output("function_call_output", None, "c1", json!("done"));
        let plain = estimate(&named, &profile);
        named
            .payload
            .insert("name".to_owned(), json!("x".repeat(40)));
        named
            .payload
            .insert("namespace".to_owned(), json!("x".repeat(80)));
        assert_eq!(estimate(&named, &profile), plain + 30);
    }

    #[test]
    fn text_estimate_rounds_up_once_per_item() {
        let profile = Profile::of(Version::V164);
        for (bytes, tokens) in [(1, 1), (4, 1), (5, 2), (8, 2), (400, 100), (401, 101)] {
            assert_eq!(
                estimate(&user(&"x".repeat(bytes)), &profile),
                tokens,
                "{bytes} bytes"
            );
        }
        let call_id = "call_12345678";
        let out = output(
            "function_call_output",
            None,
            &call_id[..2],
            json!("x".repeat(40)),
        );
        assert_eq!(estimate(&out, &profile), 11);
    }

    #[test]
    fn json_estimate_counts_the_stored_item() {
        let mut item = user("x");
        item.passthrough
            .insert("turn_id".to_owned(), json!("auto-compact-1"));
        assert_eq!(item.stored().to_string().len(), 151);
        assert_eq!(estimate(&item, &Profile::of(Version::V144)), 38);
    }

    #[test]
    fn reasoning_counts_its_ciphertext_only() {
        let item = |len: usize| {
            crate::items::from_json(
                &json!({"type": "reasoning", "summary": [],
                "encrypted_content": "x".repeat(len)}),
                &Profile::of(Version::V171),
            )
            .expect("an item")
        };
        for (len, tokens) in [(800, 0), (1000, 25), (4000, 588), (10_000, 1713)] {
            assert_eq!(
                estimate(&item(len), &Profile::of(Version::V171)),
                tokens,
                "{len}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn estimates_round_up_per_item_and_add_up(
            texts in proptest::collection::vec("\\PC{0,60}", 0..8),
        ) {
            let profile = Profile::of(Version::V171);
            let items: Vec<Item> = texts.iter().map(|text| user(text)).collect();
            let each: Vec<i64> = items.iter().map(|item| estimate(item, &profile)).collect();
            for (text, tokens) in texts.iter().zip(&each) {
                proptest::prop_assert_eq!(*tokens, (text.len() as i64 + 3) / 4);
            }
            let history = crate::history::History::new(items);
            proptest::prop_assert_eq!(history.estimate_all(&profile), each.iter().sum::<i64>());
        }
    }
}
