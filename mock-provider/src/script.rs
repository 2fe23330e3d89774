//! The script of one case: a pure state machine, request in, reply out.
//!
//! Replies are one queue per step, consumed one per request in order, retries included. The front
//! reply says which kind of request it answers; a request of another kind is a problem and gets a
//! 500. Replies are never matched by content, and none is made up when the queue is dry.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::journal::Request;

/// One scripted answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedReply {
    /// Name used in findings, for instance `step 2 reply 1`.
    pub label: String,
    /// The kind of request it answers.
    #[serde(default)]
    pub answers: Answers,
    /// How many requests in a row it answers.
    #[serde(default = "one")]
    pub attempts: u32,
    /// What is sent.
    pub body: Body,
}

fn one() -> u32 {
    1
}

/// The kind of request that a reply answers. A `None` matches anything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answers {
    /// An ordinary sampling request.
    #[default]
    Turn,
    /// A compaction request.
    Compaction {
        /// `local`, `remote_v1`, `remote_v2`.
        implementation: String,
        /// `pre_turn`, `mid_turn`, `standalone_turn`, `post_turn`.
        #[serde(default)]
        phase: Option<String>,
        /// `context_limit`, `user_requested`, …
        #[serde(default)]
        reason: Option<String>,
        /// Model as it stands on the wire.
        #[serde(default)]
        model: Option<String>,
    },
    /// A prewarm: a request that generates nothing.
    Prewarm,
    /// The opening of a WebSocket. Without such a reply at the front it is accepted.
    Handshake,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Body {
    /// Server-sent events. To `…/responses/compact` their finished items are sent as one JSON body.
    Stream {
        /// Headers beyond the content type.
        #[serde(default)]
        headers: Vec<(String, String)>,
        /// Events in order; a string is sent as it stands.
        events: Vec<Value>,
        /// How the stream ends.
        #[serde(default)]
        ending: Ending,
        /// Hold the stream after this many events until the driver releases it.
        #[serde(default)]
        gate_after_events: Option<usize>,
    },
    /// A whole body with a status.
    Http {
        /// Status code.
        status: u16,
        /// Headers; `content-type: application/json` is added where there is none.
        #[serde(default)]
        headers: Vec<(String, String)>,
        /// Body as sent.
        body: String,
    },
    /// The connection is closed with nothing sent.
    DropConnection,
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ending {
    /// All events, then the end of the body.
    #[default]
    Complete,
    /// The connection breaks after this many events.
    Cut {
        /// Events sent before.
        after_events: usize,
    },
    /// Nothing more comes after this many events; the connection stays open.
    Stall {
        /// Events sent before.
        after_events: usize,
    },
    /// All events, then a WebSocket close frame; over HTTP the end of the body.
    Close {
        /// Close code.
        code: u16,
    },
}

impl ScriptedReply {
    /// Whether only the live adapter can send it.
    pub fn needs_live(&self) -> bool {
        match &self.body {
            Body::Stream {
                ending,
                gate_after_events,
                ..
            } => *ending != Ending::Complete || gate_after_events.is_some(),
            Body::Http { .. } => false,
            Body::DropConnection => true,
        }
    }
}

/// Method of the request that opens a WebSocket.
pub const HANDSHAKE_METHOD: &str = "GET";
/// Method under which a frame of a WebSocket stands in the journal.
pub const FRAME_METHOD: &str = "WS";

/// The one header of a frame in the journal: the number of the handshake that opened its
/// connection, from 1.
pub const FRAME_HEADER: &str = "websocket";

/// What a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// The kind, with every detail that the request tells.
    pub answers: Answers,
    /// Model of the request.
    pub model: Option<String>,
}

impl Kind {
    /// Reads the kind of a request from its path, its body and its headers.
    pub fn of(request: &Request) -> Self {
        let body = request.json().unwrap_or(Value::Null);
        let model = body.get("model").and_then(Value::as_str).map(str::to_owned);
        if request.method == HANDSHAKE_METHOD {
            let answers = Answers::Handshake;
            return Self { answers, model };
        }
        let metadata: Value = body
            .pointer("/client_metadata/x-codex-turn-metadata")
            .and_then(Value::as_str)
            .or_else(|| request.header("x-codex-turn-metadata"))
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or(Value::Null);
        let field = |pointer: &str| metadata.pointer(pointer).and_then(Value::as_str);
        let remote_v1 = is_compact_path(&request.path);
        let answers = if remote_v1 || field("/request_kind") == Some("compaction") {
            let implementation = match field("/compaction/implementation") {
                _ if remote_v1 => "remote_v1",
                Some("responses_compact") => "remote_v1",
                Some("responses_compaction_v2") => "remote_v2",
                Some("responses") | None => "local",
                Some(other) => other,
            };
            Answers::Compaction {
                implementation: implementation.to_owned(),
                phase: field("/compaction/phase").map(str::to_owned),
                reason: field("/compaction/reason").map(str::to_owned),
                model: model.clone(),
            }
        } else if field("/request_kind") == Some("prewarm") {
            Answers::Prewarm
        } else {
            Answers::Turn
        };
        Self { answers, model }
    }
}

/// Whether a path is the one of remote compaction v1.
pub fn is_compact_path(path: &str) -> bool {
    path.split('?')
        .next()
        .is_some_and(|path| path.ends_with("/responses/compact"))
}

impl Answers {
    /// Whether a reply that answers `self` may answer a request of `kind`.
    fn fits(&self, kind: &Answers) -> bool {
        match (self, kind) {
            (Self::Turn, Self::Turn)
            | (Self::Prewarm, Self::Prewarm)
            | (Self::Handshake, Self::Handshake) => true,
            (
                Self::Compaction {
                    implementation,
                    phase,
                    reason,
                    model,
                },
                Self::Compaction {
                    implementation: got_implementation,
                    phase: got_phase,
                    reason: got_reason,
                    model: got_model,
                },
            ) => {
                implementation == got_implementation
                    && (phase.is_none() || phase == got_phase)
                    && (reason.is_none() || reason == got_reason)
                    && (model.is_none() || model == got_model)
            }
            (Self::Turn | Self::Prewarm | Self::Handshake | Self::Compaction { .. }, _) => false,
        }
    }
}

impl std::fmt::Display for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Turn => f.write_str("turn"),
            Self::Prewarm => f.write_str("prewarm"),
            Self::Handshake => f.write_str("handshake"),
            Self::Compaction {
                implementation,
                phase,
                reason,
                model,
            } => {
                write!(f, "compaction {implementation}")?;
                for (name, value) in [("phase", phase), ("reason", reason), ("model", model)] {
                    if let Some(value) = value {
                        write!(f, ", {name} {value}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Something that the script did not foresee.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A request with no reply left.
    #[error("unscripted request ({kind}): no reply is left for it\n{request}")]
    Unscripted {
        /// What the request is.
        kind: Answers,
        /// Method, path, and what matters of the body.
        request: String,
    },
    /// A request of another kind than the front reply answers.
    #[error("{label} answers a request of kind `{expected}`, got `{got}`\n{request}")]
    WrongKind {
        /// Label of the front reply.
        label: String,
        /// What that reply answers.
        expected: Answers,
        /// What came.
        got: Answers,
        /// Method, path, and what matters of the body.
        request: String,
    },
    /// A reply that no request asked for.
    #[error("{label} was not used: {left} of its {attempts} attempts are left")]
    UnusedReply {
        /// Label of the reply.
        label: String,
        /// Attempts left.
        left: u32,
        /// Attempts scripted.
        attempts: u32,
    },
    /// A request to a path that the provider does not have.
    #[error("request to an unknown route\n{request}")]
    UnknownRoute {
        /// Method, path, and what matters of the body.
        request: String,
    },
}

/// What to send for one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Label of the reply; `None` where nothing was scripted.
    pub label: Option<String>,
    /// What is sent.
    pub body: Body,
}

impl Planned {
    /// Whether it accepts a handshake, with headers of its own.
    pub(crate) fn accepts_handshake(&self) -> bool {
        matches!(&self.body, Body::Http { status: 101, .. })
    }

    /// A whole JSON body that no reply scripted.
    pub(crate) fn unlabelled(status: u16, body: &Value) -> Self {
        Self {
            label: None,
            body: Body::Http {
                status,
                headers: Vec::new(),
                body: body.to_string(),
            },
        }
    }

    /// A body that says what went wrong, in the provider's error shape.
    pub(crate) fn error(status: u16, message: &str) -> Self {
        Self::unlabelled(
            status,
            &json!({"error": {"message": format!("turnproof: {message}")}}),
        )
    }
}

#[derive(Debug)]
struct Queued {
    reply: ScriptedReply,
    left: u32,
}

/// The script of one case.
#[derive(Debug, Default)]
pub struct Script {
    queue: VecDeque<Queued>,
    /// A handshake of this step was refused.
    refused: bool,
    problems: Vec<Problem>,
}

impl Script {
    /// Starts a step with its replies; whatever the step before left over becomes a problem.
    pub fn begin_step(&mut self, replies: Vec<ScriptedReply>) {
        self.end_step();
        self.refused = false;
        self.queue = replies
            .into_iter()
            .filter(|reply| reply.attempts > 0)
            .map(|reply| Queued {
                left: reply.attempts,
                reply,
            })
            .collect();
    }

    /// Adds a reply behind those of the step: for a script that is made while a client asks.
    pub fn push(&mut self, reply: ScriptedReply) {
        self.queue.push_back(Queued {
            left: reply.attempts,
            reply,
        });
    }

    /// Whether no reply waits.
    pub fn is_dry(&self) -> bool {
        self.queue.is_empty()
    }

    /// Ends a step: the labels of its unused replies, each of them a problem too.
    pub fn end_step(&mut self) -> Vec<String> {
        let unused: Vec<Queued> = self.queue.drain(..).collect();
        for queued in &unused {
            self.problems.push(Problem::UnusedReply {
                label: queued.reply.label.clone(),
                left: queued.left,
                attempts: queued.reply.attempts,
            });
        }
        unused
            .into_iter()
            .map(|queued| queued.reply.label)
            .collect()
    }

    /// The scripted answer to the opening of a WebSocket; `None` accepts it and consumes nothing.
    pub fn handshake(&mut self, request: &Request) -> Option<Planned> {
        let front = self.queue.front()?;
        if front.reply.answers != Answers::Handshake {
            return None;
        }
        let planned = self.next(request);
        self.refused |= !planned.accepts_handshake();
        Some(planned)
    }

    /// Whether a reply to what a client sends before its first turn still waits. A client whose
    /// handshake was refused tries again only in the turn.
    pub fn waits_for_prewarm(&self) -> bool {
        let early =
            |front: &Queued| matches!(front.reply.answers, Answers::Handshake | Answers::Prewarm);
        !self.refused && self.queue.front().is_some_and(early)
    }

    /// The reply to a request.
    pub fn next(&mut self, request: &Request) -> Planned {
        self.next_of_kind(&Kind::of(request), request)
    }

    /// The reply to a request whose kind is already known (nothing is parsed then).
    pub fn next_of_kind(&mut self, kind: &Kind, request: &Request) -> Planned {
        let Some(front) = self.queue.front_mut() else {
            let request = describe(request);
            self.problems.push(Problem::Unscripted {
                kind: kind.answers.clone(),
                request,
            });
            return Planned::error(500, &format!("unscripted request ({})", kind.answers));
        };
        if !front.reply.answers.fits(&kind.answers) {
            let problem = Problem::WrongKind {
                label: front.reply.label.clone(),
                expected: front.reply.answers.clone(),
                got: kind.answers.clone(),
                request: describe(request),
            };
            let message = format!(
                "{} answers a request of kind `{}`, got `{}`",
                front.reply.label, front.reply.answers, kind.answers
            );
            self.problems.push(problem);
            return Planned::error(500, &message);
        }
        let label = Some(front.reply.label.clone());
        front.left -= 1;
        let body = if front.left == 0 {
            self.queue
                .pop_front()
                .expect("the front was just seen")
                .reply
                .body
        } else {
            front.reply.body.clone()
        };
        Planned { label, body }
    }

    /// Notes a request to a path that does not exist.
    pub fn unknown_route(&mut self, request: &Request) -> Planned {
        self.problems.push(Problem::UnknownRoute {
            request: describe(request),
        });
        Planned::error(
            404,
            &format!("no route {} {}", request.method, request.path),
        )
    }

    /// What went wrong so far.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Takes what went wrong so far.
    pub fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}

/// What tells a request from others: the whole body of a long thread would bury it.
fn describe(request: &Request) -> String {
    let body = request.decoded().unwrap_or_else(|_| request.body.clone());
    let Request { method, path, .. } = request;
    let head = format!("{method} {path} ({} bytes)", body.len());
    let parsed = serde_json::from_slice::<Value>(&body);
    let Some(items) = parsed
        .as_ref()
        .ok()
        .and_then(|body| body["input"].as_array())
    else {
        return format!("{head}\n  {}", clipped(&String::from_utf8_lossy(&body)));
    };
    let mut lines = vec![format!("{head}, {} input items", items.len())];
    let left_out = items.len().saturating_sub(ITEMS_SHOWN_MAX);
    if left_out > 0 {
        lines.push(format!("  … {left_out} before these"));
    }
    let last = items.iter().skip(left_out);
    lines.extend(last.map(|item| format!("  {}", clipped(&item.to_string()))));
    lines.join("\n")
}

/// Input items at the end of a request that a message shows.
const ITEMS_SHOWN_MAX: usize = 3;
/// Longest text of one of them, in bytes.
const ITEM_BYTES_MAX: usize = 240;

fn clipped(text: &str) -> String {
    let end = text.floor_char_boundary(ITEM_BYTES_MAX);
    if end < text.len() {
        format!("{}… ({} bytes)", &text[..end], text.len())
    } else {
        text.to_owned()
    }
}

/// Finished items of a stream, as the JSON body of remote compaction v1 has them.
pub(crate) fn compact_body(events: &[Value]) -> Value {
    let items: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| &event["item"])
        .collect();
    json!({ "output": items })
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
