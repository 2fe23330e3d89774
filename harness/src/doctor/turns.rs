//! Turns with their status, and the tokens of the history when they ended.

use serde::Serialize;
use serde_json::Value;

use super::findings::Findings;
use super::shown;
use crate::rollout_file::Place;

/// Turns that are kept; further ones are counted.
const TURNS_MAX: usize = 20_000;
/// Characters of a user text that are shown to a reader who asked for texts.
const TEXT_CHARS: usize = 80;

/// One turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// Turn id.
    pub id: String,
    /// Where it starts.
    pub line: u64,
    /// Where it starts.
    pub offset: u64,
    /// `completed`, `failed`, `aborted`, `unfinished`.
    pub status: String,
    /// Code of the failure or reason of the abort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A later rollback takes it back.
    pub rolled_back: bool,
    /// Its model.
    pub model: Option<String>,
    /// Checkpoints inside it.
    pub checkpoints: u64,
    /// `total_tokens` of the last usage that was recorded up to its end.
    pub recorded_tokens: Option<i64>,
    /// Effective window that was recorded, in tokens.
    pub window_tokens: Option<i64>,
    /// Our estimate of base instructions and history at its end.
    pub estimated_tokens: i64,
    /// Items of the history at its end.
    pub items: u64,
    /// The beginning of what the user said, if texts are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The state of the history when it started.
    #[serde(skip)]
    pub start: Start,
}

/// State of the history at the start of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Start {
    /// Items.
    pub items: u64,
    /// Estimated tokens.
    pub tokens: i64,
    /// Checkpoints before it.
    pub checkpoints: u64,
    /// The user said something in it: only such turns count for a rollback.
    pub by_user: bool,
}

/// The usage that was recorded last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// `total_tokens`
    pub tokens: Option<i64>,
    /// `model_context_window`
    pub window: Option<i64>,
}

/// The turns of a file.
#[derive(Debug, Default)]
pub struct Turns {
    kept: Vec<Turn>,
    /// The last one is still open.
    open: bool,
    /// Turns beyond [`TURNS_MAX`].
    left_out: u64,
}

impl Turns {
    /// A turn starts.
    pub fn start(&mut self, id: &str, place: Place, start: Start, into: &mut Findings) {
        self.abandon(into);
        if self.kept.len() >= TURNS_MAX {
            self.left_out += 1;
            return;
        }
        self.open = true;
        self.kept.push(Turn {
            id: shown(id),
            line: place.line,
            offset: place.offset,
            status: "unfinished".to_owned(),
            start,
            ..Turn::default()
        });
    }

    fn abandon(&mut self, into: &mut Findings) {
        if let Some(turn) = self.current() {
            let place = Place {
                line: turn.line,
                offset: turn.offset,
            };
            let what = format!("turn {} does not end", turn.id);
            into.add("turn.unfinished", place, what);
        }
        self.open = false;
    }

    /// The turn that runs.
    pub fn current(&mut self) -> Option<&mut Turn> {
        self.kept.last_mut().filter(|_| self.open)
    }

    /// A turn ends; `status` is `completed`, `failed` or `aborted`.
    pub fn end(
        &mut self,
        id: &str,
        status: &str,
        reason: Option<String>,
        place: Place,
        into: &mut Findings,
    ) {
        let full = self.left_out > 0;
        match self.current().filter(|turn| turn.id == shown(id)) {
            Some(turn) => {
                status.clone_into(&mut turn.status);
                turn.reason = reason;
                self.open = false;
            }
            None if full => {}
            None => {
                let what = format!("turn {} ends and was not started", shown(id));
                into.add("turn.no_start", place, what);
            }
        }
    }

    /// The user said something in the turn that runs.
    pub fn user_text(&mut self, content: &Value, show: bool) {
        let Some(turn) = self.current() else { return };
        turn.start.by_user = true;
        if show && turn.text.is_none() {
            let parts = content.as_array().into_iter().flatten();
            let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
            let text = texts.join(" ").chars().take(TEXT_CHARS).collect::<String>();
            turn.text = Some(text.escape_debug().to_string());
        }
    }

    /// Brings the numbers of the running turn, or of the last one, up to date: usage is also
    /// recorded behind the end of a turn.
    pub fn numbers(&mut self, recorded: Recorded, tokens: i64, items: u64) {
        if let Some(turn) = self.kept.last_mut() {
            turn.recorded_tokens = recorded.tokens;
            turn.window_tokens = recorded.window;
            turn.estimated_tokens = tokens;
            turn.items = items;
        }
    }

    /// Takes back the last turns of the user; gives the first of them.
    pub fn roll_back(&mut self, count: u64) -> Option<Turn> {
        self.open = false;
        let mut first = None;
        let mut left = count;
        for turn in self.kept.iter_mut().rev() {
            if left == 0 {
                break;
            }
            if !turn.rolled_back {
                turn.rolled_back = true;
                left -= u64::from(turn.start.by_user);
                first = Some(turn.clone());
            }
        }
        first
    }

    /// All turns, and how many were left out.
    pub fn finish(mut self, into: &mut Findings) -> (Vec<Turn>, u64) {
        self.abandon(into);
        (self.kept, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(line: u64) -> Place {
        Place { line, offset: 0 }
    }

    fn said(turns: &mut Turns) {
        turns.user_text(&json!([{"type": "input_text", "text": "One\n?"}]), true);
    }

    #[test]
    fn a_turn_has_status_text_and_numbers() {
        let (mut turns, mut findings) = (Turns::default(), Findings::default());
        turns.start("t1", at(2), Start::default(), &mut findings);
        said(&mut turns);
        let recorded = Recorded {
            tokens: Some(9),
            window: Some(100),
        };
        turns.numbers(recorded, 8, 3);
        turns.end("t1", "completed", None, at(5), &mut findings);
        turns.end("t9", "completed", None, at(6), &mut findings);
        turns.start("t2", at(7), Start::default(), &mut findings);
        let (found, left_out) = turns.finish(&mut findings);
        assert_eq!(left_out, 0);
        assert_eq!((found[0].status.as_str(), found[0].items), ("completed", 3));
        assert_eq!(found[0].text.as_deref(), Some("One\\n?"));
        assert_eq!(found[1].status, "unfinished");
        let (kept, _) = findings.finish();
        let rules: Vec<&str> = kept.iter().map(|f| f.rule).collect();
        assert_eq!(rules, ["turn.unfinished", "turn.no_start"]);
    }

    #[test]
    fn a_rollback_counts_turns_of_the_user() {
        let (mut turns, mut findings) = (Turns::default(), Findings::default());
        for (line, id) in [(1, "t1"), (2, "t2"), (3, "compaction")] {
            turns.start(id, at(line), Start::default(), &mut findings);
            if id != "compaction" {
                said(&mut turns);
            }
            turns.end(id, "completed", None, at(line), &mut findings);
        }
        assert_eq!(turns.roll_back(1).expect("a turn").id, "t2");
        assert_eq!(turns.roll_back(1).expect("a turn").id, "t1");
        assert_eq!(turns.roll_back(1), None);
    }

    #[test]
    fn a_flood_of_turns_is_bounded() {
        let (mut turns, mut findings) = (Turns::default(), Findings::default());
        for line in 0..TURNS_MAX as u64 + 5 {
            turns.start("t", at(line), Start::default(), &mut findings);
            turns.end("t", "completed", None, at(line), &mut findings);
        }
        let (found, left_out) = turns.finish(&mut findings);
        assert_eq!((found.len(), left_out), (TURNS_MAX, 5));
        assert_eq!(findings.count(super::super::findings::Severity::Note), 0);
    }
}
