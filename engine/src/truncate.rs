//! Cutting texts: tool outputs at record time, and kept user messages at a compaction.
//!
//! Head and tail of equal size around a marker, both cut back to character boundaries
//! (history.md §3, compaction.md §4).

use serde_json::{Value, json};

use crate::settings::Truncation;

/// Bytes of one token in every cut.
pub const BYTES_PER_TOKEN: u64 = 4;

/// Unit named in a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Chars,
    Tokens,
}

/// A budget in bytes and the marker that goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    bytes: usize,
    marker: Marker,
}

impl Budget {
    /// 1.2 times the policy's limit, rounded up.
    pub fn of_policy(policy: Truncation) -> Self {
        match policy {
            Truncation::Bytes(limit) => Self {
                bytes: usize::try_from(widened(limit)).unwrap_or(usize::MAX),
                marker: Marker::Chars,
            },
            Truncation::Tokens(limit) => Self::of_tokens(widened(limit)),
        }
    }

    /// Exactly this many tokens.
    pub fn of_tokens(tokens: u64) -> Self {
        Self {
            bytes: usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX),
            marker: Marker::Tokens,
        }
    }
}

/// 1.2 times a limit, rounded up: a limit of one token keeps two.
fn widened(limit: u64) -> u64 {
    limit.saturating_add(limit.div_ceil(5))
}

/// `fallback_token_limit_override` of a live tool output: 1.2 times the policy, in tokens.
pub fn override_tokens(policy: Truncation) -> u64 {
    match policy {
        Truncation::Bytes(limit) => widened(limit).div_ceil(BYTES_PER_TOKEN),
        Truncation::Tokens(limit) => widened(limit),
    }
}

/// Cuts the middle out of a text that is longer than the budget.
pub fn middle(text: &str, budget: Budget) -> String {
    split(text, budget).map_or_else(|| text.to_owned(), |parts| parts.concat())
}

/// Bytes of a text that is retained for later windows (0.164+).
pub const RETAINED_BYTES: usize = 3600;

/// A text as it is retained: the marker counts as part of the budget.
pub fn retained(text: &str) -> String {
    if text.len() <= RETAINED_BYTES {
        return text.to_owned();
    }
    let omitted = ((text.len() - RETAINED_BYTES) as u64).div_ceil(BYTES_PER_TOKEN);
    let marker = format!("<truncated omitted_approx_tokens=\"{omitted}\" />");
    let left = RETAINED_BYTES - marker.len();
    let head = floor_boundary(text, left / 2);
    let tail = ceil_boundary(text, text.len() - (left - left / 2));
    format!("{}{marker}{}", &text[..head], &text[tail..])
}

/// Head, marker and tail of a text that is longer than the budget.
pub fn split(text: &str, budget: Budget) -> Option<[String; 3]> {
    if text.len() <= budget.bytes {
        return None;
    }
    let head = floor_boundary(text, budget.bytes / 2);
    let tail = ceil_boundary(text, text.len() - (budget.bytes - budget.bytes / 2)).max(head);
    let marker = match budget.marker {
        Marker::Chars => format!(
            "\u{2026}{} chars truncated\u{2026}",
            text[head..tail].chars().count()
        ),
        Marker::Tokens => {
            let removed = (text.len() - budget.bytes) as u64;
            format!(
                "\u{2026}{} tokens truncated\u{2026}",
                removed.div_ceil(BYTES_PER_TOKEN)
            )
        }
    };
    Some([text[..head].to_owned(), marker, text[tail..].to_owned()])
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// A tool output within the budget: a text, or parts that share it from left to right.
pub fn tool_output(output: &Value, budget: Budget) -> Value {
    match output {
        Value::String(text) => json!(middle(text, budget)),
        Value::Array(parts) => Value::Array(output_parts(parts, budget)),
        other => other.clone(),
    }
}

/// Bytes of the budget that a whole text takes: a budget of tokens is spent in whole tokens.
fn cost(text: &str, marker: Marker) -> usize {
    match marker {
        Marker::Chars => text.len(),
        Marker::Tokens => text.len().next_multiple_of(BYTES_PER_TOKEN as usize),
    }
}

fn output_parts(parts: &[Value], budget: Budget) -> Vec<Value> {
    let mut left = budget.bytes;
    let mut omitted = 0_usize;
    let mut kept = Vec::with_capacity(parts.len());
    for part in parts {
        let Some(text) = part["text"].as_str() else {
            kept.push(part.clone());
            continue;
        };
        if left == 0 {
            omitted += 1;
        } else if text.len() <= left {
            left = left.saturating_sub(cost(text, budget.marker));
            kept.push(part.clone());
        } else {
            let cut = middle(
                text,
                Budget {
                    bytes: left,
                    marker: budget.marker,
                },
            );
            kept.push(json!({"type": "input_text", "text": cut}));
            left = 0;
        }
    }
    if omitted > 0 {
        let note = format!("[omitted {omitted} text items ...]");
        kept.push(json!({"type": "input_text", "text": note}));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, policy: Truncation) -> String {
        middle(text, Budget::of_policy(policy))
    }

    #[test]
    fn bytes_policy_keeps_six_fifths_and_counts_characters() {
        assert_eq!(
            cut(&"x".repeat(120), Truncation::Bytes(100)),
            "x".repeat(120)
        );
        assert_eq!(
            cut(&"x".repeat(121), Truncation::Bytes(100)),
            format!("{}…1 chars truncated…{}", "x".repeat(60), "x".repeat(60))
        );
        assert_eq!(
            cut(&"汉".repeat(200), Truncation::Bytes(100)),
            format!(
                "{}…160 chars truncated…{}",
                "汉".repeat(20),
                "汉".repeat(20)
            )
        );
    }

    #[test]
    fn tokens_policy_counts_tokens_of_four_bytes() {
        assert_eq!(
            cut(&"x".repeat(481), Truncation::Tokens(100)),
            format!("{}…1 tokens truncated…{}", "x".repeat(240), "x".repeat(240))
        );
    }

    #[test]
    fn a_kept_message_is_cut_to_the_remaining_tokens() {
        let text = "a".repeat(40_000);
        assert_eq!(
            middle(&text, Budget::of_tokens(2500)),
            format!(
                "{}…7500 tokens truncated…{}",
                "a".repeat(5000),
                "a".repeat(5000)
            )
        );
        let cjk = middle(&"汉".repeat(30_000), Budget::of_tokens(20_000));
        assert!(cjk.contains("…2500 tokens truncated…"));
        assert_eq!(cjk.len(), 39_999 * 2 + "…2500 tokens truncated…".len());
    }

    #[test]
    fn a_retained_text_has_its_marker_inside_the_budget() {
        let cut = retained(&"x".repeat(3601));
        let marker = "<truncated omitted_approx_tokens=\"1\" />";
        assert_eq!(cut.len(), RETAINED_BYTES);
        assert_eq!(cut.find(marker), Some(1780));
    }

    #[test]
    fn parts_share_the_budget_from_left_to_right() {
        let text = |n: usize| json!({"type": "input_text", "text": "x".repeat(n)});
        let parts = json!([text(60), text(100), text(50)]);
        let kept = tool_output(&parts, Budget::of_policy(Truncation::Bytes(100)));
        assert_eq!(
            kept[1]["text"],
            format!("{0}…40 chars truncated…{0}", "x".repeat(30))
        );
        assert_eq!(kept[2]["text"], "[omitted 1 text items ...]");
    }

    #[test]
    fn a_budget_of_tokens_is_spent_in_whole_tokens() {
        let text = |n: usize| json!({"type": "input_text", "text": "x".repeat(n)});
        let cut = |parts: Value| tool_output(&parts, Budget::of_policy(Truncation::Tokens(20)));
        let kept = cut(json!([text(50), text(500), text(3)]));
        assert_eq!(
            kept[1]["text"],
            format!("{0}…114 tokens truncated…{0}", "x".repeat(22))
        );
        let kept = cut(json!([text(95), text(6), text(1)]));
        assert_eq!(kept[1]["text"], "[omitted 2 text items ...]");
    }

    #[test]
    fn small_limits_are_rounded_up() {
        for (limit, head, tail) in [(4, 2, 3), (8, 5, 5), (12, 7, 8)] {
            let cut = middle(
                &"x".repeat(200),
                Budget::of_policy(Truncation::Bytes(limit)),
            );
            assert_eq!(cut.find('…'), Some(head));
            assert_eq!(cut.rsplit('…').next().map(str::len), Some(tail));
        }
        assert_eq!(Budget::of_policy(Truncation::Tokens(1)).bytes, 8);
    }

    proptest::proptest! {
        #[test]
        fn a_cut_keeps_both_ends_and_counts_what_is_gone(
            text in "\\PC{0,400}",
            limit in 0_u64..300,
            tokens in proptest::bool::ANY,
        ) {
            let budget = if tokens {
                Budget::of_policy(Truncation::Tokens(limit / 4))
            } else {
                Budget::of_policy(Truncation::Bytes(limit))
            };
            match split(&text, budget) {
                None => proptest::prop_assert!(text.len() <= budget.bytes),
                Some([head, marker, tail]) => {
                    proptest::prop_assert!(text.starts_with(&head) && text.ends_with(&tail));
                    proptest::prop_assert!(head.len() + tail.len() <= budget.bytes);
                    let gone = &text[head.len()..text.len() - tail.len()];
                    let number = match budget.marker {
                        Marker::Chars => gone.chars().count() as u64,
                        Marker::Tokens => ((text.len() - budget.bytes) as u64).div_ceil(4),
                    };
                    let named = marker.contains(&(number.to_string() + " "));
                    proptest::prop_assert!(named, "{} in {}", number, marker);
                    proptest::prop_assert_eq!(
                        middle(&text, budget),
                        [head, marker, tail].concat()
                    );
                }
            }
        }

        #[test]
        fn a_retained_text_is_within_its_bound(text in "\\PC{0,2000}") {
            let kept = retained(&text);
            proptest::prop_assert!(kept.len() <= RETAINED_BYTES);
            proptest::prop_assert_eq!(text.len() <= RETAINED_BYTES, kept == text);
        }
    }
}
