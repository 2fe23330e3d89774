//! Plays one plan on one thread of a process, step by step.
//!
//! It synchronises only on responses, `item/tool/call` and `turn/completed`; every wait has a named
//! deadline. What happens inside a turn is in `turn.rs`.

#[cfg(test)]
pub(crate) mod rewritten;
mod settle;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mock_provider::case::CaseHandle;
use mock_provider::journal::Entry;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::capture;
use super::home::{Family, INSTALLATION_ID, slug, thread_config};
use super::pool::{Pool, Seat, base_url};
use super::process::CodexProcess;
use super::rpc::{Incoming, RpcError};
use super::turn::Turn;
use super::wire::dynamic_tools;
use crate::driver::script::{problem_finding, scripted};
use crate::driver::{NoVerdict, Outcome};
use crate::recording::{ClientEvent, Edited, Finding, Places, Recording, RolloutFile, Watch};
use crate::rollout_edit::{self, Edit};
use crate::scenario::plan::{
    ForkPoint, Overrides, Plan, PlanStep, ResumeStep, StepAction, StopKind, TurnStatus, UserStep,
};
use crate::scenario::quoted;
use crate::texts::Calibration;

/// Longest wait for the prewarm of a thread that was loaded.
const EARLY_MAX: Duration = Duration::from_secs(10);

/// How often a revert is asked for again while the file is held, and the pause between.
const FREE_TRIES_MAX: usize = 40;
const FREE_PAUSE: Duration = Duration::from_millis(50);
/// What the refusal says then.
const HELD: &str = "already has an active writer";

/// What a session is made of.
pub(crate) struct SessionParts<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) plan: &'a Plan,
    pub(crate) case: CaseHandle,
    pub(crate) seat: Arc<Seat>,
    pub(crate) workspace: PathBuf,
    /// The process belongs to this case alone.
    pub(crate) own: bool,
}

/// One case while it runs.
pub(crate) struct Session<'a> {
    pool: &'a Pool,
    pub(super) plan: &'a Plan,
    pub(super) case: CaseHandle,
    pub(super) seat: Arc<Seat>,
    workspace: PathBuf,
    own: bool,
    stopped: bool,
    /// A model that the settings were changed to, and how often the home named it before.
    unstored: Option<(String, usize)>,
    /// Threads of the case, oldest first; the last one is in use.
    threads: Vec<String>,
    rollout_path: Option<String>,
    /// Ids of the turns that the thread holds, oldest first.
    turns: Vec<String>,
    pub(super) inbox: mpsc::UnboundedReceiver<Incoming>,
    pub(super) events: Vec<ClientEvent>,
    pub(super) findings: Vec<Finding>,
    watch: Watch,
    edits: Vec<Edited>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(parts: SessionParts<'a>) -> Self {
        let SessionParts {
            pool,
            plan,
            case,
            seat,
            workspace,
            own,
        } = parts;
        Self {
            pool,
            plan,
            case,
            seat,
            workspace,
            own,
            stopped: false,
            unstored: None,
            threads: Vec::new(),
            rollout_path: None,
            turns: Vec::new(),
            // Replaced when the thread is started.
            inbox: mpsc::unbounded_channel().1,
            events: Vec::new(),
            findings: Vec::new(),
            watch: Watch::default(),
            edits: Vec::new(),
        }
    }

    /// Plays every step and hands over what was captured.
    pub(crate) async fn play(mut self) -> Result<Outcome, NoVerdict> {
        let day = capture::utc_day();
        self.play_steps().await?;
        self.drain().await;
        self.end().await?;
        let in_context = self.plan.config.environment_context;
        if in_context && capture::utc_day() != day {
            return Err(NoVerdict::CouldNotDecide(
                "the run crossed midnight UTC".to_owned(),
            ));
        }
        let outcome = self.finish()?;
        match capture::foreign_environment(&outcome.recording) {
            Some(found) if in_context => Err(NoVerdict::CouldNotRun(found)),
            Some(_) | None => Ok(outcome),
        }
    }

    /// Plays the steps of the plan.
    pub(super) async fn play_steps(&mut self) -> Result<(), NoVerdict> {
        // A thread that starts may ask at once: its answers have to be there.
        if let Some(first) = self.plan.steps.first() {
            self.begin_step(first);
            if !matches!(first.action, StepAction::Resume(_)) {
                self.start_thread().await?;
                self.early_answered(first).await?;
            }
        }
        for step in &self.plan.steps {
            self.step(step).await?;
            let files = self.rollouts()?;
            self.watch.look(step.number, &files);
        }
        Ok(())
    }

    /// Ends a process that belongs to the case alone.
    pub(super) async fn end(&self) -> Result<(), NoVerdict> {
        if self.own && !self.stopped {
            self.process().stop(StopKind::Eof).await?;
        }
        Ok(())
    }

    /// Kills the process in the middle of a step; what was scripted for it is not missed.
    pub(super) async fn kill(&mut self) -> Result<(), NoVerdict> {
        if !self.stopped {
            self.process().stop(StopKind::Kill).await?;
        }
        self.stopped = true;
        self.case.end_step();
        self.case.take_problems();
        self.findings.clear();
        self.events.clear();
        Ok(())
    }

    /// The newest rollout file of the thread.
    pub(super) fn newest_bytes(&self) -> Result<Vec<u8>, NoVerdict> {
        let paths = capture::rollout_paths(&self.seat.run.home(), &self.threads);
        let path = paths.last();
        let path = path.ok_or_else(|| NoVerdict::CouldNotDecide("there is no rollout".into()))?;
        std::fs::read(path).map_err(|error| NoVerdict::CouldNotDecide(error.to_string()))
    }

    fn rollouts(&self) -> Result<Vec<RolloutFile>, NoVerdict> {
        capture::rollouts(&self.seat.run.home(), &self.threads, self.calibration())
    }

    fn finish(mut self) -> Result<Outcome, NoVerdict> {
        let calibration = self.calibration();
        let rollouts = self.rollouts()?;
        let entries = self.case.journal();
        let (journal, undecodable) = capture::journal(&entries, self.plan, calibration);
        for step in &self.plan.steps {
            for reply in step.replies.iter().filter(|reply| reply.delivered_cut) {
                let left =
                    |entry: &Entry| entry.client_left && entry.reply.as_ref() == Some(&reply.label);
                if !entries.iter().any(left) {
                    let message = format!(
                        "{} (line {}): the client was expected to drop the stream",
                        reply.label, reply.line
                    );
                    self.find("script.delivered", &message);
                }
            }
        }
        self.findings.extend(undecodable);
        self.events = self
            .events
            .drain(..)
            .map(|event| capture::event(event, calibration))
            .collect();
        let places = Places {
            workspace: self.workspace.display().to_string(),
            home: self.seat.run.home().display().to_string(),
            models: self
                .plan
                .models
                .iter()
                .map(|model| (slug(model), model.name.clone()))
                .collect(),
            installation_id: INSTALLATION_ID.to_owned(),
            base_url: base_url(self.plan, &self.case),
        };
        let events = std::mem::take(&mut self.events);
        let recording = Recording {
            journal,
            rollouts,
            events,
            rewrites: self.watch.into_rewrites(),
            edits: self.edits,
            places,
        };
        self.findings
            .extend(capture::remnants(&recording, calibration));
        Ok(Outcome {
            recording,
            findings: self.findings,
        })
    }

    pub(super) fn calibration(&self) -> &'a Calibration {
        self.pool.calibration()
    }

    pub(super) fn process(&self) -> &CodexProcess {
        &self.seat.process
    }

    /// Whether a steer makes this version close the stream it reads.
    pub(super) fn drops_at_a_steer(&self) -> bool {
        // Over a WebSocket a response is read to its end.
        self.pool.family() == Family::New
            && self.plan.config.instant_interrupt != Some(false)
            && !self.plan.config.websockets
    }

    pub(super) fn thread(&self) -> &str {
        self.threads.last().map_or("", String::as_str)
    }

    pub(super) fn find(&mut self, id: &str, message: &str) {
        let message = self.calibration().to_ours(message);
        self.findings.push(Finding {
            id: id.to_owned(),
            message,
        });
    }

    /// A request that has to succeed for the case to go on.
    pub(super) async fn must(&self, method: &str, params: Value) -> Result<Value, NoVerdict> {
        self.process()
            .rpc
            .request(method, params)
            .await
            .map_err(|error| {
                let why = format!("{error}{}", self.process().stderr_tail());
                match error {
                    RpcError::Refused { .. } => NoVerdict::Refused(why),
                    RpcError::Ended { .. } | RpcError::TimedOut { .. } => {
                        NoVerdict::CouldNotDecide(why)
                    }
                }
            })
    }

    /// A request of a step: `None` and a finding if the server refuses it.
    async fn ask(
        &mut self,
        step: &PlanStep,
        method: &str,
        params: Value,
    ) -> Result<Option<Value>, NoVerdict> {
        match self.process().rpc.request(method, params).await {
            Ok(response) => Ok(Some(response)),
            Err(error @ RpcError::Refused { .. }) => {
                let message = format!("step {} (line {}): {error}", step.number, step.line);
                self.find("client.refused", &message);
                Ok(None)
            }
            Err(error @ (RpcError::Ended { .. } | RpcError::TimedOut { .. })) => {
                let tail = self.process().stderr_tail();
                Err(NoVerdict::CouldNotDecide(format!(
                    "step {}: {error}{tail}",
                    step.number
                )))
            }
        }
    }

    #[tracing::instrument(name = "step", skip_all, fields(number = step.number))]
    pub(super) async fn step(&mut self, step: &PlanStep) -> Result<(), NoVerdict> {
        let is_first = self
            .plan
            .steps
            .first()
            .is_some_and(|first| std::ptr::eq(first, step));
        if !is_first {
            self.begin_step(step);
        }
        match &step.action {
            StepAction::User(user) => {
                let params = self.turn_params(user);
                self.play_turn(step, "turn/start", params).await?;
            }
            StepAction::Compact => {
                let params = json!({"threadId": self.thread()});
                self.play_turn(step, "thread/compact/start", params).await?;
            }
            StepAction::Settings(overrides) => {
                let params = self.settings_params(overrides);
                let stored = self.model_to_store(overrides);
                self.ask(step, "thread/settings/update", params).await?;
                self.unstored = stored;
            }
            StepAction::Inject(items) => {
                let items = self.calibration().to_real_value(&json!(items));
                let params = json!({"threadId": self.thread(), "items": items});
                self.ask(step, "thread/inject_items", params).await?;
            }
            StepAction::Stop(kind) => {
                self.drain().await;
                self.model_stored().await;
                let status = self.process().stop(*kind).await?;
                tracing::debug!(%status, "stopped");
                self.stopped = true;
            }
            StepAction::Resume(resume) => self.resume(step, resume).await?,
            StepAction::Fork(point) => self.fork(step, *point).await?,
            StepAction::Rollback(turns) => {
                self.drain().await;
                let params = json!({"threadId": self.thread(), "numTurns": turns});
                if self.ask(step, "thread/rollback", params).await?.is_some() {
                    self.drain().await;
                }
            }
            StepAction::Revert(turn) => {
                self.drain().await;
                let before = self.turn_id(step, *turn)?;
                let params = json!({"threadId": self.thread(), "beforeTurnId": before});
                if self.revert(step, params).await?.is_some() {
                    self.turns.truncate(turn - 1);
                    self.early_answered(step).await?;
                    self.drain().await;
                }
            }
            StepAction::EditRollout(edit) => self.edit_rollout(step, edit)?,
            StepAction::Storage(_) => {
                let what = "a storage fault: a real binary has its own disk";
                return Err(NoVerdict::NotSupported(what.to_owned()));
            }
        }
        self.case.end_step();
        for problem in self.case.take_problems() {
            self.findings.push(problem_finding(step, &problem));
        }
        Ok(())
    }

    fn begin_step(&self, step: &PlanStep) {
        let replies = step
            .replies
            .iter()
            .map(|reply| scripted(reply, &self.plan.models, self.calibration()))
            .collect();
        self.case.begin_step(replies);
    }

    /// Waits until the handshake and the prewarm of a thread that was just loaded are answered.
    async fn early_answered(&self, step: &PlanStep) -> Result<(), NoVerdict> {
        let answered = tokio::time::timeout(EARLY_MAX, self.case.early_answered()).await;
        answered.map_err(|_| {
            NoVerdict::CouldNotDecide(format!(
                "step {} (line {}): no prewarm within {} s",
                step.number,
                step.line,
                EARLY_MAX.as_secs()
            ))
        })
    }

    async fn play_turn(
        &mut self,
        step: &PlanStep,
        method: &str,
        params: Value,
    ) -> Result<(), NoVerdict> {
        let Some(response) = self.ask(step, method, params).await? else {
            return Ok(());
        };
        let id = response
            .pointer("/turn/id")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let seen = self.events.len();
        Turn::new(self, step, id).play().await?;
        // A compaction says its turn in an event only.
        let started = self.events[seen..].iter().filter_map(|event| match event {
            ClientEvent::TurnStarted { turn } => Some(turn.clone()),
            _ => None,
        });
        self.turns.extend(started);
        Ok(())
    }

    /// Asks for a revert, again while the turn that just ended still holds its file (0.164.0).
    async fn revert(&mut self, step: &PlanStep, params: Value) -> Result<Option<Value>, NoVerdict> {
        for _ in 0..FREE_TRIES_MAX {
            let asked = self.process().rpc.request("thread/revert", params.clone());
            match asked.await {
                Err(RpcError::Refused { message, .. }) if message.contains(HELD) => {
                    tokio::time::sleep(FREE_PAUSE).await;
                }
                Ok(response) => return Ok(Some(response)),
                Err(_) => break,
            }
        }
        self.ask(step, "thread/revert", params).await
    }

    /// Id of a turn of the thread, counted from 1.
    fn turn_id(&self, step: &PlanStep, turn: usize) -> Result<String, NoVerdict> {
        let id = turn.checked_sub(1).and_then(|index| self.turns.get(index));
        id.cloned().ok_or_else(|| {
            NoVerdict::CouldNotRun(format!(
                "step {} (line {}): the thread has no turn {turn}, but {}",
                step.number,
                step.line,
                self.turns.len()
            ))
        })
    }

    async fn fork(&mut self, step: &PlanStep, point: ForkPoint) -> Result<(), NoVerdict> {
        self.drain().await;
        let mut params = json!({"threadId": self.thread()});
        let left = match point {
            ForkPoint::Whole => self.turns.len(),
            ForkPoint::Through(turn) => {
                params["lastTurnId"] = json!(self.turn_id(step, turn)?);
                turn
            }
            ForkPoint::Before(turn) => {
                params["beforeTurnId"] = json!(self.turn_id(step, turn)?);
                turn - 1
            }
        };
        if let Some(response) = self.ask(step, "thread/fork", params).await? {
            self.turns.truncate(left);
            self.adopt(&response)?;
            self.early_answered(step).await?;
            self.drain().await;
        }
        Ok(())
    }

    async fn start_thread(&mut self) -> Result<(), NoVerdict> {
        let mut params = self.thread_params();
        let tools: Vec<Value> = dynamic_tools(&self.plan.tools);
        if !tools.is_empty() {
            params.insert("dynamicTools".to_owned(), json!(tools));
        }
        if let Some(mode) = &self.plan.config.history_mode
            && self.pool.family() == Family::New
        {
            params.insert("historyMode".to_owned(), json!(mode));
        }
        let response = self.must("thread/start", Value::Object(params)).await?;
        self.adopt(&response)
    }

    /// What starting and resuming a thread share.
    fn thread_params(&self) -> Map<String, Value> {
        let config = &self.plan.config;
        let mut params = Map::new();
        params.insert("cwd".to_owned(), json!(self.workspace));
        if let Some(model) = self.plan.models.first() {
            params.insert("model".to_owned(), json!(slug(model)));
        }
        if !self.own {
            let keys = thread_config(
                self.pool.family(),
                self.plan,
                &base_url(self.plan, &self.case),
            );
            params.insert("config".to_owned(), Value::Object(keys));
        }
        for (key, value) in [
            ("baseInstructions", &config.base_instructions),
            ("developerInstructions", &config.developer_instructions),
        ] {
            if let Some(text) = value {
                params.insert(key.to_owned(), json!(text));
            }
        }
        match self.calibration().to_real_value(&Value::Object(params)) {
            Value::Object(params) => params,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                unreachable!("an object stays an object")
            }
        }
    }

    fn adopt(&mut self, response: &Value) -> Result<(), NoVerdict> {
        let Some(id) = response.pointer("/thread/id").and_then(Value::as_str) else {
            return Err(NoVerdict::CouldNotRun(format!(
                "no thread id in {}",
                quoted(&response.to_string())
            )));
        };
        if let Some(path) = response.pointer("/thread/path").and_then(Value::as_str) {
            self.rollout_path = Some(path.to_owned());
        }
        if self.threads.iter().any(|known| known == id) {
            self.threads.retain(|known| known != id);
        }
        self.threads.push(id.to_owned());
        // `None`: the thread was resumed in the process that has it loaded; its queue goes on.
        if let Some(inbox) = self.process().rpc.claim(id) {
            self.inbox = inbox;
        }
        Ok(())
    }

    /// A new process, if the old one was stopped.
    async fn restart(&mut self) -> Result<(), NoVerdict> {
        if self.stopped {
            let run = Arc::clone(&self.seat.run);
            let process = CodexProcess::start(self.pool.binary(), &run, &self.workspace).await?;
            let hooks = Arc::clone(&self.seat.hooks);
            self.seat = Arc::new(Seat {
                process,
                run,
                hooks,
            });
            self.stopped = false;
        }
        Ok(())
    }

    async fn resume(&mut self, step: &PlanStep, resume: &ResumeStep) -> Result<(), NoVerdict> {
        self.restart().await?;
        let params = match resume {
            ResumeStep::Id => json!({"threadId": self.thread()}),
            ResumeStep::Path => json!({"threadId": "", "path": self.rollout_path}),
            ResumeStep::History(items) => {
                let mut params = self.thread_params();
                // With a history any id will do, and a new one is made.
                let any = self.threads.last().map_or(INSTALLATION_ID, String::as_str);
                params.insert("threadId".to_owned(), json!(any));
                let items = self.calibration().to_real_value(&json!(items));
                params.insert("history".to_owned(), items);
                Value::Object(params)
            }
        };
        let expected = step.ends.as_ref();
        let expected = expected.filter(|ends| ends.status == TurnStatus::Failed);
        if let Some(expected) = expected {
            let message = expected.message.as_deref().unwrap_or_default();
            return self.refused(step, params, message).await;
        }
        if let Some(response) = self.ask(step, "thread/resume", params).await? {
            self.adopt(&response)?;
            self.early_answered(step).await?;
            self.drain().await;
            if !matches!(resume, ResumeStep::History(_)) {
                self.usage_told().await;
            }
        }
        Ok(())
    }

    /// A resume that is expected to be refused.
    async fn refused(
        &mut self,
        step: &PlanStep,
        params: Value,
        message: &str,
    ) -> Result<(), NoVerdict> {
        match self.process().rpc.request("thread/resume", params).await {
            Err(error @ RpcError::Refused { .. }) => {
                let said = error.to_string();
                if !said.contains(message) {
                    let what = format!(
                        "step {} (line {}): {said}, expected {} in it",
                        step.number,
                        step.line,
                        quoted(message)
                    );
                    self.find("step.ends", &what);
                }
                Ok(())
            }
            Ok(_) => {
                let what = format!(
                    "step {} (line {}): thread/resume: it works, expected a refusal with {}",
                    step.number,
                    step.line,
                    quoted(message)
                );
                self.find("step.ends", &what);
                Ok(())
            }
            Err(error @ (RpcError::Ended { .. } | RpcError::TimedOut { .. })) => {
                Err(NoVerdict::CouldNotDecide(format!(
                    "step {}: {error}{}",
                    step.number,
                    self.process().stderr_tail()
                )))
            }
        }
    }

    /// Edits the newest rollout file of the thread, or the oldest.
    fn edit_rollout(&mut self, step: &PlanStep, edit: &Edit) -> Result<(), NoVerdict> {
        let failed = |what: &str| {
            NoVerdict::CouldNotRun(format!("step {} (line {}): {what}", step.number, step.line))
        };
        let paths = capture::rollout_paths(&self.seat.run.home(), &self.threads);
        let path = if edit.oldest {
            paths.first()
        } else {
            paths.last()
        };
        let path = path.ok_or_else(|| failed("there is no rollout"))?;
        let io = |error: std::io::Error| failed(&error.to_string());
        let bytes = std::fs::read(path).map_err(io)?;
        let bytes = rollout_edit::apply(edit, &bytes).map_err(|what| failed(&what))?;
        let requests = self.case.journal().len();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.edits
            .push(Edited::new(requests, &name, bytes.as_deref()));
        match bytes {
            Some(bytes) => std::fs::write(path, bytes).map_err(io)?,
            None if edit.change == rollout_edit::Change::RemoveFolder => {
                let folder = capture::sessions(&self.seat.run.home());
                std::fs::remove_dir_all(folder).map_err(io)?;
            }
            None => std::fs::remove_file(path).map_err(io)?,
        }
        let files = self.rollouts()?;
        self.watch.edited(files);
        Ok(())
    }

    fn turn_params(&self, user: &UserStep) -> Value {
        let mut params = self.settings_params(&user.overrides);
        params["input"] = self.calibration().to_real_value(&json!(user.input));
        if let Some(schema) = &user.overrides.output_schema {
            params["outputSchema"] = schema.clone();
        }
        if !user.client_context.is_empty() {
            let entries = user.client_context.iter().map(|(name, application, text)| {
                let kind = if *application {
                    "application"
                } else {
                    "untrusted"
                };
                (name.clone(), json!({"kind": kind, "value": text}))
            });
            params["additionalContext"] = Value::Object(entries.collect());
        }
        if !user.client_metadata.is_empty() {
            let entries = user.client_metadata.iter();
            let map: Map<String, Value> = entries.map(|(k, v)| (k.clone(), json!(v))).collect();
            params["responsesapiClientMetadata"] = Value::Object(map);
        }
        if let Some(id) = &user.client_message_id {
            params["clientUserMessageId"] = json!(id);
        }
        params
    }

    pub(super) fn settings_params(&self, overrides: &Overrides) -> Value {
        let mut params = json!({"threadId": self.thread()});
        if let Some(name) = &overrides.model {
            let known = self.plan.models.iter().find(|model| model.name == *name);
            params["model"] = json!(known.map_or_else(|| name.clone(), slug));
        }
        let texts = [
            ("effort", &overrides.effort),
            ("summary", &overrides.summary),
            ("approvalPolicy", &overrides.approval),
            ("serviceTier", &overrides.service_tier),
        ];
        for (key, value) in texts {
            if let Some(value) = value {
                params[key] = json!(value);
            }
        }
        if let Some(folder) = &overrides.cwd {
            params["cwd"] = json!(self.workspace.join(folder));
        }
        if let Some(mode) = &overrides.sandbox {
            let kind = match mode.as_str() {
                "read-only" => "readOnly",
                "workspace-write" => "workspaceWrite",
                "danger-full-access" => "dangerFullAccess",
                other => other,
            };
            params["sandboxPolicy"] = json!({"type": kind});
        }
        params
    }
}
