//! Scenario format v1 as types. The doc comments become `docs/scenario-format.md`.
//!
//! The types say what parses; `validate.rs` says what makes sense; `resolve.rs` fills in defaults.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::bounds::{Below, Retries, Summary};
use super::hooks::Hooks;
use super::reply::Reply;
use super::rollout_steps::{EditRollout, Storage};
use super::values::{Count, Located, Many, Nothing, Ordered, Parts, Text};

/// One behaviour of the turn engine: what the client does, what the provider answers, and what has
/// to come of it. The file name says the behaviour.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One sentence in the present tense that says the behaviour.
    pub description: String,
    /// Ids of the rules it exercises, from `docs/rules.md`.
    #[serde(default)]
    pub rules: Many<String>,
    /// Range of versions the scenario applies to, for instance `>=0.164`; needs `reason`.
    pub versions: Option<Located<String>>,
    /// Why `versions` or `only` is there.
    pub reason: Option<String>,
    /// Restricts the subjects: `engine` where no real binary can run it; needs `reason`.
    pub only: Option<Only>,
    /// Models of the catalogue by name; the first is the start model. Without it there is one model
    /// `main` with the defaults.
    #[serde(default)]
    pub models: Ordered<Model>,
    /// Settings of the thread; the defaults are the quiet recipe.
    #[serde(default)]
    pub config: Config,
    /// Client tools by name. The short form maps parameters to types (`{path: string}`), the long
    /// form has `parameters` (a JSON Schema), `description`, `namespace`, `defer_loading`.
    #[serde(default)]
    pub tools: Ordered<Ordered<Value>>,
    /// Files of the workspace: path and content.
    #[serde(default)]
    pub files: Ordered<Located<Text>>,
    /// What the client does, in order.
    pub steps: Many<Step>,
    /// Expectations on the whole recording.
    pub expect: Option<Expect>,
}

/// Subjects a scenario is restricted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Only {
    /// Our engine.
    Engine,
}

/// One entry of the model catalogue. Tokens are tokens of the provider.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Raw context window in tokens (100000); `none` leaves it out.
    pub context_window: Option<Window>,
    /// Upper bound of the window in tokens (the same as `context_window`); `none` leaves it out.
    pub max_context_window: Option<Window>,
    /// Percent of the window that is usable (95).
    pub effective_context_window_percent: Option<i64>,
    /// Explicit compaction limit in tokens; without it 90 % of the window.
    pub auto_compact_token_limit: Option<i64>,
    /// Base instructions (`Be brief.`); an empty text removes them from the wire.
    pub base_instructions: Option<Text>,
    /// How tool outputs are cut ({bytes: 10000}).
    pub truncation: Option<TruncationLimit>,
    /// What the model takes: `text`, `image`, `audio` (`[text]`).
    pub input_modalities: Option<Many<String>>,
    /// Catalogue hash; a change between two models forces a compaction.
    pub comp_hash: Option<String>,
    /// Whether 0.144.6 asks for parallel calls (false).
    pub supports_parallel_tool_calls: Option<bool>,
    /// Whether the catalogue says reasoning summaries (false; 0.144.6 only).
    pub supports_reasoning_summaries: Option<bool>,
    /// Default reasoning effort.
    pub default_reasoning_level: Option<String>,
    /// Other keys of the catalogue entry, sent as they stand. Not those that switch on tools of the
    /// client's own (`apply_patch_tool_type`, `tool_mode: code_mode`, …).
    #[serde(default)]
    pub extra: Ordered<Located<Value>>,
}

/// A window in tokens, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Window(pub Option<i64>);

impl TryFrom<Value> for Window {
    type Error = String;
    fn try_from(value: Value) -> Result<Self, String> {
        match (value.as_i64(), &value) {
            (Some(tokens), _) => Ok(Self(Some(tokens))),
            (None, Value::Null) => Ok(Self(None)),
            (None, Value::String(word)) if word == "none" => Ok(Self(None)),
            (None, other) => Err(format!(
                "a window is a number of tokens or `none`, not {other}"
            )),
        }
    }
}

impl JsonSchema for Window {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Window".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"anyOf": [{"type": "integer"}, {"const": "none"}, {"type": "null"}]})
    }
}

/// Limit of tool outputs; exactly one of the two. The kept budget is 1.2 times as large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TruncationLimit {
    /// Limit in bytes of UTF-8.
    pub bytes: Option<u64>,
    /// Limit in tokens of four bytes.
    pub tokens: Option<u64>,
}

/// Settings of the thread. Keys that only remove text are off by default (the quiet recipe); keys
/// that change behaviour keep what the binary ships.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the provider (`mock`); `OpenAI` unlocks remote compaction.
    pub provider_name: Option<String>,
    /// Path that the provider's base URL ends with, for instance `/azurefd.`; nothing without it.
    pub provider_path: Option<String>,
    /// Retries of one request (0), at most 12.
    pub request_max_retries: Option<Retries>,
    /// Retries of one stream (0), at most 12.
    pub stream_max_retries: Option<Retries>,
    /// Idle limit of a stream in milliseconds.
    pub stream_idle_timeout_ms: Option<u64>,
    /// Nobody listens where the provider should be (false).
    pub unreachable: Option<bool>,
    /// The provider is asked over a WebSocket (false). Each thread then begins with a prewarm: give
    /// the first step a reply `for: prewarm`.
    pub websockets: Option<bool>,
    /// The `<environment_context>` message is injected (false).
    pub environment_context: Option<bool>,
    /// The `<permissions instructions>` message is injected (false).
    pub permissions_instructions: Option<bool>,
    /// AGENTS.md of the workspace is read (false).
    pub project_doc: Option<bool>,
    /// `read-only`, `workspace-write`, `danger-full-access` (the default here).
    pub sandbox: Option<Sandbox>,
    /// `never` (the default here), `on-request`; `untrusted` on 0.144.6 alone.
    pub approval: Option<Located<Approval>>,
    /// Explicit compaction limit of the config in tokens; wins over the model's.
    pub auto_compact_token_limit: Option<i64>,
    /// What the limit counts: `total` or `body_after_prefix`.
    pub auto_compact_token_limit_scope: Option<LimitScope>,
    /// Window of the config in tokens, capped by the model's maximum.
    pub context_window: Option<i64>,
    /// Percent of the effective window after which a finished turn compacts (0.164+).
    pub post_turn_compact_threshold_percent: Option<i64>,
    /// Replaces the compaction prompt.
    pub compact_prompt: Option<Text>,
    /// Text of a file that replaces the compaction prompt, blanks around it cut off. The case gets a
    /// process of its own.
    pub compact_prompt_file: Option<Located<Text>>,
    /// Replaces the model's truncation limit, in tokens.
    pub tool_output_token_limit: Option<u64>,
    /// An extra developer message.
    pub developer_instructions: Option<Text>,
    /// Replaces the model's base instructions.
    pub base_instructions: Option<Text>,
    /// A steer or an interrupt drops an open stream at once (0.164+; shipped: true).
    pub instant_interrupt: Option<bool>,
    /// `legacy` or `paginated`; shipped: legacy on 0.144.6, paginated later.
    pub history_mode: Option<HistoryMode>,
    /// A refused connection is retried for ever (0.164+; shipped: true).
    pub unbounded_connection_retries: Option<bool>,
    /// Feature flags beyond the quiet recipe.
    #[serde(default)]
    pub features: Ordered<Value>,
    /// Commands that run before and after a compaction and at the start of a session. The case gets
    /// a process of its own.
    #[serde(default)]
    pub hooks: Hooks,
    /// Other config keys (dotted) as they stand, but for those that the harness sets itself.
    #[serde(default)]
    pub extra: Ordered<Located<Value>>,
    /// The case gets a process of its own (false).
    pub own_process: Option<bool>,
}

/// A sandbox mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    /// Commands may read.
    ReadOnly,
    /// Commands may write below the workspace.
    WorkspaceWrite,
    /// Commands may do anything.
    DangerFullAccess,
}

impl Sandbox {
    /// The word of the format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }
}

/// An approval policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Approval {
    /// Nothing is put before the user.
    Never,
    /// The model may ask.
    OnRequest,
    /// All but known harmless commands are put before the user.
    Untrusted,
}

impl Approval {
    /// The word of the format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::OnRequest => "on-request",
            Self::Untrusted => "untrusted",
        }
    }
}

/// What a compaction limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitScope {
    /// All tokens.
    Total,
    /// Tokens after the first response of the window.
    BodyAfterPrefix,
}

/// How the rollout is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryMode {
    /// Plain lines.
    Legacy,
    /// Lines with ordinals.
    Paginated,
}

/// One thing the client does. Exactly one of `user`, `compact`, `settings`, `inject`, `stop`,
/// `resume`, `edit_rollout`, `fork`, `rollback`, `revert`, `storage`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// A turn with this input: a text, a list of parts, or `[]` for no input.
    pub user: Option<Parts>,
    /// With `user`: model for this turn and later ones.
    pub model: Option<String>,
    /// With `user`: reasoning effort for this turn and later ones.
    pub effort: Option<String>,
    /// With `user`: reasoning summary for this turn and later ones.
    pub summary: Option<Summary>,
    /// With `user`: directory below the workspace for this turn and later ones.
    pub cwd: Option<Below>,
    /// With `user`: sandbox for this turn and later ones.
    pub sandbox: Option<Sandbox>,
    /// With `user`: approval policy for this turn and later ones.
    pub approval: Option<Approval>,
    /// With `user`: JSON Schema of the answer.
    pub output_schema: Option<Value>,
    /// With `user`: service tier for this turn and later ones.
    pub service_tier: Option<String>,
    /// With `user`: texts that the client adds to the turn metadata of this turn.
    #[serde(default)]
    pub client_metadata: Ordered<String>,
    /// With `user`: the client's own id of its message.
    pub client_message_id: Option<String>,
    /// With `user`: context that the client supplies, by its name: `{ide: {untrusted: text}}` or
    /// `{ide: {application: text}}`.
    #[serde(default)]
    pub client_context: Ordered<ClientContext>,
    /// A manual compaction.
    pub compact: Option<Nothing>,
    /// Changes settings between turns.
    pub settings: Option<Settings>,
    /// Puts response items into the history.
    pub inject: Option<Many<Value>>,
    /// Ends the process: `eof`, `term`, `kill`.
    pub stop: Option<Stop>,
    /// Resumes the thread, in a new process after a `stop`.
    pub resume: Option<Resume>,
    /// Edits the rollout file of the thread by predicate.
    pub edit_rollout: Option<EditRollout>,
    /// Forks the thread and goes on with the fork: `{}` all of it, `{through_turn: 2}`,
    /// `{before_turn: 2}` (0.164+).
    pub fork: Option<Located<Fork>>,
    /// Drops the last turns of the user: `{turns: 1}` (0.144.6).
    pub rollback: Option<Located<Rollback>>,
    /// Goes back before a turn: `{before_turn: 2}` (0.164+).
    pub revert: Option<Located<Revert>>,
    /// A fault of the storage (with `only: engine`): a real binary has its own disk.
    pub storage: Option<Storage>,
    /// Answers of the provider, one per request, in order.
    #[serde(default)]
    pub replies: Many<Reply>,
    /// How the turn ends (`completed`): a word, or `{failed: part of the message}`. A `resume` that is
    /// refused ends with `{failed: …}`.
    pub ends: Option<EndsWith>,
}

/// One entry of client context; exactly one of the two.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientContext {
    /// A text that the model is not to trust.
    pub untrusted: Option<Text>,
    /// A text of the application.
    pub application: Option<Text>,
}

/// Settings that stay in force from the next turn on.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Name of a model of the scenario.
    pub model: Option<String>,
    /// Reasoning effort.
    pub effort: Option<String>,
    /// Reasoning summary.
    pub summary: Option<Summary>,
    /// Directory below the workspace.
    pub cwd: Option<Below>,
    /// Sandbox mode.
    pub sandbox: Option<Sandbox>,
    /// Approval policy.
    pub approval: Option<Approval>,
    /// Service tier.
    pub service_tier: Option<String>,
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Standard input is closed.
    Eof,
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
}

/// How a thread is resumed.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// By `id` (the default), by rollout `path`, or by supplied `history`.
    pub by: Option<ResumeBy>,
    /// The response items for `by: history`.
    pub history: Option<Vec<Value>>,
}

/// What a thread is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResumeBy {
    /// Its id.
    #[default]
    Id,
    /// The path of its rollout.
    Path,
    /// Response items: a new thread.
    History,
}

/// How much of a thread a fork takes over. Turns are counted from 1 in the thread that is forked,
/// manual compactions among them; without either it takes all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// The last turn that it takes.
    pub through_turn: Option<usize>,
    /// The first turn that it does not take (0.164+).
    pub before_turn: Option<usize>,
}

/// What is rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// How many turns of the user.
    pub turns: u64,
}

/// What is reverted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revert {
    /// The first turn that goes, counted from 1 in what the thread holds.
    pub before_turn: usize,
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndsWith {
    /// `completed`
    Completed,
    /// `interrupted`
    Interrupted,
    /// `failed`, with a part of the error message.
    Failed(Option<String>),
}

/// The long form of `ends`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndsFields {
    /// The turn fails and its message contains this text.
    pub failed: String,
}

/// Expectations on the whole recording.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Number of requests.
    pub requests: Option<Count>,
    /// Number of checkpoints (`compacted` records).
    pub compacted: Option<Count>,
    /// Number of rollout records by `type` (`compacted`) or `type/payload type`
    /// (`event_msg/turn_aborted`).
    #[serde(default)]
    pub rollout: Ordered<Count>,
}
