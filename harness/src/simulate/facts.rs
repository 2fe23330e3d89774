//! What a plan holds that explains a broken law: the client or the provider did it, or a rule says so.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::scenario::plan::{
    Action, Answers, Ending, Overrides, Plan, PlanReply, ReplyBody, ResumeStep, StepAction,
};

/// Facts of a plan, each a possible cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Facts {
    /// An item id or a call id was given twice, by the provider or the client.
    pub given_twice: bool,
    /// Items were given that only an engine makes: outputs, messages of the user, checkpoints.
    pub foreign: bool,
    /// The storage failed, or the process was killed while it wrote.
    pub storage: bool,
    /// A compaction was answered with something else than one summary.
    pub odd_summary: bool,
    /// The client did something while a compaction ran.
    pub acts_in_compaction: bool,
    /// A turn or a compaction was interrupted.
    pub interrupts: bool,
    /// The client sent more input to a running turn.
    pub steers: bool,
    /// A fork, a rollback or a revert.
    pub ways_back: bool,
    /// The model changed.
    pub switches: bool,
    /// A text of the client begins as one of the engine's own.
    pub contextual: bool,
    /// A compaction is a new window that no model is asked for.
    pub token_budget: bool,
    /// The provider is asked over a WebSocket.
    pub websockets: bool,
    /// Images were given, by the client or a tool.
    pub images: bool,
    /// A request was too long for the window.
    pub window_full: bool,
    /// A compaction was asked for before a turn.
    pub compacts_first: bool,
    /// Hooks run around compactions, or at the start.
    pub hooks: bool,
    /// The client asked for a sandbox or an approval policy.
    pub permissions: bool,
}

/// Code of a request that is too long for the window.
const TOO_LONG: &str = "context_length_exceeded";
/// Kinds of items that a provider gives.
const GIVEN: [&str; 4] = ["message", "function_call", "reasoning", "compaction"];

impl Facts {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut facts = Self::default();
        let mut ids = BTreeSet::new();
        let features = &plan.config.features;
        facts.token_budget = features.iter().any(|(name, _)| name == "token_budget");
        facts.websockets = plan.config.websockets;
        facts.hooks = !plan.config.hooks.is_empty();
        for step in &plan.steps {
            match &step.action {
                StepAction::User(user) => {
                    facts.of_overrides(&user.overrides);
                    facts.of_input(&user.input);
                }
                StepAction::Settings(wanted) => facts.of_overrides(wanted),
                StepAction::Inject(items) | StepAction::Resume(ResumeStep::History(items)) => {
                    facts.foreign = true;
                    for item in items {
                        facts.of_item(item, &mut ids);
                    }
                }
                StepAction::Fork(_) | StepAction::Rollback(_) | StepAction::Revert(_) => {
                    facts.ways_back = true;
                }
                StepAction::Storage(_) | StepAction::EditRollout(_) => facts.storage = true,
                StepAction::Compact | StepAction::Stop(_) | StepAction::Resume(_) => {}
            }
            for reply in &step.replies {
                facts.of_reply(reply, &mut ids);
            }
        }
        facts
    }

    fn of_overrides(&mut self, wanted: &Overrides) {
        self.switches |= wanted.model.is_some();
        self.permissions |= wanted.sandbox.is_some() || wanted.approval.is_some();
    }

    fn of_input(&mut self, parts: &[Value]) {
        self.images |= parts.iter().any(|part| part["type"] == "image");
        let mut texts = parts.iter().filter_map(|part| part["text"].as_str());
        self.contextual |= texts.any(|text| text.trim_start().starts_with('<'));
    }

    fn of_item(&mut self, item: &Value, ids: &mut BTreeSet<String>) {
        for key in ["id", "call_id"] {
            if let Some(id) = item[key].as_str() {
                self.given_twice |= !ids.insert(format!("{key} {id}"));
            }
        }
        let kind = item["type"].as_str().unwrap_or_default();
        let is_message = kind == "message";
        self.foreign |= !GIVEN.contains(&kind) || (is_message && item["role"] != "assistant");
    }

    fn of_reply(&mut self, reply: &PlanReply, ids: &mut BTreeSet<String>) {
        let asks = matches!(reply.answers, Answers::Compaction { .. });
        self.compacts_first |= matches!(&reply.answers, Answers::Compaction { phase, .. }
            if phase.as_deref() == Some("pre_turn"));
        let gate = reply.gate.iter().flat_map(|gate| &gate.actions);
        let tools = reply.tool_answers.iter();
        let mut contents = tools.clone().flat_map(|tool| &tool.content);
        self.images |= contents.any(|part| part["type"] == "inputImage");
        let actions = gate.chain(tools.flat_map(|tool| &tool.while_running));
        for action in actions {
            self.acts_in_compaction |= asks;
            match action {
                Action::Steer(parts) => {
                    self.steers = true;
                    self.of_input(parts);
                }
                Action::Interrupt => self.interrupts = true,
                Action::Settings(wanted) | Action::TurnSettings(wanted) => {
                    self.of_overrides(wanted);
                }
            }
        }
        let (events, ending) = match &reply.body {
            ReplyBody::Stream { events, ending, .. } => (events, ending),
            ReplyBody::Http { body, .. } => {
                self.odd_summary |= asks;
                self.window_full |= body.contains(TOO_LONG);
                return;
            }
            ReplyBody::DropConnection => {
                self.odd_summary |= asks;
                return;
            }
        };
        let code = events
            .iter()
            .map(|event| &event["response"]["error"]["code"]);
        self.window_full |= code.into_iter().any(|code| code == TOO_LONG);
        let done = |event: &&Value| event["type"] == "response.output_item.done";
        let items = events.iter().filter(done).map(|event| &event["item"]);
        items.clone().for_each(|item| self.of_item(item, ids));
        let is_whole = *ending == Ending::Complete
            && events
                .last()
                .is_some_and(|last| last["type"] == "response.completed");
        let is_summary = |item: &&Value| {
            let text = item["content"][0]["text"].as_str().unwrap_or_default();
            item["type"] == "compaction" || !text.trim().is_empty()
        };
        let summaries = items.clone().filter(is_summary).count();
        self.odd_summary |= asks && (!is_whole || summaries != 1 || items.count() != 1);
    }
}
