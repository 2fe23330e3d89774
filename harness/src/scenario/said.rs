//! How parts of a plan are said in a message: in the words of the format, cut where they are long.

use std::fmt;

use super::error::start;
use super::plan::{Ends, ItemPattern, TextPattern, TurnStatus};

/// Characters of a text that a message shows.
const TEXT_CHARS_SHOWN: usize = 120;

/// A text in a message: its beginning, on one line.
pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", start(text, TEXT_CHARS_SHOWN).escape_debug())
}

impl TurnStatus {
    /// The word of the format and of `turn/completed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.status.as_str())?;
        match self.message.as_deref() {
            None | Some("") => Ok(()),
            Some(part) => write!(f, " with {}", quoted(part)),
        }
    }
}

impl fmt::Display for ItemPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = match self {
            Self::Message { role, text } => (format!("a {role} message"), text.as_ref()),
            Self::Summary(summary) => {
                return write!(f, "the summary {}", quoted(summary));
            }
            Self::CompactionPrompt => return f.write_str("the compaction prompt"),
            Self::Item {
                kind,
                call_id,
                text,
            } => {
                let of = call_id.as_ref().map(|id| format!(" of `{id}`"));
                (format!("a {kind}{}", of.unwrap_or_default()), text.as_ref())
            }
        };
        f.write_str(&name)?;
        text.map_or(Ok(()), |text| write!(f, " {text}"))
    }
}

impl fmt::Display for TextPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (how, text) = match self {
            Self::Is(text) => ("with the text", text),
            Self::Prefix(text) => ("that begins with", text),
            Self::Contains(text) => ("that holds", text),
        };
        write!(f, "{how} {}", quoted(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_no_type_of_ours() {
        let ends = |status, message: Option<&str>| {
            let message = message.map(str::to_owned);
            Ends { status, message }.to_string()
        };
        assert_eq!(ends(TurnStatus::Completed, None), "completed");
        let failed = ends(TurnStatus::Failed, Some("a\nb"));
        assert_eq!(failed, r"failed with `a\nb`");
        let user = ItemPattern::Message {
            role: "user".into(),
            text: Some(TextPattern::Prefix("x".repeat(200))),
        };
        let said = user.to_string();
        assert!(
            said.starts_with("a user message that begins with `xxx"),
            "{said}"
        );
        assert!(said.ends_with("x…`") && said.len() < 200, "{said}");
        let output = ItemPattern::Item {
            kind: "function_call_output".into(),
            call_id: Some("call_1".into()),
            text: None,
        };
        assert_eq!(output.to_string(), "a function_call_output of `call_1`");
    }
}
