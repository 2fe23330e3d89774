//! What a thread is started with: model, limits, context switches, tools.

use serde_json::Value;

use crate::hooks::Hook;
use crate::permissions;
use crate::profile::Profile;
use crate::session_budget::SessionBudget;
use crate::token_budget::TokenBudget;

/// Settings of a thread. Token numbers are the provider's tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Current model.
    pub model: Model,
    /// `name` of the provider.
    pub provider_name: String,
    /// Id of the provider in the config (`model_provider`).
    pub provider_id: String,
    /// The provider is asked over a WebSocket.
    pub websockets: bool,
    /// Base URL of the provider, named by some errors.
    pub base_url: String,
    /// Request retries.
    pub request_max_retries: u64,
    /// Stream retries.
    pub stream_max_retries: u64,
    /// Absolute working directory.
    pub cwd: String,
    /// `danger-full-access`, `read-only`, `workspace-write`.
    pub sandbox: String,
    /// Folder that stays closed wherever the thread goes: `.codex` of the working directory in
    /// which a client asked for `workspace-write`.
    pub closed_for_good: Option<String>,
    /// `never`, `on-request`, `untrusted`.
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
    /// Feature `token_budget`; without it windows are compacted.
    pub token_budget: Option<TokenBudget>,
    /// Budget of the session, if it has one.
    pub session_budget: Option<SessionBudget>,
    /// Base instructions of the model that the thread began with; set by the session.
    pub thread_base: Option<String>,
    /// `remote_compaction` of the provider's capabilities: `v2` or not at all (0.164+).
    pub remote_compaction: Option<bool>,
    /// Feature `remote_compaction_v2`; without it 0.144 asks the older endpoint.
    pub remote_compaction_v2: bool,
    /// Overrides the profile's `instant_interrupt`.
    pub instant_interrupt: Option<bool>,
    /// Overrides the profile's history mode: paginated or not.
    pub paginated: Option<bool>,
    /// Reasoning effort set by the client.
    pub effort: Option<String>,
    /// What requests say beside prompt and tools.
    pub sampling: Sampling,
    /// Hooks that the user trusts, in the order of their events.
    pub hooks: Vec<Hook>,
    /// File that defines them, for warnings.
    pub hooks_file: String,
    /// Client tools in declaration order.
    pub tools: Vec<Tool>,
    /// `originator`, client name.
    pub client_name: String,
    /// Client version.
    pub client_version: String,
    /// Installation id.
    pub installation_id: String,
}

/// What a turn may do.
#[derive(Debug, Clone, PartialEq)]
pub struct Permissions {
    /// Sandbox mode.
    pub sandbox: String,
    /// Approval policy.
    pub approval: String,
    /// `permission_profile`; `None` where a record does not say it.
    pub rules: Option<Value>,
}

impl Permissions {
    /// Whether these are others. Rules that a record does not say are the same.
    pub fn differ(&self, other: &Self) -> bool {
        let said = self.rules.as_ref().zip(other.rules.as_ref());
        (&self.sandbox, &self.approval) != (&other.sandbox, &other.approval)
            || said.is_some_and(|(one, another)| one != another)
    }
}

/// Who makes a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Implementation {
    /// The model, asked with a prompt.
    Local,
    /// `/responses/compact` (0.144).
    RemoteV1,
    /// A turn request that ends with a trigger.
    RemoteV2,
    /// Nobody: a new window begins with the initial context alone.
    NewWindow,
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
    /// Defaults and abilities that decide request fields.
    pub sampling: ModelSampling,
}

/// Request fields that config and client decide.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sampling {
    /// Reasoning summary: `auto`, `concise`, `detailed`, `none`.
    pub summary: Option<String>,
    /// Verbosity of the answer.
    pub verbosity: Option<String>,
    /// Service tier as the client or the config names it.
    pub service_tier: Option<String>,
    /// Outputs say which call they answer (`executed_tool_call_metadata`).
    pub executed_calls: bool,
}

/// Request fields that the catalogue decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelSampling {
    /// Default reasoning summary; `none` sends nothing.
    pub default_summary: Option<String>,
    /// The model knows verbosity.
    pub supports_verbosity: bool,
    /// Default verbosity.
    pub default_verbosity: Option<String>,
    /// Ids of its service tiers.
    pub service_tiers: Vec<String>,
    /// Tools go as an input item (`use_responses_lite`).
    pub lite: bool,
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

/// What the base URL of an Azure provider holds.
const AZURE: [&str; 6] = [
    "openai.azure.",
    "cognitiveservices.azure.",
    "aoai.azure.",
    "azure-api.",
    "azurefd.",
    "windows.net/openai",
];

/// The tier that any model has.
const FLEX_TIER: &str = "flex";

/// A service tier by the name that goes on; `fast` is the older one of `priority`.
pub fn service_tier(name: String) -> String {
    if name == "fast" {
        "priority".to_owned()
    } else {
        name
    }
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
            .map(|window| window.saturating_mul(self.model.effective_percent) / 100)
    }

    /// Limit in `total` scope: explicit, clamped to nine tenths of the window (row 1).
    pub fn total_limit(&self) -> Option<i64> {
        let explicit = self
            .auto_compact_token_limit
            .or(self.model.auto_compact_token_limit);
        let clamp = self.window().map(|window| window.saturating_mul(9) / 10);
        match (explicit, clamp) {
            (Some(explicit), Some(clamp)) => Some(explicit.min(clamp)),
            (explicit, clamp) => explicit.or(clamp),
        }
    }

    /// Limit in `body_after_prefix` scope: explicit and unclamped, else nine tenths (row 13).
    pub fn body_limit(&self) -> Option<i64> {
        self.auto_compact_token_limit
            .or(self.model.auto_compact_token_limit)
            .or(self.window().map(|window| window.saturating_mul(9) / 10))
    }

    /// Policy in force: the config's token limit replaces the number, not the unit.
    pub fn truncation(&self) -> Truncation {
        match (self.model.truncation, self.tool_output_token_limit) {
            (policy, None) => policy,
            (Truncation::Bytes(_), Some(tokens)) => Truncation::Bytes(tokens.saturating_mul(4)),
            (Truncation::Tokens(_), Some(tokens)) => Truncation::Tokens(tokens),
        }
    }

    /// Effort of a request: the setting, else the catalogue's default.
    pub fn effective_effort(&self) -> Option<&str> {
        let default = self.model.default_effort.as_deref();
        self.effort.as_deref().or(default)
    }

    /// Summary of a request; `none` is none.
    pub fn effective_summary(&self) -> Option<&str> {
        let default = self.model.sampling.default_summary.as_deref();
        let summary = self.sampling.summary.as_deref().or(default);
        summary.filter(|summary| *summary != "none")
    }

    /// Verbosity of a request, for a model that knows it.
    pub fn effective_verbosity(&self) -> Option<&str> {
        let model = &self.model.sampling;
        let verbosity = self.sampling.verbosity.as_deref();
        verbosity
            .or(model.default_verbosity.as_deref())
            .filter(|_| model.supports_verbosity)
    }

    /// Service tier of a request, if the model has it. From 0.164 on `flex` needs no model
    /// (request.service_tier.flex).
    pub fn effective_service_tier(&self, profile: &crate::profile::Profile) -> Option<&str> {
        let wanted = self.sampling.service_tier.as_deref()?;
        if wanted == FLEX_TIER && profile.wide_metadata {
            return Some(wanted);
        }
        let mut known = self.model.sampling.service_tiers.iter();
        known.find(|tier| *tier == wanted).map(String::as_str)
    }

    /// Items carry what the client knows of them (provider-openai.md).
    pub fn sends_passthrough(&self) -> bool {
        self.provider_name == "OpenAI"
    }

    /// Outputs say which call they answer; for a provider that gets what the client knows.
    pub fn names_executed_calls(&self, profile: &crate::profile::Profile) -> bool {
        self.sampling.executed_calls && self.sends_passthrough() && profile.wide_metadata
    }

    /// Whether commands run in the same folder under the same permissions.
    pub fn same_environment(&self, other: &Self) -> bool {
        (&self.cwd, &self.sandbox, &self.approval) == (&other.cwd, &other.sandbox, &other.approval)
    }

    /// Base instructions of the thread.
    pub fn base_text(&self) -> &str {
        self.base_instructions
            .as_deref()
            .or(self.thread_base.as_deref())
            .unwrap_or(&self.model.base_instructions)
    }

    /// What a turn may do.
    pub fn permissions(&self, profile: &Profile) -> Permissions {
        Permissions {
            sandbox: self.sandbox.clone(),
            approval: self.approval.clone(),
            rules: Some(permissions::record(self, profile)),
        }
    }

    /// The same settings with another model.
    #[must_use]
    pub fn with_model(&self, model: Model) -> Self {
        Self {
            model,
            ..self.clone()
        }
    }

    /// Whether the provider is one of Azure.
    pub fn is_azure(&self) -> bool {
        let url = self.base_url.to_ascii_lowercase();
        self.provider_name.eq_ignore_ascii_case("azure")
            || AZURE.iter().any(|mark| url.contains(mark))
    }

    /// Who compacts: the provider's capability decides, without one its name (compaction.md §6.1).
    pub fn implementation(&self, profile: &Profile) -> Implementation {
        let by_name = self.provider_name == "OpenAI" || self.is_azure();
        if self.token_budget.is_some() {
            Implementation::NewWindow
        } else if !self.remote_compaction.unwrap_or(by_name) {
            Implementation::Local
        } else if profile.remote_v1 && !self.remote_compaction_v2 {
            Implementation::RemoteV1
        } else {
            Implementation::RemoteV2
        }
    }
}
