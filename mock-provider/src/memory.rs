//! The script without a socket: for an engine in the same process.

use serde_json::Value;

use crate::journal::{Entry, Journal, Request};
use crate::script::{
    Body, Ending, Kind, Planned, Problem, Script, ScriptedReply, compact_body, is_compact_path,
};

/// What a client in the same process gets.
#[derive(Debug, Clone, PartialEq)]
pub enum MemoryReply {
    /// A stream of events.
    Stream {
        /// Label of the reply.
        label: String,
        /// Headers beyond the content type.
        headers: Vec<(String, String)>,
        /// Events in order.
        events: Vec<Value>,
        /// How the stream ends.
        ending: Ending,
        /// Events before the hold.
        gate_after_events: Option<usize>,
    },
    /// A whole body.
    Http {
        /// Label of the reply; `None` where nothing was scripted.
        label: Option<String>,
        /// Status code.
        status: u16,
        /// Headers.
        headers: Vec<(String, String)>,
        /// Body.
        body: String,
    },
    /// The connection was closed with nothing sent.
    Dropped {
        /// Label of the reply.
        label: String,
    },
}

/// A provider in memory: the same script and journal as over a socket.
#[derive(Debug, Default)]
pub struct MemoryProvider {
    script: Script,
    journal: Journal,
}

impl MemoryProvider {
    /// Starts a step with its replies.
    pub fn begin_step(&mut self, replies: Vec<ScriptedReply>) {
        self.script.begin_step(replies);
    }

    /// Adds a reply behind those of the step: for a script that is made while a client asks.
    pub fn push_reply(&mut self, reply: ScriptedReply) {
        self.script.push(reply);
    }

    /// Whether no reply waits.
    pub fn is_dry(&self) -> bool {
        self.script.is_dry()
    }

    /// Ends a step; the labels of its unused replies.
    pub fn end_step(&mut self) -> Vec<String> {
        self.script.end_step()
    }

    /// Notes the opening of a WebSocket: its number, and a reply if it is not accepted as it is.
    pub fn handshake(&mut self, request: Request) -> (usize, Option<MemoryReply>) {
        let planned = self.script.handshake(&request);
        let label = planned.as_ref().and_then(|planned| planned.label.clone());
        self.journal.push(request, label);
        let reply = planned.map(|planned| to_reply(planned, false));
        (self.journal.handshakes(), reply)
    }

    /// Answers a request and notes it.
    pub fn respond(&mut self, request: Request) -> MemoryReply {
        let kind = Kind::of(&request);
        self.respond_to_kind(&kind, request)
    }

    /// Answers a request whose kind the caller knows, so that its body is not parsed again.
    pub fn respond_to_kind(&mut self, kind: &Kind, request: Request) -> MemoryReply {
        let planned = self.script.next_of_kind(kind, &request);
        let compact = is_compact_path(&request.path);
        self.journal.push(request, planned.label.clone());
        to_reply(planned, compact)
    }

    /// What was received so far.
    pub fn journal(&self) -> &[Entry] {
        self.journal.entries()
    }

    /// Notes that the client gave up the stream that answers request `number` of the journal.
    pub fn note_client_left(&mut self, number: usize) {
        self.journal.note_client_left(number);
    }

    /// Takes what went wrong so far.
    pub fn take_problems(&mut self) -> Vec<Problem> {
        self.script.take_problems()
    }
}

fn to_reply(planned: Planned, compact: bool) -> MemoryReply {
    let label = planned.label;
    match planned.body {
        Body::Stream {
            headers, events, ..
        } if compact => {
            let body = compact_body(&events).to_string();
            MemoryReply::Http {
                label,
                status: 200,
                headers,
                body,
            }
        }
        Body::Stream {
            headers,
            events,
            ending,
            gate_after_events,
        } => MemoryReply::Stream {
            label: label.unwrap_or_default(),
            headers,
            events,
            ending,
            gate_after_events,
        },
        Body::Http {
            status,
            headers,
            body,
        } => MemoryReply::Http {
            label,
            status,
            headers,
            body,
        },
        Body::DropConnection => MemoryReply::Dropped {
            label: label.unwrap_or_default(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Answers;
    use bytes::Bytes;
    use serde_json::json;

    fn request(path: &str) -> Request {
        Request {
            method: "POST".into(),
            path: path.into(),
            headers: vec![],
            body: Bytes::from_static(b"{}"),
        }
    }

    #[test]
    fn the_same_script_answers_in_memory() {
        let mut provider = MemoryProvider::default();
        let item = json!({"type": "compaction", "encrypted_content": "x"});
        let body = Body::Stream {
            headers: vec![],
            events: vec![json!({"type": "response.output_item.done", "item": item})],
            ending: Ending::Complete,
            gate_after_events: None,
        };
        provider.begin_step(vec![ScriptedReply {
            label: "a".into(),
            answers: Answers::Compaction {
                implementation: "remote_v1".into(),
                phase: None,
                reason: None,
                model: None,
            },
            attempts: 1,
            body,
        }]);
        let reply = provider.respond(request("/responses/compact"));
        assert!(matches!(reply, MemoryReply::Http { status: 200, body, .. }
            if body == "{\"output\":[{\"type\":\"compaction\",\"encrypted_content\":\"x\"}]}"));
        let reply = provider.respond(request("/responses"));
        assert!(matches!(
            reply,
            MemoryReply::Http {
                label: None,
                status: 500,
                ..
            }
        ));
        assert_eq!(provider.journal().len(), 2);
        assert!(matches!(
            provider.take_problems()[..],
            [Problem::Unscripted { .. }]
        ));
    }
}
