//! A session as its laws see it: each request beside the step and the reply that belong to it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::facts::Facts;
use crate::check::{input, thread, window_number};
use crate::mask::{Masked, MaskedRequest};
use crate::recording::{Finding, Recording};
use crate::scenario::plan::{
    Action, Answers, Ending, Plan, PlanReply, PlanStep, ReplyBody, StepAction, TurnStatus,
};

/// A request with what it was answered.
pub(super) struct Asked<'a> {
    /// Its number from 1.
    pub number: usize,
    pub request: &'a MaskedRequest,
    /// Place of its step in the plan.
    pub step: usize,
    pub reply: &'a PlanReply,
}

impl Asked<'_> {
    pub(super) fn is_turn(&self) -> bool {
        self.request.kind == "turn" && self.reply.answers == Answers::Turn
    }

    /// Name of the model that is asked.
    pub(super) fn model(&self) -> &str {
        let model = self.request.body["model"].as_str().unwrap_or_default();
        let name = model.strip_prefix("<model:");
        name.and_then(|name| name.strip_suffix('>'))
            .unwrap_or(model)
    }

    pub(super) fn input(&self) -> &[Value] {
        input(self.request)
    }

    /// Thread and number of its window.
    pub(super) fn window(&self) -> Option<(&str, u64)> {
        Some((thread(self.request)?, window_number(self.request)?))
    }

    /// Tokens that its answer counts; `None` where it was not whole, or counts none. What the client
    /// does at a gate may drop the rest of the answer.
    pub(super) fn usage(&self) -> Option<i64> {
        let ReplyBody::Stream { events, ending, .. } = &self.reply.body else {
            return None;
        };
        let whole = *ending == Ending::Complete && self.reply.gate.is_none();
        let last = events
            .last()
            .filter(|last| whole && last["type"] == "response.completed")?;
        last["response"]["usage"]["total_tokens"].as_i64()
    }
}

/// A session.
pub(super) struct View<'a> {
    pub plan: &'a Plan,
    pub masked: &'a Masked,
    pub facts: Facts,
    /// Requests whose reply is in the plan, in order.
    pub asked: Vec<Asked<'a>>,
}

impl<'a> View<'a> {
    pub(super) fn of(plan: &'a Plan, recording: &'a Recording, masked: &'a Masked) -> Self {
        let mut replies = BTreeMap::new();
        for (step, PlanStep { replies: list, .. }) in plan.steps.iter().enumerate() {
            for reply in list {
                replies.insert(reply.label.as_str(), (step, reply));
            }
        }
        let both = recording.journal.iter().zip(&masked.wire).enumerate();
        let asked = both.filter_map(|(index, (exchange, request))| {
            let (step, reply) = *replies.get(exchange.reply.as_deref()?)?;
            Some(Asked {
                number: index + 1,
                request,
                step,
                reply,
            })
        });
        Self {
            plan,
            masked,
            facts: Facts::of(plan),
            asked: asked.collect(),
        }
    }

    /// Turn requests and the next request of any kind, each pair in one window of a thread.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = (&Asked<'a>, &Asked<'a>)> {
        let pairs = self.asked.iter().zip(self.asked.iter().skip(1));
        pairs.filter(|(a, b)| a.window().is_some() && a.window() == b.window())
    }

    /// Steps from one to another, both included.
    pub(super) fn steps(&self, from: usize, to: usize) -> &[PlanStep] {
        self.plan.steps.get(from..=to).unwrap_or_default()
    }
}

/// What the client does while a step runs.
pub(super) fn actions(step: &PlanStep) -> impl Iterator<Item = &Action> {
    step.replies.iter().flat_map(acts)
}

/// What the client does while a reply is sent, and its calls run.
pub(super) fn acts(reply: &PlanReply) -> impl Iterator<Item = &Action> {
    let gate = reply.gate.iter().flat_map(|gate| &gate.actions);
    let tools = reply.tool_answers.iter();
    gate.chain(tools.flat_map(|tool| &tool.while_running))
}

/// Whether a step can change the model of the thread.
pub(super) fn switches(step: &PlanStep) -> bool {
    let own = match &step.action {
        StepAction::User(user) => user.overrides.model.is_some(),
        StepAction::Settings(wanted) => wanted.model.is_some(),
        StepAction::Fork(_) | StepAction::Rollback(_) | StepAction::Revert(_) => true,
        StepAction::Compact
        | StepAction::Inject(_)
        | StepAction::Stop(_)
        | StepAction::Resume(_)
        | StepAction::EditRollout(_)
        | StepAction::Storage(_) => false,
    };
    own || actions(step).any(|action| match action {
        Action::Settings(wanted) | Action::TurnSettings(wanted) => wanted.model.is_some(),
        Action::Steer(_) | Action::Interrupt => false,
    })
}

/// How the turn of a step ended.
pub(super) fn ended(step: &PlanStep) -> TurnStatus {
    let ends = step.ends.as_ref();
    ends.map_or(TurnStatus::Completed, |ends| ends.status)
}

/// Texts of a user's message.
pub(super) fn user_texts(item: &Value) -> Option<Vec<&str>> {
    let is_user = item["type"] == "message" && item["role"] == "user";
    is_user.then(|| crate::check::texts(item).collect())
}

/// A finding of a law.
pub(super) fn finding(id: &str, what: &str, law: &str) -> Finding {
    Finding {
        id: format!("law.{id}"),
        message: format!("{what}\n    law: {law}"),
    }
}
