//! Arbitrary items of every kind that a history may hold: paired, unpaired, repeated, out of order.
//!
//! The types derive `Arbitrary`, so the same items come from a seed (`turnproof fuzz-history`),
//! from a property test, and from a coverage-guided fuzzer.

use arbitrary::{Arbitrary, Result, Unstructured};
use serde_json::{Value, json};

/// A picture of one pixel.
const IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABAQAAAAA3bvkkAAAACklEQVR4AWNgAAAAAgABc3UBGAAAAABJRU5ErkJggg==";
/// Words that texts are made of.
const WORDS: [&str; 8] = [
    "",
    "a",
    "plain words",
    "line\nbreak",
    "tab\tand \"quotes\"",
    "日本語のテキスト",
    "🦀🦀",
    "long ",
];
/// Items of one history, at most.
const ITEMS_MAX: usize = 14;

/// A history, oldest item first.
#[derive(Debug, Clone)]
pub(super) struct Drawn(pub(super) Vec<Value>);

impl<'a> Arbitrary<'a> for Drawn {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let count = u.int_in_range(1..=ITEMS_MAX)?;
        let items = (0..count).map(|_| Ok(AnyItem::arbitrary(u)?.json()));
        items.collect::<Result<_>>().map(Self)
    }
}

/// One item with its id and what it has besides.
#[derive(Debug, Clone, Arbitrary)]
struct AnyItem {
    kind: Kind,
    id: Id,
    unknown: Rarely,
}

/// True one time in five.
#[derive(Debug, Clone, Copy)]
struct Rarely(bool);

impl<'a> Arbitrary<'a> for Rarely {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self(u.ratio(1, 5)?))
    }
}

/// Item ids: of the kind, none, foreign, without a prefix, empty.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Id {
    Own(u8),
    Another(u8),
    None,
    Odd(Odd),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Odd {
    Foreign,
    Short,
    Empty,
    OfCalls,
    Bare,
    PrefixAlone,
}

/// Few call ids, so that calls and outputs meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Arbitrary)]
enum CallId {
    One,
    Two,
    Three,
    Empty,
}

#[derive(Debug, Clone, Arbitrary)]
struct Words {
    word: u8,
    times: u8,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Role {
    User,
    Assistant,
    Developer,
    Tool,
    System,
}

#[derive(Debug, Clone, Arbitrary)]
enum Part {
    Input(Words),
    Output(Words),
    Image(Image),
}

#[derive(Debug, Clone, Arbitrary)]
struct Image {
    source: Source,
    detail: Option<Detail>,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Source {
    Good,
    Remote,
    Broken,
    Misnamed,
    File,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Detail {
    Auto,
    Low,
    High,
    Original,
    Null,
}

#[derive(Debug, Clone, Arbitrary)]
enum Output {
    Text(Words),
    Parts(Few<Part>),
}

/// At most three.
#[derive(Debug, Clone)]
struct Few<T>(Vec<T>);

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for Few<T> {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let count = u.int_in_range(0..=3)?;
        (0..count)
            .map(|_| T::arbitrary(u))
            .collect::<Result<_>>()
            .map(Self)
    }
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Status {
    Completed,
    InProgress,
    Incomplete,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Execution {
    Client,
    Server,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Content {
    None,
    Null,
    Text,
    Both,
}

#[derive(Debug, Clone, Arbitrary)]
enum Search {
    Queries,
    Page,
    Find,
    New,
}

/// Half of the items are calls and outputs.
#[derive(Debug, Clone, Arbitrary)]
enum Kind {
    Single(Single),
    Paired(Paired),
}

/// Items that stand alone; some are accepted and not kept.
#[derive(Debug, Clone, Arbitrary)]
enum Single {
    Message {
        role: Role,
        content: Few<Part>,
        phase: Option<bool>,
        status: bool,
    },
    Reasoning {
        summary: Option<Words>,
        content: Content,
        encrypted: bool,
    },
    WebSearch(Search),
    Picture {
        prompt: Words,
    },
    Agent {
        text: Words,
    },
    Compaction,
    CompactionSummary,
    ContextCompaction {
        encrypted: bool,
    },
    Snapshot,
    Trigger,
    Unknown {
        call: bool,
    },
}

/// Calls and outputs.
#[derive(Debug, Clone, Arbitrary)]
enum Paired {
    Call {
        call: CallId,
        arguments: Words,
        namespace: bool,
    },
    CallOutput {
        call: CallId,
        output: Output,
    },
    /// From outside: no call id.
    OutsideOutput {
        named: bool,
        output: Output,
    },
    Custom {
        call: CallId,
        input: Words,
    },
    CustomOutput {
        call: CallId,
        named: bool,
        output: Output,
    },
    Shell {
        call: Option<CallId>,
        status: Status,
        command: Words,
    },
    ToolSearch {
        call: Option<CallId>,
        by: Execution,
        query: Words,
    },
    ToolSearchOutput {
        call: Option<CallId>,
        by: Execution,
    },
}

impl AnyItem {
    fn json(&self) -> Value {
        let (mut item, prefix) = match &self.kind {
            Kind::Single(single) => single.json(),
            Kind::Paired(paired) => paired.json(),
        };
        let id = match self.id {
            Id::Own(number) | Id::Another(number) => Some(format!("{prefix}{number}")),
            Id::None => None,
            Id::Odd(odd) => Some(odd.text().to_owned()),
        };
        if let Some(id) = id {
            item["id"] = json!(id);
        }
        if self.unknown.0 {
            item["unknown_key"] = json!({"deep": [1]});
        }
        item
    }
}

impl Odd {
    fn text(self) -> &'static str {
        match self {
            Self::Foreign => "x_1",
            Self::Short => "m1",
            Self::Empty => "",
            Self::OfCalls => "fc_1",
            Self::Bare => "_9",
            Self::PrefixAlone => "msg_",
        }
    }
}

impl CallId {
    fn text(self) -> &'static str {
        match self {
            Self::One => "c1",
            Self::Two => "c2",
            Self::Three => "c3",
            Self::Empty => "",
        }
    }
}

impl Words {
    fn text(&self) -> String {
        let word = WORDS[usize::from(self.word) % WORDS.len()];
        word.repeat(usize::from(self.times % 40))
    }
}

impl Role {
    fn text(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Developer => "developer",
            Self::Tool => "tool",
            Self::System => "system",
        }
    }
}

impl Part {
    fn json(&self) -> Value {
        match self {
            Self::Input(words) => json!({"type": "input_text", "text": words.text()}),
            Self::Output(words) => json!({"type": "output_text", "text": words.text()}),
            Self::Image(image) => image.json(),
        }
    }

    /// A part of a tool output: it has input texts alone.
    fn of_output(&self) -> Value {
        match self {
            Self::Input(words) | Self::Output(words) => {
                json!({"type": "input_text", "text": words.text()})
            }
            Self::Image(image) => image.json(),
        }
    }
}

impl Image {
    fn json(&self) -> Value {
        let url = match self.source {
            Source::Good => IMAGE.to_owned(),
            Source::Remote => "http://127.0.0.1:1/a.png".to_owned(),
            Source::Broken => "data:image/png;base64,AAAA".to_owned(),
            Source::Misnamed => IMAGE.replace("image/png", "image/jpeg"),
            Source::File => "file:///a.png".to_owned(),
        };
        let mut part = json!({"type": "input_image", "image_url": url});
        if let Some(detail) = self.detail {
            part["detail"] = match detail {
                Detail::Auto => json!("auto"),
                Detail::Low => json!("low"),
                Detail::High => json!("high"),
                Detail::Original => json!("original"),
                Detail::Null => Value::Null,
            };
        }
        part
    }
}

impl Output {
    fn json(&self) -> Value {
        match self {
            Self::Text(words) => json!(words.text()),
            Self::Parts(parts) => parts.0.iter().map(Part::of_output).collect(),
        }
    }
}

impl Status {
    fn text(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::InProgress => "in_progress",
            Self::Incomplete => "incomplete",
        }
    }
}

impl Execution {
    fn text(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl Search {
    fn json(&self) -> Value {
        match self {
            Self::Queries => json!({"type": "search", "queries": ["b"], "query": "a"}),
            Self::Page => json!({"type": "open_page", "url": "u"}),
            Self::Find => json!({"type": "find_in_page", "pattern": "p"}),
            Self::New => json!({"type": "brand_new", "field": 1}),
        }
    }
}

impl Single {
    /// The item without an id, and the prefix of its ids.
    fn json(&self) -> (Value, &'static str) {
        let simple = |kind: &str| json!({"type": kind, "encrypted_content": "E"});
        match self {
            Self::Message {
                role,
                content,
                phase,
                status,
            } => (message(*role, content, *phase, *status), "msg_"),
            Self::Reasoning {
                summary,
                content,
                encrypted,
            } => (reasoning(summary.as_ref(), *content, *encrypted), "rs_"),
            Self::WebSearch(action) => (
                json!({"type": "web_search_call", "status": "completed", "action": action.json()}),
                "ws_",
            ),
            Self::Picture { prompt } => (
                json!({"type": "image_generation_call", "status": "completed",
                    "revised_prompt": prompt.text(), "result": "aGVsbG8="}),
                "ig_",
            ),
            Self::Agent { text } => (
                json!({"type": "agent_message", "author": "/root", "recipient": "/root/a",
                    "content": [{"type": "input_text", "text": text.text()},
                        {"type": "encrypted_content", "encrypted_content": "E"}]}),
                "amsg_",
            ),
            Self::Compaction => (simple("compaction"), "cmp_"),
            Self::CompactionSummary => (simple("compaction_summary"), "cmp_"),
            Self::ContextCompaction { encrypted: true } => (simple("context_compaction"), "cmp_"),
            Self::ContextCompaction { encrypted: false } => {
                (json!({"type": "context_compaction"}), "cmp_")
            }
            Self::Snapshot => (
                json!({"type": "ghost_snapshot", "ghost_commit": {"id": "abc"}}),
                "x_",
            ),
            Self::Trigger => (json!({"type": "compaction_trigger"}), "x_"),
            Self::Unknown { call } => {
                let call = call.then_some(CallId::One);
                (with_call(json!({"type": "brand_new"}), call), "x_")
            }
        }
    }
}

impl Paired {
    /// The item without an id, and the prefix of its ids.
    fn json(&self) -> (Value, &'static str) {
        let output_of =
            |kind: &str, output: &Output| json!({"type": kind, "output": output.json()});
        let (item, call, prefix) = match self {
            Self::Call {
                call,
                arguments,
                namespace,
            } => {
                let mut item = json!({"type": "function_call", "name": "lookup",
                    "arguments": arguments.text()});
                if *namespace {
                    item["namespace"] = json!("space");
                }
                (item, Some(*call), "fc_")
            }
            Self::CallOutput { call, output } => (
                output_of("function_call_output", output),
                Some(*call),
                "fco_",
            ),
            Self::OutsideOutput { named, output } => {
                let mut item = output_of("function_call_output", output);
                if *named {
                    item["name"] = json!("outside");
                }
                (item, None, "fco_")
            }
            Self::Custom { call, input } => (
                json!({"type": "custom_tool_call", "name": "edit", "input": input.text()}),
                Some(*call),
                "ctc_",
            ),
            Self::CustomOutput {
                call,
                named,
                output,
            } => {
                let mut item = output_of("custom_tool_call_output", output);
                if *named {
                    item["name"] = json!("edit");
                }
                (item, Some(*call), "ctco_")
            }
            Self::Shell {
                call,
                status,
                command,
            } => (
                json!({"type": "local_shell_call", "status": status.text(), "action":
                    {"type": "exec", "command": ["echo", command.text()], "timeout_ms": 5}}),
                *call,
                "lsh_",
            ),
            Self::ToolSearch { call, by, query } => (
                json!({"type": "tool_search_call", "execution": by.text(),
                    "arguments": {"query": query.text()}}),
                *call,
                "tsc_",
            ),
            Self::ToolSearchOutput { call, by } => (
                json!({"type": "tool_search_output", "execution": by.text(),
                    "status": "completed",
                    "tools": [{"type": "function", "name": "t", "strict": false}]}),
                *call,
                "tso_",
            ),
        };
        (with_call(item, call), prefix)
    }
}

fn with_call(mut item: Value, call: Option<CallId>) -> Value {
    if let Some(call) = call {
        item["call_id"] = json!(call.text());
    }
    item
}

fn message(role: Role, content: &Few<Part>, phase: Option<bool>, status: bool) -> Value {
    let parts: Vec<Value> = content.0.iter().map(Part::json).collect();
    let mut item = json!({"type": "message", "role": role.text(), "content": parts});
    if let Some(last) = phase {
        item["phase"] = json!(if last { "final_answer" } else { "commentary" });
    }
    if status {
        item["status"] = json!("completed");
    }
    item
}

fn reasoning(summary: Option<&Words>, content: Content, encrypted: bool) -> Value {
    let mut item = json!({"type": "reasoning", "summary": []});
    if let Some(words) = summary {
        item["summary"] = json!([{"type": "summary_text", "text": words.text()}]);
    }
    match content {
        Content::None => {}
        Content::Null => item["content"] = Value::Null,
        Content::Text => item["content"] = json!([{"type": "text", "text": "t"}]),
        Content::Both => {
            item["content"] =
                json!([{"type": "text", "text": "t"}, {"type": "reasoning_text", "text": "r"}]);
        }
    }
    if encrypted {
        item["encrypted_content"] = json!("E");
    }
    item
}
