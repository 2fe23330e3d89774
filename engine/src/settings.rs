//! What a thread is started with: model, limits, context switches, tools.

use serde_json::Value;

/// Settings of a thread. Token numbers are the provider's tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Current model.
    pub model: Model,
    /// `name` of the provider.
    pub provider_name: String,
    /// Id of the provider in the config (`model_provider`).
    pub provider_id: String,
    /// Request retries.
    pub request_max_retries: u64,
    /// Stream retries.
    pub stream_max_retries: u64,
    /// Absolute working directory.
    pub cwd: String,
    /// `danger-full-access`, `read-only`.
    pub sandbox: String,
    /// `never`.
    pub approval: String,
    /// `<permissions instructions>` are injected.
    pub permissions_instructions: bool,
    /// `<environment_context>` is injected.
    pub environment_context: bool,
    /// AGENTS.md of the workspace: its folder and text.
    pub project_doc: Option<(String, String)>,
    /// `<shell>` of the environment context.
    pub shell: String,
    /// Date in the environment context, `YYYY-MM-DD`.
    pub date: String,
    /// Time zone in the environment context.
    pub timezone: String,
    /// Config limit, wins over the model's.
    pub auto_compact_token_limit: Option<i64>,
    /// Window of the config.
    pub context_window: Option<i64>,
    /// Scope of the limit.
    pub scope: Scope,
    /// Post-turn threshold in percent of the effective window.
    pub post_turn_percent: Option<i64>,
    /// Compaction prompt; blank means the built-in one.
    pub compact_prompt: Option<String>,
    /// Replaces the truncation limit, in tokens.
    pub tool_output_token_limit: Option<u64>,
    /// Extra developer message.
    pub developer_instructions: Option<String>,
    /// Replaces the model's base instructions.
    pub base_instructions: Option<String>,
    /// Overrides the profile's `instant_interrupt`.
    pub instant_interrupt: Option<bool>,
    /// Overrides the profile's history mode: paginated or not.
    pub paginated: Option<bool>,
    /// Reasoning effort set by the client.
    pub effort: Option<String>,
    /// Client tools in declaration order.
    pub tools: Vec<Tool>,
    /// `originator`, client name.
    pub client_name: String,
    /// Client version.
    pub client_version: String,
    /// Installation id.
    pub installation_id: String,
}

/// What the compaction limit is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All tokens of the context.
    Total,
    /// The tokens after the prefix of the window.
    BodyAfterPrefix,
}

/// A model of the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Name on the wire.
    pub slug: String,
    /// Raw window in tokens.
    pub context_window: Option<i64>,
    /// Upper bound of the window.
    pub max_context_window: Option<i64>,
    /// Usable percent of the window.
    pub effective_percent: i64,
    /// Limit of the catalogue.
    pub auto_compact_token_limit: Option<i64>,
    /// Base instructions.
    pub base_instructions: String,
    /// Truncation policy of tool outputs.
    pub truncation: Truncation,
    /// `text`, `image`, `audio`.
    pub input_modalities: Vec<String>,
    /// The catalogue says that the model takes images in their original size.
    pub image_detail_original: bool,
    /// Hash that forces a compaction when it changes.
    pub comp_hash: Option<String>,
    /// 0.144.6 asks for parallel calls.
    pub parallel_tool_calls: bool,
    /// 0.144.6 sends `reasoning` and `include`.
    pub reasoning_summaries: bool,
    /// Default reasoning effort.
    pub default_effort: Option<String>,
}

/// Truncation policy: limit in bytes, or in tokens of four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// Bytes.
    Bytes(u64),
    /// Tokens.
    Tokens(u64),
}

/// A client tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Namespace that holds it.
    pub namespace: Option<String>,
    /// Loaded on demand.
    pub defer_loading: bool,
}

impl Settings {
    /// Raw window: config clamped by the model's maximum, else the model's (compaction.md rows 1b, 3).
    pub fn window(&self) -> Option<i64> {
        let model = self.model.context_window.or(self.model.max_context_window);
        match (self.context_window, self.model.max_context_window) {
            (Some(config), Some(max)) => Some(config.min(max)),
            (Some(config), None) => Some(config),
            (None, _) => model,
        }
    }

    /// Effective window: `model_context_window` of the records (row 4).
    pub fn effective_window(&self) -> Option<i64> {
        self.window()
            .map(|window| window * self.model.effective_percent / 100)
    }

    /// Limit in `total` scope: explicit, clamped to nine tenths of the window (row 1).
    pub fn total_limit(&self) -> Option<i64> {
        let explicit = self
            .auto_compact_token_limit
            .or(self.model.auto_compact_token_limit);
        let clamp = self.window().map(|window| window * 9 / 10);
        match (explicit, clamp) {
            (Some(explicit), Some(clamp)) => Some(explicit.min(clamp)),
            (explicit, clamp) => explicit.or(clamp),
        }
    }

    /// Limit in `body_after_prefix` scope: explicit and unclamped, else nine tenths (row 13).
    pub fn body_limit(&self) -> Option<i64> {
        self.auto_compact_token_limit
            .or(self.model.auto_compact_token_limit)
            .or(self.window().map(|window| window * 9 / 10))
    }

    /// Policy in force: the config's token limit replaces the number, not the unit.
    pub fn truncation(&self) -> Truncation {
        match (self.model.truncation, self.tool_output_token_limit) {
            (policy, None) => policy,
            (Truncation::Bytes(_), Some(tokens)) => Truncation::Bytes(tokens * 4),
            (Truncation::Tokens(_), Some(tokens)) => Truncation::Tokens(tokens),
        }
    }

    /// Base instructions of the thread.
    pub fn base_text(&self) -> &str {
        self.base_instructions
            .as_deref()
            .unwrap_or(&self.model.base_instructions)
    }
}
