//! What a driver runs: one scenario, resolved for one version, with every default filled in.
//!
//! The YAML types (`schema.rs`) become a [`Plan`] in `resolve.rs`; drivers see nothing else. A plan
//! holds our wording of the fixed texts; a driver of a real binary swaps them on the way in and out.

use engine::hooks::HookEvent;
use serde_json::Value;

use crate::rollout_edit::Edit;

/// One scenario for one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Path below `scenarios/` without `.yaml`, for instance `compaction/local/pre_turn`.
    pub id: String,
    /// Models of the catalogue; the first is the start model.
    pub models: Vec<ModelSpec>,
    /// Settings of the thread.
    pub config: ConfigSpec,
    /// Client tools, in declaration order.
    pub tools: Vec<ToolSpec>,
    /// Files of the workspace: path relative to it, content.
    pub files: Vec<(String, String)>,
    /// What the client does, in order.
    pub steps: Vec<PlanStep>,
    /// Semantic expectations on the whole recording.
    pub expect: Expect,
}

impl Plan {
    /// Whether it damages rollouts or their storage: then a rollout of it is not what a subject wrote.
    pub fn damages_rollouts(&self) -> bool {
        self.steps.iter().any(|step| {
            matches!(
                step.action,
                StepAction::EditRollout(_) | StepAction::Storage(_)
            )
        })
    }
}

/// One catalogue entry. Tokens are counts of the provider's tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// The name the scenario uses; on the wire it is a hash of the spec, masked.
    pub name: String,
    /// Raw context window in tokens.
    pub context_window: Option<i64>,
    /// Upper bound of the window in tokens.
    pub max_context_window: Option<i64>,
    /// Percent of the window that is usable.
    pub effective_context_window_percent: i64,
    /// Explicit compaction limit in tokens.
    pub auto_compact_token_limit: Option<i64>,
    /// Base instructions; empty removes them from the wire.
    pub base_instructions: String,
    /// How tool outputs are cut.
    pub truncation: Truncation,
    /// `text`, `image`, `audio`.
    pub input_modalities: Vec<String>,
    /// Catalogue hash that forces a compaction when it changes.
    pub comp_hash: Option<String>,
    /// Whether 0.144.6 asks for parallel calls.
    pub supports_parallel_tool_calls: bool,
    /// Whether the catalogue lists the model as one with reasoning summaries (0.144.6).
    pub supports_reasoning_summaries: bool,
    /// Default reasoning effort.
    pub default_reasoning_level: Option<String>,
    /// Other catalogue keys, sent as they stand.
    pub extra: Vec<(String, Value)>,
}

/// Truncation policy of tool outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// Unit of `limit`.
    pub mode: TruncationMode,
    /// Limit in bytes or tokens; the kept budget is 1.2 times as large.
    pub limit: u64,
}

/// Unit of a truncation limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruncationMode {
    /// UTF-8 bytes.
    Bytes,
    /// Tokens of four bytes.
    Tokens,
}

/// Settings of a thread. `None` keeps what the binary ships.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ConfigSpec {
    /// `name` of the provider (`mock` by default; `OpenAI` unlocks remote compaction).
    pub provider_name: String,
    /// Path that the provider's base URL ends with.
    pub provider_path: String,
    /// Retries of one request; 0 by default here.
    pub request_max_retries: u64,
    /// Retries of one stream; 0 by default here.
    pub stream_max_retries: u64,
    /// Idle limit of a stream in milliseconds.
    pub stream_idle_timeout_ms: Option<u64>,
    /// Nobody listens where the provider should be.
    pub unreachable: bool,
    /// The provider is asked over a WebSocket.
    pub websockets: bool,
    /// `<environment_context>` is injected.
    pub environment_context: bool,
    /// `<permissions instructions>` are injected.
    pub permissions_instructions: bool,
    /// AGENTS.md of the workspace is read (up to 32 KiB).
    pub project_doc: bool,
    /// `read-only`, `workspace-write`, `danger-full-access`.
    pub sandbox_mode: String,
    /// `never`, `on-request`.
    pub approval_policy: String,
    /// Explicit compaction limit of the config, in tokens.
    pub auto_compact_token_limit: Option<i64>,
    /// `total` or `body_after_prefix`.
    pub auto_compact_token_limit_scope: Option<String>,
    /// Window of the config, in tokens.
    pub context_window: Option<i64>,
    /// Percent of the effective window after which a finished turn compacts (0.164+).
    pub post_turn_compact_threshold_percent: Option<i64>,
    /// Compaction prompt.
    pub compact_prompt: Option<String>,
    /// Text of a file with the compaction prompt.
    pub compact_prompt_file: Option<String>,
    /// Limit that replaces the catalogue's truncation limit, in tokens.
    pub tool_output_token_limit: Option<u64>,
    /// Extra developer message.
    pub developer_instructions: Option<String>,
    /// Replaces the model's base instructions.
    pub base_instructions: Option<String>,
    /// A steer or interrupt drops the stream at once (0.164+; shipped: true).
    pub instant_interrupt: Option<bool>,
    /// `legacy` or `paginated`; shipped: legacy on 0.144.6, paginated later.
    pub history_mode: Option<String>,
    /// A refused connection is retried for ever (0.164+; shipped: true).
    pub unbounded_connection_retries: Option<bool>,
    /// `[features]` flags set by the scenario beyond the quiet recipe.
    pub features: Vec<(String, Value)>,
    /// Other config keys (dotted), as they stand.
    pub extra: Vec<(String, Value)>,
    /// Hooks in the order of their events.
    pub hooks: Vec<HookSpec>,
    /// A setting that changes files or processes of the binary: the case gets a process of its own.
    pub own_process: bool,
}

impl ConfigSpec {
    /// The compaction prompt that is in force; `None` is the built-in one.
    pub fn prompt(&self) -> Option<&str> {
        let own = self.compact_prompt.as_deref().map(str::trim);
        let own = own.filter(|text| !text.is_empty());
        own.and(self.compact_prompt.as_deref())
            .or(self.compact_prompt_file.as_deref().map(str::trim))
    }
}

/// One hook command, said by what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSpec {
    /// What runs it.
    pub event: HookEvent,
    /// Triggers or sources that it is for.
    pub matcher: Option<String>,
    /// What it prints.
    pub prints: String,
    /// What it says on standard error.
    pub complains: String,
    /// Its exit code.
    pub exit: u8,
    /// Whether the user has trusted it.
    pub trusted: bool,
}

/// One client tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Name on the wire.
    pub name: String,
    /// Description on the wire.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Namespace that holds the tool.
    pub namespace: Option<String>,
    /// Loaded on demand (needs a namespace).
    pub defer_loading: bool,
}

/// One step with the replies scripted for it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanStep {
    /// 1-based number of the step in the scenario.
    pub number: usize,
    /// 1-based line in the scenario file.
    pub line: usize,
    /// What the client does.
    pub action: StepAction,
    /// Replies consumed one per request, in order.
    pub replies: Vec<PlanReply>,
    /// How the turn has to end; `None` asserts nothing beyond `completed`.
    pub ends: Option<Ends>,
}

/// What the client does in a step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepAction {
    /// `turn/start`.
    User(UserStep),
    /// `thread/compact/start`.
    Compact,
    /// `thread/settings/update`.
    Settings(Overrides),
    /// `thread/inject_items`.
    Inject(Vec<Value>),
    /// The process ends.
    Stop(StopKind),
    /// `thread/resume` in the running or in a new process.
    Resume(ResumeStep),
    /// `thread/fork`; the steps that follow are those of the fork.
    Fork(ForkPoint),
    /// `thread/rollback`: so many turns of the user.
    Rollback(u64),
    /// `thread/revert` before this turn of the thread, counted from 1.
    Revert(usize),
    /// The rollout file is edited.
    EditRollout(Edit),
    /// The storage fails from here on, or works again.
    Storage(StorageStep),
}

/// What becomes of the storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageStep {
    /// `None` where it works again.
    pub fault: Option<StorageFault>,
}

/// A fault of the storage. Appends are counted from 1, from the step on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageFault {
    /// An append fails.
    Fail {
        /// Which.
        append: usize,
        /// All later ones fail too.
        for_good: bool,
        /// What the system says.
        says: String,
        /// The first half of the line is written.
        half: bool,
    },
    /// The process is killed at an append.
    Kill {
        /// Which.
        append: usize,
        /// The first half of the line is written.
        half: bool,
    },
}

/// A turn started by the client.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UserStep {
    /// Parts in app-server shape (`{"type":"text","text":…}`, `{"type":"image","url":…}`).
    pub input: Vec<Value>,
    /// Sticky overrides sent with the turn.
    pub overrides: Overrides,
    /// Context of the client: name, whether it is the application's, text.
    pub client_context: Vec<(String, bool, String)>,
    /// Texts added to the metadata of this turn.
    pub client_metadata: Vec<(String, String)>,
    /// The client's id of its message.
    pub client_message_id: Option<String>,
}

/// Settings changed by a turn or by `settings`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overrides {
    /// Name of a model of the scenario.
    pub model: Option<String>,
    /// Reasoning effort.
    pub effort: Option<String>,
    /// Reasoning summary.
    pub summary: Option<String>,
    /// Directory below the workspace.
    pub cwd: Option<String>,
    /// Sandbox mode.
    pub sandbox: Option<String>,
    /// Approval policy.
    pub approval: Option<String>,
    /// JSON Schema of the answer.
    pub output_schema: Option<Value>,
    /// Service tier.
    pub service_tier: Option<String>,
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    /// Standard input is closed.
    Eof,
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
}

/// How a thread is resumed.
#[derive(Debug, Clone, PartialEq)]
pub enum ResumeStep {
    /// By thread id.
    Id,
    /// By rollout path.
    Path,
    /// By supplied response items: a new thread.
    History(Vec<Value>),
}

/// How much of a thread a fork takes over; turns are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkPoint {
    /// All of it.
    Whole,
    /// Up to and with this turn.
    Through(usize),
    /// Up to this turn.
    Before(usize),
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// Status in `turn/completed`.
    pub status: TurnStatus,
    /// Part of the error message.
    pub message: Option<String>,
}

/// Status in `turn/completed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStatus {
    /// `completed`
    Completed,
    /// `interrupted`
    Interrupted,
    /// `failed`
    Failed,
}

/// One scripted answer.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanReply {
    /// `step 2 reply 1`, used in findings.
    pub label: String,
    /// 1-based line in the scenario file.
    pub line: usize,
    /// The kind of request it answers.
    pub answers: Answers,
    /// How many requests in a row it answers.
    pub attempts: u32,
    /// What is sent.
    pub body: ReplyBody,
    /// Holds the stream until the client's actions were acknowledged.
    pub gate: Option<Gate>,
    /// This version is expected to drop the stream.
    pub delivered_cut: bool,
    /// Answers of the client tools called by this reply, by call id.
    pub tool_answers: Vec<ToolAnswer>,
    /// Order in which the client answers, as call ids; `None` is call order.
    pub answer_order: Option<Vec<String>>,
    /// What the answered request has to look like.
    pub request: Option<RequestAssertion>,
}

/// The kind of request that a reply answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answers {
    /// An ordinary sampling request.
    Turn,
    /// A compaction request.
    Compaction {
        /// `local`, `remote_v1`, `remote_v2`.
        implementation: String,
        /// `pre_turn`, `mid_turn`, `standalone_turn`, `post_turn`.
        phase: Option<String>,
        /// `context_limit`, `user_requested`, …
        reason: Option<String>,
        /// Name of the model asked.
        model: Option<String>,
    },
    /// A WebSocket prewarm.
    Prewarm,
    /// The opening of a WebSocket.
    Handshake,
}

/// What the provider sends.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyBody {
    /// A stream of server-sent events.
    Stream {
        /// Response headers beyond the content type.
        headers: Vec<(String, String)>,
        /// Events in order, `response.completed` included where there is one. A text is a data
        /// line that is sent as it stands (`malformed_event`).
        events: Vec<Value>,
        /// How the stream ends.
        ending: Ending,
    },
    /// A whole body with a status.
    Http {
        /// Status code.
        status: u16,
        /// Response headers.
        headers: Vec<(String, String)>,
        /// Body as sent.
        body: String,
    },
    /// The connection is closed with nothing sent.
    DropConnection,
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All events, then the end of the body.
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
    /// All events, then the WebSocket is closed with this code.
    Close {
        /// Close code.
        code: u16,
    },
}

/// A hold in a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Events sent before the hold.
    pub after_events: usize,
    /// What the client does there.
    pub actions: Vec<Action>,
}

/// Something the client does inside a stream or a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// `turn/steer`, parts in app-server shape.
    Steer(Vec<Value>),
    /// `turn/interrupt`.
    Interrupt,
    /// `thread/settings/update`.
    Settings(Box<Overrides>),
    /// `turn/settings/update`.
    TurnSettings(Box<Overrides>),
}

/// What a client tool answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    /// The call.
    pub call_id: String,
    /// Actions of the client before it answers.
    pub while_running: Vec<Action>,
    /// Parts in app-server shape (`{"type":"inputText","text":…}`).
    pub content: Vec<Value>,
    /// `success` of the answer.
    pub success: bool,
    /// Answer with a JSON-RPC error instead.
    pub rpc_error: bool,
}

/// What a request has to look like.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestAssertion {
    /// How strictly `input` is meant.
    pub mode: MatchMode,
    /// Patterns over the input items, without the base instructions.
    pub input: Vec<ItemPattern>,
}

/// How strictly a list is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchMode {
    /// Exactly these, in this order.
    Exact,
    /// These first.
    Prefix,
    /// These somewhere, in this order.
    Contains,
}

/// A pattern for one input item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemPattern {
    /// A message of this role; `None` matches any text.
    Message {
        /// `user`, `assistant`, `developer`.
        role: String,
        /// The text.
        text: Option<TextPattern>,
    },
    /// A user message with the summary prefix and this summary.
    Summary(String),
    /// The compaction prompt.
    CompactionPrompt,
    /// An item of this type; the text is its call id, if given.
    Item {
        /// `function_call`, `function_call_output`, `reasoning`, …
        kind: String,
        /// `call_id`
        call_id: Option<String>,
        /// Output or arguments.
        text: Option<TextPattern>,
    },
}

/// A pattern for a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPattern {
    /// The whole text.
    Is(String),
    /// Its beginning.
    Prefix(String),
    /// A part of it.
    Contains(String),
}

/// Semantic expectations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expect {
    /// Number of requests.
    pub requests: Option<usize>,
    /// Number of `compacted` records.
    pub compacted: Option<usize>,
    /// Counts of rollout records by `type` or `type/payload type`.
    pub rollout: Vec<(String, usize)>,
}
