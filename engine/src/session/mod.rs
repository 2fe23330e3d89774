//! One thread: its state, how items get into it, and what a client can do between turns.
//!
//! Turns live in `turn.rs`, compactions in `compaction.rs`, what is loaded in `resume.rs`; all work
//! on this state.

mod accept;
mod given;
mod resume;
mod ways_back;

pub use self::ways_back::{InForce, Taken, rollback_marker};

pub use self::accept::Refused;

use std::collections::VecDeque;
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::change::{Change, Waiting};
use crate::client_context::ClientContext;
use crate::context::{self, WindowIds};
use crate::events::Event;
use crate::history::{History, admit, cut_output};
use crate::images;
use crate::items::{Item, Retained};
use crate::planted::Planted;
use crate::ports::{Inbox, Ports};
use crate::profile::Profile;
use crate::rate_limits::RateLimits;
use crate::recorder::Recorder;
use crate::rollout::{self, Origin, TokenInfo};
use crate::session_budget::BudgetUse;
use crate::settings::{Model, Permissions, Settings};
use crate::token_budget::Said;
use crate::tokens::Usage;
use crate::websocket::Socket;

/// A context window of the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Number, from 0.
    pub number: u64,
    /// Id of this window.
    pub id: String,
    /// Id of the first window.
    pub first: String,
    /// Id of the window before.
    pub previous: Option<String>,
}

/// Settings and world state that the model was last told.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// Permissions of the turn that recorded the context.
    pub permissions: Permissions,
    /// World state as written.
    pub state: Map<String, Value>,
}

/// What the client says about a turn beside its input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remarks {
    /// Texts for the turn metadata.
    pub metadata: Vec<(String, String)>,
    /// The client's own id of its message.
    pub message_id: Option<String>,
    /// Context beside the input.
    pub context: Vec<ClientContext>,
}

/// Running numbers of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Last history sequence given.
    pub history: u64,
    /// Sequence of the newest item a model has seen.
    pub sampled: u64,
    /// Next order among inputs, calls and answers, as read from a rollout.
    pub order: u64,
    /// Batches injected between turns.
    pub injected: u64,
}

impl Counters {
    pub(crate) fn number_item(&mut self) {
        self.history = self.history.saturating_add(1);
    }
}

/// Texts retained for later windows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetainedTexts {
    /// The user's texts with their order.
    pub user: Vec<(u64, Retained)>,
    /// The assistant's texts with their order; a later text takes the place of one with its id.
    pub assistant: Vec<(u64, Retained)>,
    /// A text of the user was dropped.
    pub user_dropped: bool,
    /// A text of the assistant was dropped.
    pub assistant_dropped: bool,
}

/// Texts of one role that are retained (0.164+).
pub(crate) const RETAINED_TEXTS_MAX: usize = 8;

impl RetainedTexts {
    /// The revision of a text that is retained already.
    pub(crate) fn revision_of(&self, source: &Retained) -> Option<String> {
        let texts = if source.role == "user" {
            &self.user
        } else {
            &self.assistant
        };
        let known = texts.iter().map(|(_, known)| known).find(|known| {
            (&known.message_id, &known.turn_id, &known.text)
                == (&source.message_id, &source.turn_id, &source.text)
        });
        known.map(|known| known.revision.clone())
    }

    /// Retains a text; the oldest of its role goes when there are too many.
    pub(crate) fn push(&mut self, order: u64, source: Retained) {
        let (texts, dropped) = if source.role == "user" {
            (&mut self.user, &mut self.user_dropped)
        } else {
            (&mut self.assistant, &mut self.assistant_dropped)
        };
        if texts
            .iter()
            .any(|(_, known)| known.revision == source.revision)
        {
            return;
        }
        texts.retain(|(_, known)| known.message_id != source.message_id);
        texts.push((order, source));
        if texts.len() > RETAINED_TEXTS_MAX {
            texts.remove(0);
            *dropped = true;
        }
    }
}

/// A thread.
pub struct Session {
    pub(crate) profile: Profile,
    pub(crate) settings: Settings,
    /// Settings that the thread was loaded with.
    loaded: Settings,
    pub(crate) ports: Ports,
    pub(crate) inbox: Rc<Inbox>,
    pub(crate) thread: String,
    /// Session id: that of the thread, unless its metadata say another one.
    pub(crate) root: String,
    pub(crate) window: Window,
    /// What the thread stands on.
    pub(crate) origin: Origin,
    pub(crate) history: History,
    pub(crate) baseline: Option<Baseline>,
    pub(crate) info: Option<TokenInfo>,
    /// Limits of the plan as the newest answer told them: every stream does, and a reached limit.
    pub(crate) rate_limits: Option<RateLimits>,
    /// Usage of the thread, compactions included.
    pub(crate) thread_usage: Usage,
    /// Usage of the running turn.
    pub(crate) turn_usage: Usage,
    pub(crate) latest_usage_record: Option<Value>,
    pub(crate) reasoning_included: bool,
    pub(crate) counters: Counters,
    pub(crate) retained: RetainedTexts,
    pub(crate) recorder: Recorder,
    /// `session_meta`, until it is written.
    pub(crate) meta: Option<Value>,
    /// `thread_settings_applied` was written since the thread's context was recorded.
    pub(crate) settings_recorded: bool,
    pub(crate) history_initialization: &'static str,
    /// The next item is attributed: the first of the thread, and of a resume.
    attribution_due: bool,
    /// What the model was told of its budget in this window.
    pub(crate) said: Said,
    /// What was used of the session's budget.
    pub(crate) budget_use: BudgetUse,
    /// The model asked for a new window.
    pub(crate) new_window_wished: bool,
    /// Model of the newest turn whose context was recorded.
    pub(crate) previous_model: Option<Model>,
    /// Model that wrote the base instructions of a resumed thread, where the model in force has
    /// others.
    pub(crate) base_model: Option<Model>,
    /// Model that the context was last told of.
    pub(crate) told_model: Option<Model>,
    /// Settings that wait in the running turn.
    pub(crate) waiting: Waiting,
    /// Input tokens of the first response of the window.
    pub(crate) prefill: Option<i64>,
    pub(crate) base_id: String,
    /// Newest turn that a user began.
    pub(crate) attributed_turn: Option<String>,
    /// The thread began with supplied items.
    pub(crate) supplied: bool,
    /// Turn whose context a compaction has already recorded.
    pub(crate) context_turn: Option<String>,
    /// What the client says about the running turn.
    pub(crate) remarks: Remarks,
    /// Client context of the newest input by name, each with the id of its item.
    pub(crate) client_context: Vec<(ClientContext, String)>,
    /// Sources for which hooks at the start wait.
    pub(crate) starts: VecDeque<&'static str>,
    /// The thread's WebSocket.
    pub(crate) socket: Socket,
    /// A WebSocket failed for good: the thread asks over HTTP.
    pub(crate) fell_back: bool,
}

impl Session {
    /// A new thread; nothing is written before its first turn.
    pub fn new(profile: Profile, settings: Settings, ports: Ports) -> Self {
        let thread = ports.ids.uuid();
        let window = ports.ids.uuid();
        let session = Self::with_ids(profile, settings, ports, thread, window);
        session.warn_of_service_tier();
        session
    }

    fn with_ids(
        profile: Profile,
        mut settings: Settings,
        ports: Ports,
        thread: String,
        window: String,
    ) -> Self {
        let base = settings.base_text().to_owned();
        settings.thread_base.get_or_insert(base);
        let paginated = settings.paginated.unwrap_or(profile.paginated) && profile.usage_records;
        let recorder = Recorder::new(
            Rc::clone(&ports.store),
            Rc::clone(&ports.clock),
            paginated.then_some(0),
            &profile,
        );
        let base_id = base_item_id(&thread, settings.base_text());
        // What a thread is opened with, not what its first turn asks for.
        let meta = rollout::session_meta(
            &settings,
            &profile,
            &thread,
            &window,
            &rollout::timestamp(ports.clock.now_ms()),
            paginated,
            &Origin::default(),
        );
        let base_model = profile.wide_metadata.then(|| settings.model.clone());
        let session = Self {
            profile,
            loaded: settings.clone(),
            settings,
            ports,
            inbox: Rc::new(Inbox::default()),
            root: thread.clone(),
            thread,
            window: Window {
                number: 0,
                id: window.clone(),
                first: window,
                previous: None,
            },
            origin: Origin::default(),
            history: History::default(),
            baseline: None,
            info: None,
            rate_limits: None,
            thread_usage: Usage::default(),
            turn_usage: Usage::default(),
            latest_usage_record: None,
            reasoning_included: false,
            counters: Counters::default(),
            retained: RetainedTexts::default(),
            recorder,
            meta: Some(meta),
            settings_recorded: false,
            history_initialization: "new",
            attribution_due: true,
            said: Said::default(),
            budget_use: BudgetUse::default(),
            new_window_wished: false,
            previous_model: None,
            base_model,
            told_model: None,
            waiting: Waiting::default(),
            prefill: None,
            base_id,
            attributed_turn: None,
            supplied: false,
            context_turn: None,
            remarks: Remarks::default(),
            client_context: Vec::new(),
            starts: VecDeque::from(["startup"]),
            socket: Socket::default(),
            fell_back: false,
        };
        session.warn_of_matchers();
        session
    }

    /// Where a client sends steers and interrupts.
    pub fn inbox(&self) -> Rc<Inbox> {
        Rc::clone(&self.inbox)
    }

    /// Thread id.
    pub fn thread_id(&self) -> &str {
        &self.thread
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings that it has, and those that it was loaded with.
    pub fn in_force(&self) -> InForce {
        InForce {
            now: self.settings.clone(),
            loaded: self.loaded.clone(),
        }
    }

    /// The live history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Changes settings from the next turn on. What a client asks for is recorded, also where it
    /// holds already (`turn.settings.recorded`).
    pub fn update_settings(&mut self, change: Change) {
        let asked = !change.is_empty();
        let before = self.settings.clone();
        change.apply(&mut self.settings);
        self.count_environment(&before);
        if asked && self.meta.is_none() {
            self.record_settings();
        }
    }

    /// A new environment takes a number of the batches of injected items (rollout.injected.settings).
    fn count_environment(&mut self, before: &Settings) {
        let is_new = !self.settings.same_environment(before);
        self.counters.injected += u64::from(is_new && self.profile.wide_metadata);
    }

    /// Sets what the client says about the next turn.
    pub fn remark(&mut self, remarks: Remarks) {
        self.remarks = remarks;
    }

    /// Writes `session_meta` once.
    pub(crate) fn begin(&mut self) {
        if let Some(meta) = self.meta.take() {
            self.recorder.line("session_meta", meta, None);
        }
    }

    pub(crate) fn record_settings(&mut self) {
        self.settings_recorded = true;
        self.record_settings_of(&self.thread_settings().clone());
    }

    pub(crate) fn record_settings_of(&mut self, settings: &Settings) {
        let event = rollout::thread_settings(settings, &self.profile, &self.thread);
        self.recorder.event(event);
    }

    /// Turn whose context is already recorded.
    pub(crate) fn baseline_turn(&self) -> Option<&String> {
        self.context_turn.as_ref()
    }

    pub(crate) fn take_order(&mut self) -> u64 {
        self.inbox.take_order()
    }

    /// Gives id, passthrough and sequence numbers. `timed` adds `create_time`.
    pub(crate) fn prepare(&mut self, item: &mut Item, turn: &str, timed: bool) {
        if self.profile.item_ids {
            item.give_id(|prefix| format!("{prefix}{}", self.ports.ids.uuid()));
        }
        let mut passthrough = Map::new();
        passthrough.insert("turn_id".to_owned(), json!(turn));
        if self.profile.wide_metadata {
            if timed {
                let seconds = self.ports.clock.now_ms() as f64 / 1000.0;
                passthrough.insert("create_time".to_owned(), json!(seconds));
            }
            passthrough.extend(std::mem::take(&mut item.passthrough));
        }
        if item.kind() != "additional_tools" {
            item.passthrough = passthrough;
        }
        self.counters.number_item();
        item.meta.history_sequence = self.counters.history;
        item.meta.sampled_through = self.counters.sampled;
        item.meta.supplied_thread = self.supplied;
        item.meta.mcp_attribution = std::mem::take(&mut self.attribution_due);
    }

    /// Writes the record, then lets the item into the history, cut where outputs are cut.
    pub(crate) fn commit(&mut self, mut item: Item) {
        if self.profile.raises_live_detail && self.settings.model.image_detail_original {
            images::raise_detail(&mut item);
        }
        let failed = images::prepare(&mut item);
        images::mark_failed(&mut item, &failed);
        // 0.144.6 does not write additional tools down.
        if item.kind() != "additional_tools" || self.profile.records_tool_items {
            self.recorder.item(&item, &self.profile);
        }
        if item.reaches_history() {
            cut_output(&mut item, self.settings.truncation(), &self.profile);
            self.history.push(item);
        }
    }

    /// Lets an item into the history that is already written down.
    fn load(&mut self, mut item: Item) {
        admit(&mut item, self.settings.truncation(), &self.profile);
        self.history.push(item);
    }

    /// Records the context of a turn and its settings.
    pub(crate) fn record_context(&mut self, turn: &str) {
        self.tell_context(turn);
        self.record_turn_context(turn);
        if self.profile.wide_metadata && !self.settings_recorded {
            self.record_settings();
        }
    }

    /// Takes back what a whole world state said of tools that are not there.
    pub(crate) fn settle_world_state(&mut self) {
        let state = context::world_state(&self.settings, &self.profile);
        let Some(baseline) = &mut self.baseline else {
            return;
        };
        if baseline.state.get("top_level_tools") == Some(&json!({})) {
            let patch = context::patch(&baseline.state, &state);
            baseline.state = state;
            self.record_world_state(false, &patch);
        }
    }

    pub(crate) fn record_world_state(&mut self, full: bool, state: &Map<String, Value>) {
        self.recorder
            .line("world_state", json!({"full": full, "state": state}), None);
    }

    /// Ids that the context names where there is a token budget.
    pub(crate) fn window_ids(&self) -> WindowIds<'_> {
        WindowIds {
            thread: &self.thread,
            window: &self.window,
        }
    }

    /// The model in force, if the context was last told of another one.
    pub(crate) fn model_not_told(&self) -> Option<&Model> {
        let told = self.told_model.as_ref()?;
        self.switched_from(told)
    }

    /// The model in force, if the newest turn context has another one, or without one the base
    /// instructions, and these are others.
    pub(crate) fn switched_model(&self) -> Option<&Model> {
        let now = &self.settings.model;
        let base = self.base_model.as_ref();
        let base = base.filter(|base| base.base_instructions != now.base_instructions);
        self.switched_from(self.previous_model.as_ref().or(base)?)
    }

    /// The model in force, if it is another one that has anything to say.
    fn switched_from(&self, previous: &Model) -> Option<&Model> {
        let now = &self.settings.model;
        (previous.slug != now.slug && !now.base_instructions.is_empty()).then_some(now)
    }

    pub(crate) fn record_turn_context(&mut self, turn: &str) {
        self.previous_model = Some(self.turn_settings().model.clone());
        self.told_model = Some(self.settings.model.clone());
        let payload = rollout::turn_context(self.turn_settings(), &self.profile, turn);
        self.recorder.line("turn_context", payload, None);
    }

    /// Writes `token_count` and tells the client, if there is anything to tell.
    pub(crate) fn emit_token_count(&mut self) {
        let limits = self.rate_limits.as_ref();
        let limits = limits.map_or(Value::Null, |limits| limits.record(&self.profile));
        let record = rollout::token_count(self.info.as_ref(), &limits, &self.profile);
        self.recorder.event(record);
        self.report_usage();
    }

    /// Tells the client the counts, as the opening of a thread that its process holds does.
    pub fn report_usage(&self) {
        if let Some(info) = &self.info {
            self.ports.observer.event(Event::TokenUsage {
                total: info.total.client(&self.profile),
                last: info.last.client(&self.profile),
                window: info.window,
            });
        }
    }

    /// Takes the usage of a finished response; writes `token_usage_record` where it exists.
    /// `window` is that of the model that was asked.
    pub(crate) fn record_usage(
        &mut self,
        usage: Option<Usage>,
        window: Option<i64>,
        turn: &str,
        response_id: &str,
    ) {
        let Some(usage) = usage else { return };
        let info = self.info.get_or_insert_with(TokenInfo::default);
        info.total.add(usage);
        if self.profile.plants(Planted::UsageDoubled) {
            info.total.add(usage);
        }
        info.last = usage;
        // A lite model is asked for the reasoning of all turns.
        let lite = context::lite_in_history(&self.settings, &self.profile);
        info.includes_reasoning =
            Some(self.reasoning_included || lite).filter(|_| self.profile.wide_metadata);
        // A model without a window leaves the one before in the records.
        info.window = window.or(info.window);
        self.history.mark_covered();
        if self.prefill.is_none() {
            self.prefill = Some(usage.input);
        }
        self.record_thread_usage(usage, turn, response_id);
    }

    /// Adds a usage to turn and thread; writes `token_usage_record` where it exists.
    pub(crate) fn record_thread_usage(&mut self, usage: Usage, turn: &str, response_id: &str) {
        self.turn_usage.add(usage);
        self.thread_usage.add(usage);
        self.spend(usage);
        if self.profile.usage_records {
            let record = json!({
                "thread_id": self.thread,
                "turn_id": turn,
                "session_id": self.root,
                "root_turn_id": turn,
                "response_id": response_id,
                "usage": usage.record(&self.profile),
                "turn_token_usage": self.turn_usage.record(&self.profile),
                "thread_token_usage": self.thread_usage.record(&self.profile),
            });
            self.latest_usage_record = Some(record.clone());
            self.recorder.line("token_usage_record", record, None);
        }
    }

    /// Tokens of the context: server usage and the local estimate (compaction.md §2.1).
    pub fn total_tokens(&self) -> i64 {
        let Some(info) = &self.info else {
            return if self.profile.estimate_without_usage {
                self.history.estimate_all(&self.profile)
            } else {
                self.history.estimate_uncovered(&self.profile)
            };
        };
        let reasoning = if info.includes_reasoning == Some(true) || self.reasoning_included {
            0
        } else {
            self.history.estimate_old_reasoning(&self.profile)
        };
        if self.profile.plants(Planted::EstimateIgnored) {
            return info.last.total;
        }
        let behind = self.history.estimate_uncovered(&self.profile) + reasoning;
        info.last.total.saturating_add(behind)
    }
}

/// Item id of the base instructions: stable for thread and text.
fn base_item_id(thread: &str, text: &str) -> String {
    let uuid = uuid::Uuid::new_v5(
        &uuid::Uuid::NAMESPACE_OID,
        format!("{thread}{text}").as_bytes(),
    );
    format!("msg_{uuid}")
}
