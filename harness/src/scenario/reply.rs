//! Replies of scenario format v1: what the provider sends, its faults, and what the request has to
//! look like. The doc comments become `docs/scenario-format.md`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::bounds::Status;
use super::schema::Settings;
use super::values::{Count, Located, Many, Nothing, OneOrMany, Ordered, Parts, Text, written_list};

/// One scripted answer to one request. Holds exactly one of `say`, `call`, `custom_call`,
/// `reasoning`, `compaction`, `raw`, `items`, `events`, or a `fault` (faults that break a stream
/// may come with a content).
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The kind of request it answers (an ordinary turn request).
    #[serde(rename = "for")]
    pub answers: Option<For>,
    /// Range of versions that send this request; needs `reason`.
    pub versions: Option<Located<String>>,
    /// Why `versions` is there.
    pub reason: Option<String>,
    /// How many requests in a row it answers (1): a number, or numbers by version range.
    pub attempts: Option<Count>,
    /// An assistant message.
    pub say: Option<Text>,
    /// With `say`: phase of the message.
    pub phase: Option<String>,
    /// With `say`: id of the message (`msg_1`, …); `null` omits it.
    #[serde(default, deserialize_with = "given")]
    pub item_id: Option<Value>,
    /// A call of a client tool.
    pub call: Option<Call>,
    /// A call of a custom (free text) tool.
    pub custom_call: Option<CustomCall>,
    /// A reasoning item: a summary text, or the long form.
    pub reasoning: Option<Reasoning>,
    /// A compaction item: its encrypted content, or the long form.
    pub compaction: Option<CompactionItem>,
    /// One response item as it stands.
    pub raw: Option<Value>,
    /// Any number of items in order.
    pub items: Option<Many<Item>>,
    /// Server-sent events as they stand; a text is a data line sent as it is.
    pub events: Option<Vec<Value>>,
    /// What goes wrong.
    pub fault: Option<Fault>,
    /// Usage of the response (100): a number N is input N, output 0, total N; a mapping sets
    /// `input`, `cached`, `cache_write`, `output`, `reasoning`, `total`; `absent` omits it; `null`
    /// sends null.
    #[serde(default, deserialize_with = "given")]
    pub usage: Option<Value>,
    /// `end_turn` of the response.
    pub end_turn: Option<bool>,
    /// Response headers.
    #[serde(default)]
    pub headers: Ordered<Text>,
    /// Holds the stream until the client's actions were acknowledged.
    pub gate: Option<Gate>,
    /// `cut`: this version is expected to drop the stream. A mapping `{cut: ">=0.164"}` says on
    /// which versions.
    pub delivered: Option<Delivered>,
    /// Order in which the client answers the calls, as call ids; used where the subject runs calls
    /// together (0.164+).
    pub answer_order: Option<Vec<String>>,
    /// What the answered request looks like; a list holds one assertion for each version range.
    pub request: Option<OneOrMany<Assertion>>,
}

/// A key that is written counts as given, also with the value `null`.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The kind of request that a reply answers: `prewarm`, or a mapping with `compaction`.
#[derive(Debug, Clone, PartialEq)]
pub enum For {
    /// A WebSocket prewarm.
    Prewarm,
    /// A compaction request.
    Compaction(ForCompaction),
}

/// A compaction request.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForCompaction {
    /// `local`, `remote_v1`, `remote_v2`.
    pub compaction: Implementation,
    /// `pre_turn`, `mid_turn`, `standalone_turn` (manual), `post_turn`.
    pub phase: Option<Phase>,
    /// `context_limit`, `user_requested`, `model_downshift`, `comp_hash_changed`.
    pub reason: Option<Reason>,
    /// Name of the model that is asked.
    pub model: Option<String>,
}

/// Who compacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Implementation {
    /// An ordinary request with the compaction prompt.
    Local,
    /// `POST /responses/compact`.
    RemoteV1,
    /// A request that ends with a compaction trigger.
    RemoteV2,
}

impl Implementation {
    /// The word of the format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::RemoteV1 => "remote_v1",
            Self::RemoteV2 => "remote_v2",
        }
    }
}

/// Where a compaction happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the first sampling of a turn.
    PreTurn,
    /// Between two samplings of a turn.
    MidTurn,
    /// On its own, asked for by the user.
    StandaloneTurn,
    /// After a finished turn (0.164+).
    PostTurn,
}

impl Phase {
    /// The word of the format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreTurn => "pre_turn",
            Self::MidTurn => "mid_turn",
            Self::StandaloneTurn => "standalone_turn",
            Self::PostTurn => "post_turn",
        }
    }
}

/// Why a compaction happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The limit is reached.
    ContextLimit,
    /// The user asked.
    UserRequested,
    /// The next model has a smaller window.
    ModelDownshift,
    /// The next model has another catalogue hash.
    CompHashChanged,
}

impl Reason {
    /// The word of the format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContextLimit => "context_limit",
            Self::UserRequested => "user_requested",
            Self::ModelDownshift => "model_downshift",
            Self::CompHashChanged => "comp_hash_changed",
        }
    }
}

/// One item of a response. Exactly one of `say`, `call`, `custom_call`, `reasoning`, `compaction`,
/// `raw`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// An assistant message.
    pub say: Option<Text>,
    /// With `say`: phase of the message.
    pub phase: Option<String>,
    /// With `say`: id of the message (`msg_1`, …); `null` omits it.
    #[serde(default, deserialize_with = "given")]
    pub item_id: Option<Value>,
    /// A call of a client tool.
    pub call: Option<Call>,
    /// A call of a custom (free text) tool.
    pub custom_call: Option<CustomCall>,
    /// A reasoning item.
    pub reasoning: Option<Reasoning>,
    /// A compaction item.
    pub compaction: Option<CompactionItem>,
    /// One response item as it stands.
    pub raw: Option<Value>,
}

/// A call of a client tool, and what the client answers.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Name of the tool; one that is not declared is an unknown tool.
    pub tool: String,
    /// Namespace of the tool.
    pub namespace: Option<String>,
    /// Arguments as a mapping, sent as compact JSON. Only what JSON itself types is typed.
    pub arguments: Option<Ordered<Value>>,
    /// Arguments as a text that is sent as it stands.
    pub arguments_text: Option<Text>,
    /// `call_1`, `call_2`, … through the scenario by default.
    pub call_id: Option<String>,
    /// `fc_1`, `fc_2`, … by default; `null` omits it.
    #[serde(default, deserialize_with = "given")]
    pub item_id: Option<Value>,
    /// What the client answers: a text, a list of parts, or `{fail: text}`, `{rpc_error: }`.
    pub output: Option<Output>,
    /// What the client does while the tool runs, before it answers.
    pub while_running: Option<Many<ClientAction>>,
}

/// A call of a custom tool.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomCall {
    /// Name of the tool.
    pub tool: String,
    /// Input as it stands.
    pub input: Text,
    /// `call_1`, … by default.
    pub call_id: Option<String>,
    /// `ctc_1`, … by default; `null` omits it.
    #[serde(default, deserialize_with = "given")]
    pub item_id: Option<Value>,
}

/// A reasoning item.
#[derive(Debug, Clone, PartialEq)]
pub struct Reasoning {
    /// The long form.
    pub fields: ReasoningFields,
}

/// The long form of `reasoning`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasoningFields {
    /// Summary texts.
    pub summary: Option<OneOrMany<Text>>,
    /// Reasoning texts.
    pub content: Option<OneOrMany<Text>>,
    /// Encrypted content.
    pub encrypted_content: Option<Text>,
    /// `rs_1`, … by default; `null` omits it.
    #[serde(default, deserialize_with = "given")]
    pub item_id: Option<Value>,
}

/// A compaction item.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionItem {
    /// The long form.
    pub fields: CompactionFields,
}

/// The long form of `compaction`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompactionFields {
    /// Encrypted content.
    pub encrypted_content: Text,
    /// `cmp_1`, … by default; `null` omits it.
    #[serde(default, deserialize_with = "given")]
    pub item_id: Option<Value>,
}

/// What a client tool answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Success with these parts.
    Parts(Parts),
    /// Failure with these parts.
    Fail(Parts),
    /// A JSON-RPC error.
    RpcError,
}

/// The long form of `output`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputFields {
    /// The tool fails with this text or these parts.
    pub fail: Option<Parts>,
    /// The client answers with a JSON-RPC error.
    pub rpc_error: Option<Nothing>,
    /// Short form of a generator: the text that is repeated.
    pub repeat: Option<String>,
    /// Bytes that `repeat` fills.
    pub bytes: Option<usize>,
    /// A fixed text.
    #[serde(rename = "$text")]
    pub fixed: Option<String>,
    /// Texts put one behind the other.
    pub join: Option<Vec<Text>>,
    /// A PNG of this size.
    pub png: Option<String>,
}

/// A hold in a stream.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Events sent before the hold; `response.created` is the first.
    pub after_events: usize,
    /// What the client does there; `[]` only holds the stream until the client has shown what came.
    #[serde(rename = "do", deserialize_with = "written_list")]
    pub actions: Many<ClientAction>,
}

/// Something the client does inside a stream or a tool call. Exactly one key.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientAction {
    /// Sends more input to the running turn.
    pub steer: Option<Parts>,
    /// Interrupts the turn.
    pub interrupt: Option<Nothing>,
    /// Changes settings of the thread; they apply from the next turn on.
    pub settings: Option<Settings>,
    /// Changes settings of the running turn alone, from its next request on (0.164+, with the
    /// feature `step_model_switching`): `model`, `effort`, `summary`, `service_tier`.
    pub turn_settings: Option<Settings>,
}

/// Whether a stream is expected to be dropped.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivered {
    /// On every version that gets the reply.
    Cut,
    /// On a range of versions.
    CutOn(semver::VersionReq),
}

/// The long form of `delivered`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliveredFields {
    /// Range of versions that drop the stream.
    pub cut: String,
}

/// What goes wrong. Exactly one kind; `body`, `headers`, `code` and `message` belong to it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// A status instead of a stream. A client sees a failed request and may retry it.
    pub http: Option<Status>,
    /// A WebSocket handshake is answered with this status. A client may try again, or fall back to
    /// HTTP. With 101 it is accepted, with `headers`.
    pub handshake: Option<Status>,
    /// With `http` or `handshake`: the body, a text or a mapping sent as JSON.
    pub body: Option<Value>,
    /// With `http` or `handshake`: response headers.
    #[serde(default)]
    pub headers: Ordered<Text>,
    /// With `http` or `handshake`: `code` of an error body.
    pub code: Option<String>,
    /// With `http`, `handshake`, `failed` or `error_frame`: the message of the error.
    pub message: Option<Text>,
    /// A `response.failed` event with this code instead of `response.completed`.
    pub failed: Option<String>,
    /// A `response.incomplete` event with this reason instead of `response.completed`.
    pub incomplete: Option<String>,
    /// The connection breaks in the stream. A client sees a stream error and may retry.
    pub cut: Option<AfterEvents>,
    /// Nothing more comes; the connection stays open. A client sees its idle limit.
    pub stall: Option<AfterEvents>,
    /// The connection closes with nothing sent. A client sees a transport error.
    pub drop_connection: Option<Nothing>,
    /// The body ends without `response.completed`. A client sees a stream error.
    pub no_completed: Option<Nothing>,
    /// A data line that is no JSON stands after that many events. A client skips it.
    pub malformed_event: Option<AfterEvents>,
    /// The event with this number (from 1) is sent twice.
    pub duplicate_event: Option<usize>,
    /// A WebSocket is closed with this code instead of `response.completed`. A client sees a stream
    /// error.
    pub websocket_close: Option<u16>,
    /// An `error` event with this code instead of `response.completed`: how an error comes over a
    /// WebSocket. A client over HTTP skips it.
    pub error_frame: Option<String>,
    /// With `error_frame`: its `status` (400).
    pub status: Option<u16>,
}

/// A place in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AfterEvents {
    /// Events sent before; `response.created` is the first.
    #[serde(default)]
    pub after_events: usize,
}

/// What a request looks like. Exactly one of `input`, `prefix`, `contains`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Assertion {
    /// Exactly these items, base instructions left out.
    pub input: Option<Many<Pattern>>,
    /// These items first.
    pub prefix: Option<Many<Pattern>>,
    /// These items somewhere, in this order.
    pub contains: Option<Many<Pattern>>,
    /// Range of versions it holds on; needs `reason`.
    pub versions: Option<Located<String>>,
    /// Why `versions` is there.
    pub reason: Option<String>,
}

/// A pattern for one input item: a word (`user`, `assistant`, `developer`, `compaction_prompt`, or
/// an item type), or a mapping.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// A word.
    Word(String),
    /// A mapping.
    Fields(Box<PatternFields>),
}

/// The long form of a pattern. Exactly one of `user`, `assistant`, `developer`, `summary`, `call`,
/// `output`, `item`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatternFields {
    /// A user message with this text.
    pub user: Option<TextMatch>,
    /// An assistant message with this text.
    pub assistant: Option<TextMatch>,
    /// A developer message with this text.
    pub developer: Option<TextMatch>,
    /// A user message with the summary prefix and this summary.
    pub summary: Option<Text>,
    /// A function call with this call id.
    pub call: Option<String>,
    /// The output of the function call with this call id.
    pub output: Option<String>,
    /// An item of this type.
    pub item: Option<String>,
    /// With `item`: its call id.
    pub call_id: Option<String>,
    /// With `call`, `output` or `item`: arguments or output.
    pub text: Option<TextMatch>,
}

/// A pattern for a text: the whole text, or a mapping.
#[derive(Debug, Clone, PartialEq)]
pub enum TextMatch {
    /// The whole text.
    Is(Text),
    /// Its beginning.
    Prefix(Text),
    /// A part of it.
    Contains(Text),
}

/// The long form of a text pattern.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextMatchFields {
    /// The whole text.
    pub is: Option<Text>,
    /// Its beginning.
    pub prefix: Option<Text>,
    /// A part of it.
    pub contains: Option<Text>,
    /// The whole text by a generator: what is repeated.
    pub repeat: Option<String>,
    /// Bytes that `repeat` fills.
    pub bytes: Option<usize>,
    /// The whole text is a fixed text.
    #[serde(rename = "$text")]
    pub fixed: Option<String>,
    /// The whole text is these texts put one behind the other.
    pub join: Option<Vec<Text>>,
}
