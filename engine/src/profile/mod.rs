//! What differs between the version families, as one row per family.
//!
//! Invariant: no other file compares versions; it asks a field here. Adding a version is a row in
//! [`Profile::of`], and a field only where it behaves in a new way. Each field names the facts it
//! was seen in (`facts/compaction.md` §1 row numbers, `facts/appserver.md`).

pub mod faults;

use crate::planted::Planted;

/// A version family the engine is faithful to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 0.144.6
    V144,
    /// 0.164.0
    V164,
    /// 0.171.0
    V171,
}

/// Where the local estimate takes its bytes from (compaction.md row 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EstimateBasis {
    /// The compact JSON of the stored item.
    Json,
    /// The text of the item's content.
    Text,
}

/// Where the items start that no server usage covers (compaction.md §2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UncoveredFrom {
    /// After the last model output in the history.
    LastModelOutput,
    /// After the position at which usage was last recorded.
    LastUsage,
}

/// Which failures of a local compaction are asked again (compaction.md §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionRetries {
    /// Every one.
    Every,
    /// Every one but an incomplete answer.
    AllButIncomplete,
    /// Those that an ordinary turn asks again.
    AsTurns,
}

/// Behaviour of one version family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The family.
    pub version: Version,
    /// Release that it was recorded from; goes into headers and `session_meta`.
    pub release: &'static str,
    /// Base instructions are the first input item, not the `instructions` field.
    pub base_is_item: bool,
    /// Items carry ids on the wire.
    pub item_ids: bool,
    /// Turn metadata carries the wide key set (root turn, window number, sandbox mode …).
    pub wide_metadata: bool,
    /// Requests say `accept-encoding: zstd,gzip`.
    pub accept_encoding: bool,
    /// Calls run together; otherwise one after another.
    pub concurrent_calls: bool,
    /// A steer or interrupt drops the open stream unless the config says no.
    pub instant_interrupt: bool,
    /// `update_plan` and `view_image` are always listed.
    pub built_in_tools: bool,
    /// Shipped history mode is paginated: ordinals and `item_completed`.
    pub paginated: bool,
    /// `token_usage_record` and the retained context exist.
    pub usage_records: bool,
    /// 0.171 extras: history sequence, account scope, reasoning flag in `token_count`.
    pub sequences: bool,
    /// Bytes of the local estimate.
    pub estimate: EstimateBasis,
    /// Start of the uncovered items.
    pub uncovered: UncoveredFrom,
    /// While no usage was ever seen the whole history is estimated (row 8).
    pub estimate_without_usage: bool,
    /// The effective window also limits in `total` scope (row 6).
    pub hard_cap_in_total_scope: bool,
    /// Pre-turn and manual compactions put the initial context into the replacement (row 20).
    pub context_in_every_replacement: bool,
    /// The text parts of a kept user message are joined into one (§4).
    pub joins_kept_parts: bool,
    /// Partial assistant items of failed compaction attempts stay (row 30).
    pub keeps_failed_compaction_items: bool,
    /// Which failures of a local compaction are asked again (row 29).
    pub compaction_retries: CompactionRetries,
    /// Images count against the budget of a remote compaction (row 37).
    pub counts_kept_images: bool,
    /// The estimate behind a checkpoint names the window of the turn's model; before, that of the
    /// model that wrote the summary stays.
    pub recompute_takes_window: bool,
    /// Untrusted client context is an output without a call, and a compaction keeps client context.
    pub client_context_as_output: bool,
    /// `additional_tools` items are written to the rollout.
    pub records_tool_items: bool,
    /// Requests to Azure are stored and their items keep ids.
    pub stores_for_azure: bool,
    /// `/responses/compact` exists (row 34).
    pub remote_v1: bool,
    /// A new model repeats the permissions in the message that announces it; later they are told
    /// only where they change, in a message of their own.
    pub model_switch_repeats_permissions: bool,
    /// Permissions name one more closed folder, closed folders need not exist, and `untrusted` has
    /// a shorter text.
    pub wide_permissions: bool,
    /// The user text survives a failed pre-turn compaction (row 31).
    pub keeps_text_after_failed_pre_turn: bool,
    /// The user text survives an interrupted pre-turn compaction (§5.4).
    pub keeps_text_after_interrupted_pre_turn: bool,
    /// A turn that failed goes on where a steer waits; later the steer stays in the history.
    pub goes_on_for_steers: bool,
    /// Hooks at the start run in the turn whose middle was compacted; otherwise before the next input.
    pub start_hooks_in_turn: bool,
    /// `task_complete` carries the error (row 32).
    pub error_in_task_complete: bool,
    /// A session budget shows parts of tokens (session_budget.fraction).
    pub budget_shows_fractions: bool,
    /// A session budget that was passed stops the turn: no call starts, no request is sent, a
    /// compaction is installed first (session_budget.stops).
    pub budget_stops_turns: bool,
    /// A warning follows each compaction (row 48).
    pub warns_after_compaction: bool,
    /// Tool outputs carry their own cut limit (history.md §3).
    pub output_limit_override: bool,
    /// Parallel calls are always asked for; otherwise the catalogue decides.
    pub always_parallel: bool,
    /// `reasoning` is an object, else `null` without summaries.
    pub reasoning_always: bool,
    /// Apostrophe in error texts.
    pub apostrophe: char,
    /// Items know a status, annotations, outputs from outside, audio and files (history.md §1).
    pub wide_items: bool,
    /// Empty texts in a list of output parts are left out when the output enters the history.
    pub drops_empty_output_texts: bool,
    /// A model without original images gets them as `high` (history.md §2).
    pub lowers_original_detail: bool,
    /// Images of live items are asked for in their original size where the model takes it.
    pub raises_live_detail: bool,
    /// A checkpoint in a turn that was rolled back is not installed, and what stood before it is
    /// lost all the same (0.144, history.md §4).
    pub skips_rolled_back_checkpoints: bool,
    /// A summary counts as a turn of the user in a rollback (0.144, compaction.md §10).
    pub counts_summaries_as_turns: bool,
    /// Only a turn with a message of the user says what the model was told (0.144, history.md §6).
    pub baseline_needs_user_turn: bool,
    /// The permissions are told again when the turn context has others; later the world state
    /// decides, and whether the history still holds them (history.md §6).
    pub permissions_by_turn_context: bool,
    /// Keys without which a turn context is no record.
    pub turn_context_keys: &'static [&'static str],
    /// A checkpoint that no token count follows is estimated anew; before, the count of the window
    /// before it still stands, and the next turn compacts again (history.md §5).
    pub estimates_uncounted_checkpoints: bool,
    /// A resumed thread has the settings that were last applied; before, the folder of its start
    /// and the permissions of the config (history.md §9).
    pub restores_thread_settings: bool,
    /// A resume writes the thread's settings (0.164).
    pub settings_at_resume: bool,
    /// A fork that is resumed tells the client its usage at once.
    pub tells_usage_of_resumed_forks: bool,
    /// A fork has the sandbox that the thread has now, not that of the config.
    pub forks_live_sandbox: bool,
    /// A transport error names the URL (0.144).
    pub url_in_transport_errors: bool,
    /// An unexpected status has a code of its own (0.164+).
    pub connection_failed_code: bool,
    /// A rate limit has a text and a code of its own, and `slow_down` is one (0.164+).
    pub rate_limit_errors: bool,
    /// `retry-after` of a status 429 is honoured (0.164+).
    pub honours_retry_after: bool,
    /// A response cut at its length is not asked again (0.164+).
    pub incomplete_is_final: bool,
    /// The model is guided after a response that the content filter stopped (0.164+).
    pub guides_after_content_filter: bool,
    /// A status 400 that names the context length counts as a full window (0.171).
    pub reads_full_window_of_400: bool,
    /// A WebSocket stays open when a turn is interrupted (0.144).
    pub keeps_socket_after_interrupt: bool,
    /// An item that came without an id is an anchor although it was given one; no effect where
    /// items have no ids (0.171).
    pub anchors_without_id: bool,
    /// A previous response that is not found is followed by the full input (0.164+).
    pub retries_lost_anchor: bool,
    /// Page of the plan's usage, in error texts.
    pub usage_page: &'static str,
    /// The environment context names date and time zone; the quiet config switches it off where
    /// there is such a switch (0.164+).
    pub environment_dates: bool,
    /// Tool schemas keep `minItems`.
    pub keeps_min_items: bool,
    /// A lite model gets plain tools in a namespace, also in compaction requests.
    pub lite_namespace: bool,
    /// Namespaces with deferred tools are named in the initial context.
    pub names_deferred_tools: bool,
    /// A line that was left open in the rollout is ended before the next record; otherwise that
    /// record is glued to it (`rollout.damage.open_end`).
    pub ends_open_lines: bool,
    /// A rollout with a line that is not UTF-8 is refused; later that line is lost.
    pub refuses_invalid_utf8: bool,
    /// Ordinals are read: one that is no number loses its line, and the last record has to have one.
    pub reads_ordinals: bool,
    /// A rollout whose last record has no ordinal is refused (0.164+).
    pub needs_last_ordinal: bool,
    /// A rollout that names another thread than its file is refused (0.164+).
    pub checks_thread_id: bool,
    /// A rollout that does not begin with its metadata is refused.
    pub needs_meta_first: bool,
    /// A byte order mark at the start is part of the first line, which so is none.
    pub reads_byte_order_mark: bool,
    /// Records that stand on one line, or behind the rest of a torn one, are lost with it.
    pub loses_glued_records: bool,
    /// Nothing is said of lines that are left out.
    pub skips_silently: bool,
    /// A fault that a test gave it.
    pub planted: Option<Planted>,
}

impl Profile {
    /// The row of a family.
    pub fn of(version: Version) -> Self {
        match version {
            Version::V144 => Self::v144(),
            Version::V164 => Self::v164(),
            Version::V171 => Self::v171(),
        }
    }

    fn v144() -> Self {
        Self {
            version: Version::V144,
            release: "0.144.6",
            base_is_item: false,
            item_ids: false,
            wide_metadata: false,
            accept_encoding: false,
            concurrent_calls: false,
            instant_interrupt: false,
            built_in_tools: true,
            paginated: false,
            usage_records: false,
            sequences: false,
            estimate: EstimateBasis::Json,
            uncovered: UncoveredFrom::LastModelOutput,
            estimate_without_usage: false,
            hard_cap_in_total_scope: false,
            context_in_every_replacement: false,
            joins_kept_parts: true,
            keeps_failed_compaction_items: true,
            compaction_retries: CompactionRetries::Every,
            counts_kept_images: false,
            recompute_takes_window: false,
            client_context_as_output: false,
            records_tool_items: false,
            stores_for_azure: true,
            remote_v1: true,
            model_switch_repeats_permissions: true,
            wide_permissions: false,
            keeps_text_after_failed_pre_turn: false,
            keeps_text_after_interrupted_pre_turn: false,
            goes_on_for_steers: true,
            start_hooks_in_turn: false,
            error_in_task_complete: false,
            budget_shows_fractions: false,
            budget_stops_turns: false,
            warns_after_compaction: true,
            output_limit_override: false,
            always_parallel: false,
            reasoning_always: false,
            apostrophe: '\'',
            wide_items: false,
            drops_empty_output_texts: false,
            lowers_original_detail: false,
            raises_live_detail: false,
            skips_rolled_back_checkpoints: true,
            counts_summaries_as_turns: true,
            baseline_needs_user_turn: true,
            permissions_by_turn_context: true,
            turn_context_keys: &[
                "cwd",
                "model",
                "approval_policy",
                "sandbox_policy",
                "summary",
            ],
            estimates_uncounted_checkpoints: false,
            restores_thread_settings: false,
            settings_at_resume: false,
            tells_usage_of_resumed_forks: true,
            forks_live_sandbox: false,
            url_in_transport_errors: true,
            connection_failed_code: false,
            rate_limit_errors: false,
            honours_retry_after: false,
            incomplete_is_final: false,
            guides_after_content_filter: false,
            reads_full_window_of_400: false,
            keeps_socket_after_interrupt: true,
            anchors_without_id: false,
            retries_lost_anchor: false,
            usage_page: "https://chatgpt.com/codex/settings/usage",
            environment_dates: true,
            keeps_min_items: false,
            lite_namespace: false,
            names_deferred_tools: false,
            ends_open_lines: false,
            refuses_invalid_utf8: true,
            reads_ordinals: false,
            needs_last_ordinal: false,
            checks_thread_id: false,
            needs_meta_first: true,
            reads_byte_order_mark: true,
            loses_glued_records: true,
            skips_silently: true,
            planted: None,
        }
    }

    fn v164() -> Self {
        Self {
            version: Version::V164,
            release: "0.164.0",
            base_is_item: true,
            item_ids: true,
            wide_metadata: true,
            concurrent_calls: true,
            instant_interrupt: true,
            built_in_tools: false,
            paginated: true,
            usage_records: true,
            estimate: EstimateBasis::Text,
            hard_cap_in_total_scope: true,
            context_in_every_replacement: true,
            joins_kept_parts: false,
            keeps_failed_compaction_items: false,
            compaction_retries: CompactionRetries::AllButIncomplete,
            counts_kept_images: true,
            recompute_takes_window: true,
            records_tool_items: true,
            stores_for_azure: false,
            remote_v1: false,
            model_switch_repeats_permissions: false,
            wide_permissions: true,
            keeps_text_after_failed_pre_turn: true,
            goes_on_for_steers: false,
            start_hooks_in_turn: true,
            error_in_task_complete: true,
            warns_after_compaction: false,
            output_limit_override: true,
            always_parallel: true,
            reasoning_always: true,
            apostrophe: '\u{2019}',
            wide_items: true,
            drops_empty_output_texts: true,
            lowers_original_detail: true,
            skips_rolled_back_checkpoints: false,
            counts_summaries_as_turns: false,
            baseline_needs_user_turn: false,
            permissions_by_turn_context: false,
            turn_context_keys: &["cwd", "model", "approval_policy", "sandbox_policy"],
            estimates_uncounted_checkpoints: true,
            restores_thread_settings: true,
            settings_at_resume: true,
            url_in_transport_errors: false,
            connection_failed_code: true,
            rate_limit_errors: true,
            honours_retry_after: true,
            incomplete_is_final: true,
            guides_after_content_filter: true,
            keeps_socket_after_interrupt: false,
            retries_lost_anchor: true,
            usage_page: "https://chatgpt.com/settings/usage",
            environment_dates: false,
            keeps_min_items: true,
            lite_namespace: true,
            ends_open_lines: true,
            refuses_invalid_utf8: false,
            checks_thread_id: true,
            reads_ordinals: true,
            needs_last_ordinal: true,
            ..Self::v144()
        }
    }

    fn v171() -> Self {
        Self {
            version: Version::V171,
            release: "0.171.0",
            accept_encoding: true,
            raises_live_detail: true,
            sequences: true,
            client_context_as_output: true,
            compaction_retries: CompactionRetries::AsTurns,
            uncovered: UncoveredFrom::LastUsage,
            estimate_without_usage: true,
            keeps_text_after_interrupted_pre_turn: true,
            turn_context_keys: &["cwd", "model", "approval_policy"],
            settings_at_resume: false,
            tells_usage_of_resumed_forks: false,
            forks_live_sandbox: true,
            reads_full_window_of_400: true,
            anchors_without_id: true,
            names_deferred_tools: true,
            budget_shows_fractions: true,
            budget_stops_turns: true,
            ..Self::v164()
        }
    }
}
