//! A session that is drawn while it runs: what the client does next, and what it is answered.
//!
//! The engine is asked nothing but how its turns ended, so a session is the same for the same draws
//! and the same engine. What was drawn is a scenario, and plays again as one.

use std::cell::RefCell;

use mock_provider::journal::Request;
use mock_provider::script::Answers;
use semver::Version;
use serde_json::{Map, Value, json};

use super::dice::Dice;
use super::head::{self, Head, OLDEST};
use super::reach::Reach;
use super::swarm::{ExtraKind, StepKind, Swarm};
use crate::driver::engine::play::{Player, SoFar};
use crate::fuzz;
use crate::golden::versions::VERSIONS;
use crate::scenario::parts::Parts;
use crate::scenario::plan::{Plan, PlanReply, PlanStep, TurnStatus};

/// Bytes that injected items are drawn from.
const INJECTED_BYTES: usize = 60;
/// A storage fault comes at one of so many appends.
const APPENDS: u64 = 12;

/// What is drawn, and what is known of it.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) dice: Dice,
    pub(super) swarm: Swarm,
    pub(super) head: Head,
    pub(super) version: Version,
    /// Replies of the running step.
    pub(super) replies: Vec<Value>,
    family: usize,
    parts: Parts,
    steps: Vec<Value>,
    requests: usize,
    /// Draws before each step, and at the end.
    draws_by_step: Vec<u64>,
    /// The folder changed.
    moved: bool,
    /// Images so far.
    images: u64,
    /// Steps that have to come next, last one first.
    due: Vec<Value>,
    /// The storage fails, or will.
    failing: bool,
    /// It failed, so that turns may be gone.
    failed: bool,
    /// What could not be made: a fault of the generator.
    broken: Option<String>,
}

/// A session on its way.
#[derive(Debug)]
pub(super) struct Session(RefCell<Draft>);

impl Session {
    /// Draws the options and the settings.
    pub(super) fn new(
        mut dice: Dice,
        family: usize,
        reach: Reach,
        seed: &str,
    ) -> Result<(Self, Plan), String> {
        let version: Version = VERSIONS[family]
            .real
            .parse()
            .map_err(|error| format!("version: {error}"))?;
        let swarm = Swarm::draw(&mut dice, reach);
        let head = head::draw(&mut dice, family, reach, seed);
        let parts = Parts::new(version.clone());
        let plan = parts.head(&head.scenario, seed)?;
        let draft = Draft {
            dice,
            swarm,
            head,
            version,
            replies: Vec::new(),
            family,
            parts,
            steps: Vec::new(),
            requests: 0,
            draws_by_step: Vec::new(),
            moved: false,
            images: 0,
            due: Vec::new(),
            failing: false,
            failed: false,
            broken: None,
        };
        Ok((Self(RefCell::new(draft)), plan))
    }

    /// The drawn options.
    pub(super) fn swarm(&self) -> Swarm {
        self.0.borrow().swarm.clone()
    }

    /// Draws so far.
    pub(super) fn draws(&self) -> u64 {
        self.0.borrow().dice.count()
    }

    /// The scenario that was played, or what the generator could not make.
    pub(super) fn scenario(&self) -> Result<Value, String> {
        let draft = self.0.borrow();
        if let Some(broken) = &draft.broken {
            return Err(broken.clone());
        }
        let mut scenario = draft.head.scenario.clone();
        let mut steps = draft.steps.clone();
        if let Some(last) = steps.last_mut()
            && !draft.replies.is_empty()
        {
            // The engine did not come to the end of its step.
            last["replies"] = Value::Array(draft.replies.clone());
        }
        scenario["steps"] = Value::Array(steps);
        Ok(scenario)
    }

    /// Draws before each step, and at the end.
    pub(super) fn draws_by_step(&self) -> Vec<u64> {
        self.0.borrow().draws_by_step.clone()
    }
}

impl Player for Session {
    fn step(&self, so_far: &SoFar) -> Option<PlanStep> {
        let draft = &mut *self.0.borrow_mut();
        draft.close(so_far);
        draft.draws_by_step.push(draft.dice.count());
        if draft.broken.is_some() {
            return None;
        }
        let step = draft.next(so_far)?;
        let number = draft.steps.len() + 1;
        match Parts::step(&step, number) {
            Ok(made) => {
                draft.steps.push(step);
                Some(made)
            }
            Err(why) => {
                draft.broken = Some(why);
                None
            }
        }
    }

    fn reply(&self, kind: &Answers, request: &Request) -> Option<PlanReply> {
        let draft = &mut *self.0.borrow_mut();
        let reply = draft.reply(kind, request.body.len())?;
        let (step, number) = (draft.steps.len(), draft.replies.len() + 1);
        match draft.parts.reply(&reply, step, number) {
            Ok(made) => {
                draft.requests += 1;
                draft.replies.push(reply);
                Some(made)
            }
            Err(why) => {
                draft.broken = Some(why);
                None
            }
        }
    }
}

impl Draft {
    /// Writes down what came of the last step.
    fn close(&mut self, so_far: &SoFar) {
        let Some(last) = self.steps.last_mut() else {
            return;
        };
        let replies = std::mem::take(&mut self.replies);
        if !replies.is_empty() {
            last["replies"] = Value::Array(replies);
        }
        let ended = so_far.ended.as_ref().map(|ends| ends.status);
        let ends = match ended {
            Some(TurnStatus::Failed) => "failed",
            Some(TurnStatus::Interrupted) => "interrupted",
            Some(TurnStatus::Completed) | None => return,
        };
        last["ends"] = json!(ends);
    }

    /// What the client does next.
    fn next(&mut self, so_far: &SoFar) -> Option<Value> {
        if so_far.refused {
            // A thread that is not resumed is gone.
            return None;
        }
        if so_far.killed && self.failing {
            self.failing = false;
            self.due.clear();
            self.due.push(json!({"resume": {"by": "id"}}));
            return Some(json!({"storage": {"works": true}}));
        }
        if let Some(due) = self.due.pop() {
            return Some(due);
        }
        if self.requests >= self.swarm.requests || self.steps.len() >= self.swarm.steps {
            return None;
        }
        let kind = self.swarm.step.pick(&mut self.dice);
        let step = self.drawn(kind, so_far.turns as u64);
        Some(step.unwrap_or_else(|| self.user()))
    }

    /// A step of a kind; `None` where the thread is not ready for it.
    fn drawn(&mut self, kind: StepKind, turns: u64) -> Option<Value> {
        // Nothing is on disk before the first turn.
        let begun = turns > 0 && !self.failing;
        match kind {
            StepKind::User => None,
            StepKind::Compact => begun.then(|| json!({"compact": true})),
            StepKind::Settings => Some(json!({"settings": self.settings()})),
            // Settings and items are written down by two tasks of a binary.
            StepKind::Inject if self.set_just_now() => None,
            StepKind::Inject => {
                let bytes = self.dice.bytes(INJECTED_BYTES);
                let items = fuzz::items_of(&bytes).into_iter().take(3);
                let items = items.filter(|item| fuzz::parses(item, &self.version));
                let items: Vec<Value> = items.collect();
                (!items.is_empty()).then(|| json!({"inject": items}))
            }
            StepKind::Restart => begun.then(|| {
                let by = *self.dice.pick(&["id", "path"]);
                self.due.push(json!({"resume": {"by": by}}));
                let stop = *self.dice.pick(&["eof", "term", "kill"]);
                json!({"stop": stop})
            }),
            StepKind::ResumeLive => begun.then(|| json!({"resume": {"by": "id"}})),
            // 0.144.6 forks with the folder that its database knows by then.
            StepKind::Fork if self.family == OLDEST && self.moved => None,
            StepKind::Fork => begun.then(|| {
                let turn = 1 + self.dice.below(turns);
                match self.dice.below(3) {
                    _ if self.failed => json!({"fork": {}}),
                    1 => json!({"fork": {"through_turn": turn}}),
                    2 if self.family != OLDEST => json!({"fork": {"before_turn": turn}}),
                    _ => json!({"fork": {}}),
                }
            }),
            StepKind::Back if !begun || self.failed => None,
            StepKind::Back if self.family == OLDEST => {
                let turns = 1 + self.dice.below(turns);
                Some(json!({"rollback": {"turns": turns}}))
            }
            StepKind::Back => self.head.ordinals.then(|| {
                let turn = 1 + self.dice.below(turns);
                json!({"revert": {"before_turn": turn}})
            }),
            StepKind::Storage => Some(self.storage()),
        }
    }

    /// The last step changed settings.
    fn set_just_now(&self) -> bool {
        self.steps
            .last()
            .is_some_and(|step| step.get("settings").is_some())
    }

    fn storage(&mut self) -> Value {
        if self.failing {
            self.failing = false;
            return json!({"storage": {"works": true}});
        }
        self.failing = true;
        self.failed = true;
        let append = 1 + self.dice.below(APPENDS);
        let mut storage = Map::new();
        match self.dice.below(3) {
            0 => drop(storage.insert("kill_at_append".to_owned(), json!(append))),
            1 => drop(storage.insert("fail_append".to_owned(), json!(append))),
            _ => {
                storage.insert("fail_append".to_owned(), json!(append));
                storage.insert("for_good".to_owned(), json!(true));
            }
        }
        if self.dice.below(2) == 1 {
            storage.insert("writes".to_owned(), json!("half"));
        }
        json!({"storage": storage})
    }

    /// Size of an image that there was not before.
    pub(super) fn size(&mut self) -> String {
        self.images += 1;
        format!("{}x{}", self.images, 1 + self.dice.below(40))
    }

    /// Settings of a thread.
    pub(super) fn settings(&mut self) -> Value {
        let (key, value) = self.setting();
        json!({key: value})
    }

    fn setting(&mut self) -> (&'static str, Value) {
        let kind = self.dice.below(7);
        self.moved |= kind == 2;
        match kind {
            0 => ("effort", json!(*self.dice.pick(&["low", "high"]))),
            1 => (
                "summary",
                json!(*self.dice.pick(&["concise", "none", "auto"])),
            ),
            2 => ("cwd", json!(*self.dice.pick(&["sub", "far"]))),
            3 => {
                let modes = ["read-only", "workspace-write", "danger-full-access"];
                ("sandbox", json!(*self.dice.pick(&modes)))
            }
            4 => ("approval", json!(*self.dice.pick(&["never", "on-request"]))),
            5 => (
                "service_tier",
                json!(*self.dice.pick(&["flex", "priority"])),
            ),
            _ => ("model", json!(*self.dice.pick(&["main", "other"]))),
        }
    }

    fn user(&mut self) -> Value {
        let mut step = Map::new();
        let extra = self.swarm.extra.pick(&mut self.dice);
        self.moved |= extra == ExtraKind::Cwd;
        let text = self.dice.text("Do");
        let input = match extra {
            ExtraKind::Image => {
                let size = self.size();
                json!([{"text": text}, {"image": {"png": size}}])
            }
            ExtraKind::Long => json!({"repeat": "word ", "bytes": 500 + self.dice.below(9000)}),
            ExtraKind::Contextual => {
                json!(format!("<environment_context>{text}</environment_context>"))
            }
            _ => json!(text),
        };
        step.insert("user".to_owned(), input);
        let mut set = |key: &str, value: Value| drop(step.insert(key.to_owned(), value));
        let dice = &mut self.dice;
        match extra {
            ExtraKind::Effort => set("effort", json!(*dice.pick(&["low", "high"]))),
            ExtraKind::Summary => set("summary", json!(*dice.pick(&["concise", "none"]))),
            ExtraKind::Model => set("model", json!(*dice.pick(&["other", "main"]))),
            ExtraKind::Cwd => set("cwd", json!(*dice.pick(&["sub", "far"]))),
            ExtraKind::Sandbox => {
                let modes = ["read-only", "workspace-write", "danger-full-access"];
                set("sandbox", json!(*dice.pick(&modes)));
            }
            ExtraKind::Approval => set("approval", json!(*dice.pick(&["on-request", "never"]))),
            ExtraKind::Tier => set("service_tier", json!(*dice.pick(&["flex", "priority"]))),
            ExtraKind::Schema => set("output_schema", json!({"type": "object"})),
            ExtraKind::Metadata => set("client_metadata", json!({"origin": dice.text("From")})),
            ExtraKind::Context => {
                let trust = *dice.pick(&["untrusted", "application"]);
                let text = format!("File {}.", dice.below(3));
                set("client_context", json!({"ide": {trust: text}}));
            }
            ExtraKind::None | ExtraKind::Image | ExtraKind::Long | ExtraKind::Contextual => {}
        }
        Value::Object(step)
    }
}
