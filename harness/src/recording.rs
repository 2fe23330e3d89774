//! The raw capture of one case: journal, rollout files and client events.
//!
//! A recording is what a driver hands on; it is not masked. Real fixed texts are already replaced
//! by ours (`texts.rs`), so nothing of Codex's wording is ever stored.

use mock_provider::script::HANDSHAKE_METHOD;
use serde_json::Value;

/// Everything that was captured of one case.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// Requests in order of arrival.
    pub journal: Vec<Exchange>,
    /// Rollout files in order of creation.
    pub rollouts: Vec<RolloutFile>,
    /// Client events in order.
    pub events: Vec<ClientEvent>,
    /// Rollout files that did not only grow between two steps.
    pub rewrites: Vec<Rewrite>,
    /// Edits that the scenario made of rollout files, in order.
    pub edits: Vec<Edited>,
    /// What a mask needs to know of the run.
    pub places: Places,
}

/// An edit that the scenario made of a rollout file: what stood there before is not the subject's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// Requests that were sent before.
    pub requests: usize,
    /// File name without its folder.
    pub file: String,
    /// Lines of the file behind the edit.
    pub lines: usize,
}

impl Edited {
    /// An edit that left these bytes; `None` where it removed the file.
    pub fn new(requests: usize, file: &str, bytes: Option<&[u8]>) -> Self {
        let bytes = bytes.unwrap_or_default();
        Self {
            requests,
            file: file.to_owned(),
            lines: bytes.split_inclusive(|byte| *byte == b'\n').count(),
        }
    }
}

/// One request and the label of the reply that answered it.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// `POST`; `GET` for the opening of a WebSocket, `WS` for a frame of it.
    pub method: String,
    /// Path and query below the base URL, for instance `/responses`.
    pub path: String,
    /// Headers as received, in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Exact body bytes, decoded from a content encoding if there was one.
    pub body: Vec<u8>,
    /// Label of the reply (`step 1 reply 2`); `None` for an unscripted request.
    pub reply: Option<String>,
    /// The response that the provider keeps, if it was completed.
    pub answer: Option<Answer>,
}

impl Exchange {
    /// Whether it opens a WebSocket.
    pub fn is_handshake(&self) -> bool {
        self.method == HANDSHAKE_METHOD
    }
}

/// A completed response: what a later request may stand on.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Id of the response.
    pub response_id: String,
    /// Its finished items, as the provider sent them.
    pub items: Vec<Value>,
}

/// One rollout file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutFile {
    /// File name without its folder.
    pub name: String,
    /// Exact text.
    pub text: String,
}

/// A rollout file lost or changed bytes that it held before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// Step behind which it was seen, from 1.
    pub step: usize,
    /// File name without its folder.
    pub file: String,
    /// First byte that is another one, or is gone.
    pub byte: usize,
}

/// Looks at the rollout files behind every step.
#[derive(Debug, Default)]
pub struct Watch {
    seen: Vec<RolloutFile>,
    rewrites: Vec<Rewrite>,
}

impl Watch {
    /// Compares the files with those of the last look. A file that is gone has lost byte 0.
    pub fn look(&mut self, step: usize, files: &[RolloutFile]) {
        for old in &self.seen {
            let now = files.iter().find(|file| file.name == old.name);
            let now = now.map_or(&[][..], |file| file.text.as_bytes());
            let equal = old.text.bytes().zip(now).take_while(|(a, b)| a == *b);
            let byte = equal.count();
            if byte < old.text.len() {
                self.rewrites.push(Rewrite {
                    step,
                    file: old.name.clone(),
                    byte,
                });
            }
        }
        self.seen = files.to_vec();
    }

    /// Takes the files as they are now: the scenario itself changed one.
    pub fn edited(&mut self, files: Vec<RolloutFile>) {
        self.seen = files;
    }

    /// What was found.
    pub fn into_rewrites(self) -> Vec<Rewrite> {
        self.rewrites
    }
}

/// Places and names of this run that a mask replaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// Absolute workspace path.
    pub workspace: String,
    /// Absolute Codex home.
    pub home: String,
    /// Wire slug and scenario name of every model.
    pub models: Vec<(String, String)>,
    /// The installation id of the run.
    pub installation_id: String,
    /// Base URL of the provider.
    pub base_url: String,
}

/// One event that the client saw: the race-free subset of the notifications.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// A turn began.
    TurnStarted {
        /// Turn id.
        turn: String,
    },
    /// A turn ended.
    TurnEnded {
        /// Turn id.
        turn: String,
        /// `completed`, `interrupted`, `failed`.
        status: String,
        /// Error message and its code as JSON.
        error: Option<(String, Value)>,
    },
    /// An item began.
    ItemStarted {
        /// App-server item type (`userMessage`, `agentMessage`, `dynamicToolCall`, …).
        kind: String,
        /// Item id.
        id: String,
    },
    /// An item ended.
    ItemCompleted {
        /// App-server item type.
        kind: String,
        /// Item id.
        id: String,
        /// What a user would see of it: text, or name, status and output.
        shown: Value,
    },
    /// Token usage was reported.
    TokenUsage {
        /// `total` of the notification.
        total: Value,
        /// `last` of the notification.
        last: Value,
        /// Effective window in tokens.
        window: Option<i64>,
    },
    /// Another model answered than the one that was asked.
    ModelRerouted {
        /// The model asked.
        from: String,
        /// The model that answered.
        to: String,
        /// `reason` of the notification.
        reason: String,
    },
    /// A hook began to run.
    HookStarted {
        /// `preCompact`, `postCompact`, `sessionStart`.
        hook: String,
    },
    /// A hook ended.
    HookCompleted {
        /// `preCompact`, `postCompact`, `sessionStart`.
        hook: String,
        /// `completed`, `stopped`, `failed`.
        status: String,
        /// What it left for the user: a list of `{kind, text}`.
        entries: Value,
        /// What it was told on standard input; the path of the rollout is `<rollout>`.
        input: Value,
    },
    /// A warning.
    Warning {
        /// Text shown.
        message: String,
    },
    /// An error notification.
    Error {
        /// Text shown.
        message: String,
        /// Whether the client is told that a retry follows.
        will_retry: bool,
        /// `codexErrorInfo`.
        code: Value,
    },
}

/// Something a run found that no golden is needed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Checker or rule that speaks, for instance `script.unused_reply` or `checker.pairing`.
    pub id: String,
    /// What, where, and what was expected; several lines are allowed.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> RolloutFile {
        RolloutFile {
            name: "a".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn growth_is_no_rewrite_and_every_other_change_is() {
        let mut watch = Watch::default();
        watch.look(1, &[file("one\n")]);
        watch.look(2, &[file("one\ntwo\n")]);
        assert_eq!(watch.rewrites, []);
        watch.look(3, &[file("one\nTwo\nthree\n")]);
        watch.look(4, &[file("one\n")]);
        watch.edited(vec![file("other\n")]);
        watch.look(5, &[file("other\nmore\n")]);
        watch.look(5, &[]);
        let found: Vec<(usize, usize)> = watch
            .into_rewrites()
            .iter()
            .map(|rewrite| (rewrite.step, rewrite.byte))
            .collect();
        assert_eq!(found, [(3, 4), (4, 4), (5, 0)]);
    }
}
