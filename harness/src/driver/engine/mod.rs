//! Runs scenarios on our engine: one session in memory, the same script, no socket, no clock.
//!
//! The driver lends the engine its ports (`ports.rs`) and plays the plan's steps. What differs from
//! a real run is only where bytes come from; the recording has the same shape.

mod budgets;
mod crash;
#[cfg(test)]
mod endless;
mod hooks;
pub(crate) mod play;
mod ports;
#[cfg(test)]
mod replays;
pub(crate) mod reread;
#[cfg(test)]
mod rollout_cases;
mod sampling;
mod stall;
mod storage;
mod ways_back;

use std::rc::Rc;

use engine::change::Change;
use engine::client_context::ClientContext;
use engine::ports::Ports;
use engine::profile::{Profile, Version};
use engine::session::{Remarks, Session};
use engine::settings::{Model, Scope, Settings, Tool, Truncation};
use engine::turn::TurnEnd;
use serde_json::Value;

use self::ports::{Attached, Counter, Provider, Seen, VirtualClock};
use self::storage::{Files, Life};
use super::script::{answer, scripted};
use super::{Driver, NoVerdict, Outcome};
use crate::driver::codex::{INSTALLATION_ID, WORKSPACE_PATH_BYTES, slug};
use crate::golden::versions::{PLANTED, planted};
use crate::recording::{Edited, Exchange, Finding, Places, Recording};
use crate::scenario::plan::{
    ConfigSpec, Ends, ModelSpec, Overrides, Plan, PlanStep, ResumeStep, StepAction, TruncationMode,
    TurnStatus, UserStep,
};
use crate::scenario::quoted;
use crate::texts::Calibration;

/// Where an engine's workspace would lie: as long as a real one, and never touched.
const WORKSPACE: &str = "/tmp/turnproof/000000000000/w000";
/// Where an engine's Codex home would lie.
const HOME: &str = "/tmp/turnproof/000000000000/home";
/// Where an engine's provider would listen.
const BASE_URL: &str = "http://127.0.0.1:1/c000000/v1";
/// The client's name and version, as the real driver says them.
const CLIENT: (&str, &str) = ("turnproof", "0.1.0");
/// The day of every run on the engine; masked.
const DATE: &str = "2026-01-01";

/// Suffix of a subject whose listed faults are mended.
const FIXED: &str = "+fixed";

const _: () = assert!(WORKSPACE.len() == WORKSPACE_PATH_BYTES);

/// The driver of one version family.
#[derive(Debug)]
pub struct EngineDriver {
    subject: String,
    profile: Profile,
}

impl EngineDriver {
    /// A driver of the family `0.144`, `0.164` or `0.171`, with `+fixed` behind it of the one with the
    /// listed faults mended, with `+planted:NAME` of one with a fault; `None` for another name.
    pub fn new(name: &str) -> Option<Self> {
        let (family, fault) = match name.split_once(PLANTED) {
            Some((family, fault)) => (family, Some(planted(fault).ok()?)),
            None => (name, None),
        };
        let (family, fixed) = match family.strip_suffix(FIXED) {
            Some(family) => (family, true),
            None => (family, false),
        };
        let version = match family {
            "0.144" => Version::V144,
            "0.164" => Version::V164,
            "0.171" => Version::V171,
            _ => return None,
        };
        let profile = if fixed {
            Profile::fixed(version)
        } else {
            Profile::of(version)
        };
        Some(Self {
            subject: format!("engine@{name}"),
            profile: Profile {
                planted: fault,
                ..profile
            },
        })
    }

    /// The release that the family was recorded from.
    pub fn release(&self) -> &'static str {
        self.profile.release
    }
}

#[async_trait::async_trait(?Send)]
impl Driver for EngineDriver {
    fn subject(&self) -> &str {
        &self.subject
    }

    #[tracing::instrument(name = "case", skip_all, fields(id = plan.id, subject = self.subject))]
    async fn run(&self, plan: &Plan) -> Result<Outcome, NoVerdict> {
        supported(plan)?;
        let mut run = Run::new(self.profile.clone(), plan);
        for step in &plan.steps {
            let played = Box::pin(stall::run(run.step(step))).await;
            let Some(result) = played else {
                run.findings.push(waits(step));
                break;
            };
            result?;
        }
        Ok(run.finish(&plan.steps))
    }
}

/// Features that the engine has a model of.
const FEATURES: [&str; 5] = [
    "executed_tool_call_metadata",
    "remote_compaction_v2",
    "rollout_budget",
    "step_model_switching",
    "token_budget",
];

/// Keys of `config.extra` that the engine has a model of.
const EXTRA_KEYS: [&str; 5] = [
    "model_providers.mock.capabilities.remote_compaction",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_verbosity",
    "service_tier",
];

/// A setting that would change nothing here, and who knows what on the real binary.
fn unmodelled(what: &str, name: &str) -> NoVerdict {
    NoVerdict::NotSupported(format!(
        "the engine has no model of the {what} `{name}`; run it with `--subject codex@…`"
    ))
}

/// A step that never ends; no step behind it is played.
fn waits(step: &PlanStep) -> Finding {
    Finding {
        id: "step.waits".to_owned(),
        message: format!(
            "step {}: the engine waits for what nothing will give it",
            step.number
        ),
    }
}

/// Says what the engine has no model of.
fn supported(plan: &Plan) -> Result<(), NoVerdict> {
    let config = &plan.config;
    let off = |value: &Value| *value == false;
    let features = config.features.iter();
    let mut features = features.filter(|(_, value)| !off(value));
    if let Some((name, _)) = features.find(|(name, _)| !FEATURES.contains(&name.as_str())) {
        return Err(unmodelled("feature", name));
    }
    let mut keys = config.extra.iter();
    if let Some((key, _)) = keys.find(|(key, _)| !EXTRA_KEYS.contains(&key.as_str())) {
        return Err(unmodelled("config key", key));
    }
    Ok(())
}

/// One running case.
struct Run<'a> {
    plan: &'a Plan,
    profile: Profile,
    settings: Settings,
    provider: Rc<Provider>,
    tools: Rc<ports::Client>,
    files: Rc<Files>,
    seen: Rc<Seen>,
    clock: Rc<VirtualClock>,
    ids: Rc<Counter>,
    session: Option<Session>,
    /// Id of the thread that was last in use.
    thread: String,
    /// Ids of the turns that the thread holds, oldest first.
    turns: Vec<String>,
    /// There is no thread: it could not be resumed.
    threadless: bool,
    life: Rc<Life>,
    edits: Vec<Edited>,
    findings: Vec<Finding>,
    /// The files hold the whole thread, so they can be read again.
    rereads: bool,
    /// How a turn ends is noted, and no finding.
    notes_ends: bool,
    /// How the turn of the step ended.
    ended: Option<Ends>,
}

impl<'a> Run<'a> {
    fn new(profile: Profile, plan: &'a Plan) -> Self {
        let client = Attached::new(&plan.models);
        let life = Rc::new(Life::default());
        Self {
            plan,
            profile,
            settings: settings(plan),
            provider: Rc::new(Provider::new(
                Rc::clone(&client),
                plan.config.unreachable,
                Rc::clone(&life),
            )),
            tools: Rc::new(ports::Client::new(client, Rc::clone(&life))),
            files: Rc::new(Files::new(Rc::clone(&life))),
            seen: Rc::new(Seen::new(Rc::clone(&life))),
            clock: Rc::new(VirtualClock::default()),
            ids: Rc::new(Counter::default()),
            session: None,
            thread: String::new(),
            turns: Vec::new(),
            threadless: false,
            life,
            edits: Vec::new(),
            findings: Vec::new(),
            rereads: true,
            notes_ends: false,
            ended: None,
        }
    }

    fn ports(&self) -> Ports {
        Ports {
            sampler: self.provider.clone(),
            tools: self.tools.clone(),
            store: self.files.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            hooks: Rc::new(hooks::Commands::new(&self.plan.config)),
            observer: self.seen.clone(),
        }
    }

    /// The running session; a fresh thread at first.
    fn session(&mut self) -> &mut Session {
        if self.session.is_none() {
            self.files.open();
            let session = Session::new(self.profile.clone(), self.settings.clone(), self.ports());
            self.install(session);
        }
        self.session.as_mut().expect("a session was just installed")
    }

    fn install(&mut self, session: Session) {
        self.tools.attach(session.inbox());
        self.files.name(session.thread_id(), &self.ids);
        // A file may name another thread than its records (0.144).
        if let Some((thread, _)) = self.files.newest() {
            self.thread = thread;
        }
        self.session = Some(session);
    }

    async fn step(&mut self, step: &PlanStep) -> Result<(), NoVerdict> {
        let ours = Calibration::default();
        let replies = step
            .replies
            .iter()
            .map(|reply| scripted(reply, &self.plan.models, &ours))
            .collect();
        self.provider.begin(replies, step);
        self.tools.begin(step);
        // A thread that starts may ask at once: its answers have to be there.
        let is_first = step.number == 1;
        if is_first && !matches!(step.action, StepAction::Resume(_)) {
            self.session().prewarm().await;
        }
        let life = Rc::clone(&self.life);
        if matches!(step.action, StepAction::Resume(_)) {
            // In a new process, if the old one was killed.
            life.begin();
        }
        let killed = tokio::select! {
            biased;
            () = life.died() => true,
            done = self.act(step) => { done?; life.is_dead() }
        };
        self.turns.extend(self.seen.new_turns());
        let findings = self.provider.end(step);
        if killed {
            // What was scripted for a process that is gone is not missed.
            self.session = None;
        } else {
            self.findings.extend(findings);
            self.read_again(step);
        }
        Ok(())
    }

    async fn act(&mut self, step: &PlanStep) -> Result<(), NoVerdict> {
        let asks = matches!(
            step.action,
            StepAction::User(_)
                | StepAction::Compact
                | StepAction::Settings(_)
                | StepAction::Inject(_)
        );
        if self.threadless && asks {
            self.find(
                "client.refused",
                step,
                "there is no thread: it was not resumed",
            );
            return Ok(());
        }
        match &step.action {
            StepAction::User(user) => {
                self.change(&user.overrides);
                let schema = user.overrides.output_schema.clone();
                let input = user.input.clone();
                self.session().remark(Remarks {
                    metadata: user.client_metadata.clone(),
                    message_id: user.client_message_id.clone(),
                    context: client_context(user),
                });
                let end = self.session().run_turn(input, schema).await;
                self.check_end(step, &end);
            }
            StepAction::Compact => {
                let end = self.session().run_compaction().await;
                self.check_end(step, &end);
            }
            StepAction::Settings(overrides) => self.change(overrides),
            StepAction::Inject(items) => {
                let items = items.clone();
                if let Err(why) = self.session().inject(&items) {
                    let what = format!("thread/inject_items: {why}");
                    self.find("client.refused", step, &what);
                }
            }
            StepAction::Stop(_) => self.session = None,
            StepAction::Resume(resume) => Box::pin(self.resume(step, resume)).await?,
            StepAction::EditRollout(edit) => {
                let requests = self.provider.requests();
                let edited = self.files.edit(edit, requests).map_err(|what| {
                    let (number, line) = (step.number, step.line);
                    NoVerdict::CouldNotRun(format!("step {number} (line {line}): {what}"))
                })?;
                self.edits.push(edited);
            }
            StepAction::Storage(storage) => self.files.set_fault(storage.fault.clone()),
            StepAction::Fork(point) => {
                self.fork(step, *point)?;
                self.session().prewarm().await;
            }
            StepAction::Rollback(turns) => self.roll_back(step, *turns)?,
            StepAction::Revert(turn) => {
                self.revert(step, *turn)?;
                self.session().prewarm().await;
            }
        }
        Ok(())
    }

    async fn resume(&mut self, step: &PlanStep, resume: &ResumeStep) -> Result<(), NoVerdict> {
        let by_history = matches!(resume, ResumeStep::History(_));
        if let Some(session) = self.session.as_mut().filter(|_| !by_history) {
            // A process that was not stopped still holds the thread.
            session.report_usage();
            session.prewarm().await;
            return Ok(());
        }
        self.session = None;
        let session = match resume {
            ResumeStep::Id | ResumeStep::Path => self.reopened(),
            ResumeStep::History(items) => {
                self.files.open();
                Session::with_history(
                    self.profile.clone(),
                    self.settings.clone(),
                    self.ports(),
                    items,
                )
                .map_err(|why| why.to_string())
            }
        };
        self.threadless = session.is_err();
        let expected = step.ends.as_ref();
        let expected = expected.filter(|ends| ends.status == TurnStatus::Failed);
        let message = expected.map(|ends| ends.message.as_deref().unwrap_or_default());
        match (session, message) {
            (Ok(session), None) => {
                self.install(session);
                self.session().prewarm().await;
            }
            (Err(why), Some(message)) if why.contains(message) => {}
            (Err(why), _) => self.find("client.refused", step, &format!("thread/resume: {why}")),
            (Ok(_), Some(message)) => {
                let refusal = quoted(message);
                let what = format!("thread/resume: it works, expected a refusal with {refusal}");
                self.find("step.ends", step, &what);
            }
        }
        Ok(())
    }

    /// The thread that was last in use in a new process.
    fn reopened(&self) -> Result<Session, String> {
        let thread = self.files.newest().map(|(thread, _)| thread);
        let Some(thread) = thread.filter(|thread| *thread == self.thread) else {
            return Err("no rollout found for thread id".to_owned());
        };
        let (profile, settings) = (self.profile.clone(), self.settings.clone());
        let found = self.found(&thread).map_err(|why| why.to_string())?;
        let session = Session::resume(profile, settings, self.ports(), found, &self.known());
        session.map_err(|why| why.to_string())
    }

    fn find(&mut self, id: &str, step: &PlanStep, what: &str) {
        self.findings.push(Finding {
            id: id.to_owned(),
            message: format!("step {} (line {}): {what}", step.number, step.line),
        });
    }

    fn change(&mut self, overrides: &Overrides) {
        let change = change(overrides, &self.plan.models);
        self.session().update_settings(change);
    }

    fn check_end(&mut self, step: &PlanStep, end: &TurnEnd) {
        let (status, message) = match end {
            TurnEnd::Completed => (TurnStatus::Completed, String::new()),
            TurnEnd::Interrupted => (TurnStatus::Interrupted, String::new()),
            TurnEnd::Failed(failure) => (TurnStatus::Failed, failure.message.clone()),
        };
        let expected = step.ends.clone().unwrap_or(Ends {
            status: TurnStatus::Completed,
            message: None,
        });
        if self.notes_ends {
            self.ended = Some(Ends {
                status,
                message: Some(message),
            });
            return;
        }
        let said = expected
            .message
            .as_ref()
            .is_none_or(|part| message.contains(part));
        if status != expected.status || !said {
            let message = Some(message);
            let ended = Ends { status, message };
            self.find(
                "step.ends",
                step,
                &format!("expected to end {expected}, ended {ended}"),
            );
        }
    }

    fn finish(mut self, steps: &[PlanStep]) -> Outcome {
        if let Some(append) = self.files.fault_ahead() {
            self.findings.push(Finding {
                id: "storage.not_reached".to_owned(),
                message: format!("append {append}, which was to fail, never came"),
            });
        }
        let journal = self
            .provider
            .journal()
            .into_iter()
            .map(|entry| Exchange {
                method: entry.request.method.clone(),
                path: entry.request.path.clone(),
                headers: entry.request.headers.clone(),
                body: entry.request.body.to_vec(),
                answer: answer(steps, &entry),
                reply: entry.reply,
            })
            .collect();
        let recording = Recording {
            journal,
            rollouts: self.files.take(),
            events: self.seen.take(),
            // The engine's port can do nothing but append.
            rewrites: Vec::new(),
            edits: self.edits,
            places: Places {
                workspace: WORKSPACE.to_owned(),
                home: HOME.to_owned(),
                models: self
                    .plan
                    .models
                    .iter()
                    .map(|m| (slug(m), m.name.clone()))
                    .collect(),
                installation_id: INSTALLATION_ID.to_owned(),
                base_url: BASE_URL.to_owned(),
            },
        };
        Outcome {
            recording,
            findings: self.findings,
        }
    }
}

fn settings(plan: &Plan) -> Settings {
    let config = &plan.config;
    let doc = plan
        .files
        .iter()
        .find(|(name, _)| name == "AGENTS.md")
        .filter(|_| config.project_doc);
    Settings {
        model: model(&plan.models[0]),
        provider_name: config.provider_name.clone(),
        provider_id: "mock".to_owned(),
        websockets: config.websockets,
        base_url: format!("{BASE_URL}{}", config.provider_path),
        request_max_retries: config.request_max_retries,
        stream_max_retries: config.stream_max_retries,
        cwd: WORKSPACE.to_owned(),
        sandbox: config.sandbox_mode.clone(),
        closed_for_good: None,
        approval: config.approval_policy.clone(),
        permissions_instructions: config.permissions_instructions,
        environment_context: config.environment_context,
        project_doc: doc.map(|(_, text)| (WORKSPACE.to_owned(), text.clone())),
        shell: "bash".to_owned(),
        date: DATE.to_owned(),
        timezone: "Etc/UTC".to_owned(),
        auto_compact_token_limit: config.auto_compact_token_limit,
        context_window: config.context_window,
        scope: match config.auto_compact_token_limit_scope.as_deref() {
            Some("body_after_prefix") => Scope::BodyAfterPrefix,
            _ => Scope::Total,
        },
        post_turn_percent: config.post_turn_compact_threshold_percent,
        compact_prompt: config.prompt().map(str::to_owned),
        tool_output_token_limit: config.tool_output_token_limit,
        developer_instructions: config.developer_instructions.clone(),
        base_instructions: config.base_instructions.clone(),
        token_budget: budgets::token_budget(config),
        hooks_file: format!("{HOME}/config.toml"),
        hooks: hooks::trusted_hooks(config),
        session_budget: budgets::session_budget(config),
        thread_base: None,
        remote_compaction: config
            .extra
            .iter()
            .find(|(key, _)| key == "model_providers.mock.capabilities.remote_compaction")
            .map(|(_, value)| value == "v2"),
        remote_compaction_v2: feature(config, "remote_compaction_v2").unwrap_or(true),
        instant_interrupt: config.instant_interrupt,
        paginated: config.history_mode.as_ref().map(|mode| mode == "paginated"),
        effort: sampling::effort(config),
        sampling: sampling::config(config),
        tools: plan
            .tools
            .iter()
            .map(|tool| Tool {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters: tool.parameters.clone(),
                namespace: tool.namespace.clone(),
                defer_loading: tool.defer_loading,
            })
            .collect(),
        client_name: CLIENT.0.to_owned(),
        client_version: CLIENT.1.to_owned(),
        installation_id: INSTALLATION_ID.to_owned(),
    }
}

/// What a client asks to change, as the engine takes it.
fn change(wanted: &Overrides, models: &[ModelSpec]) -> Change {
    let named = |name: &String| models.iter().find(|spec| spec.name == *name);
    let folder = |cwd: &String| format!("{WORKSPACE}/{cwd}");
    Change {
        model: wanted.model.as_ref().and_then(named).map(model),
        effort: wanted.effort.clone(),
        summary: wanted.summary.clone(),
        cwd: wanted.cwd.as_ref().map(folder),
        sandbox: wanted.sandbox.clone(),
        approval: wanted.approval.clone(),
        service_tier: wanted.service_tier.clone(),
    }
}

fn client_context(user: &UserStep) -> Vec<ClientContext> {
    let entries = user.client_context.iter();
    entries
        .map(|(name, application, text)| ClientContext {
            name: name.clone(),
            application: *application,
            text: text.clone(),
        })
        .collect()
}

/// A feature flag that the scenario sets.
fn feature(config: &ConfigSpec, name: &str) -> Option<bool> {
    let flag = config.features.iter().find(|(key, _)| key == name)?;
    flag.1.as_bool()
}

fn model(spec: &ModelSpec) -> Model {
    Model {
        slug: slug(spec),
        context_window: spec.context_window,
        max_context_window: spec.max_context_window,
        effective_percent: spec.effective_context_window_percent,
        auto_compact_token_limit: spec.auto_compact_token_limit,
        base_instructions: spec.base_instructions.clone(),
        truncation: match spec.truncation.mode {
            TruncationMode::Bytes => Truncation::Bytes(spec.truncation.limit),
            TruncationMode::Tokens => Truncation::Tokens(spec.truncation.limit),
        },
        input_modalities: spec.input_modalities.clone(),
        image_detail_original: spec
            .extra
            .iter()
            .any(|(key, value)| key == "supports_image_detail_original" && *value == true),
        comp_hash: spec.comp_hash.clone(),
        parallel_tool_calls: spec.supports_parallel_tool_calls,
        reasoning_summaries: spec.supports_reasoning_summaries,
        default_effort: spec.default_reasoning_level.clone(),
        sampling: sampling::model(spec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Resolved, Suite};

    fn plan(id: &str) -> Plan {
        let suite = Suite::find(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))).expect("a suite");
        let files = suite.select(&[id.to_owned()]).expect("the scenario");
        let loaded = suite.load(files[0]).expect("valid");
        let version = semver::Version::new(0, 171, 0);
        match loaded.plan(&version).expect("resolves") {
            Resolved::Applicable(plan) => *plan,
            Resolved::NotApplicable(why) => panic!("{why}"),
        }
    }

    /// The spans that a reader of a log relies on: case, turn, sampling, compaction.
    #[tokio::test(flavor = "current_thread")]
    #[tracing_test::traced_test]
    async fn spans_name_case_turn_sampling_and_compaction() {
        let driver = EngineDriver::new("0.171").expect("a family");
        let plan = plan("compaction/local/compacts_after_a_finished_turn");
        driver.run(&plan).await.expect("runs");
        tracing::info!("the log is read");
        assert!(logs_contain("the log is read"));
        assert!(logs_contain("case{"), "the case");
        assert!(logs_contain("turn{turn="), "the turn and its id");
        assert!(logs_contain("sampling{number=0}"), "the sampling");
        assert!(
            logs_contain("compaction{phase=\"post_turn\" window=0}"),
            "the compaction"
        );
    }

    /// Milliseconds that the first turn of a scenario took on the virtual clock.
    async fn first_turn_ms(id: &str) -> u64 {
        let driver = EngineDriver::new("0.171").expect("a family");
        let outcome = driver.run(&plan(id)).await.expect("runs");
        let text = &outcome.recording.rollouts[0].text;
        let records: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a record"))
            .collect();
        let ended = records
            .iter()
            .find(|record| record["payload"]["type"] == "task_complete")
            .expect("the turn ended");
        ended["payload"]["duration_ms"]
            .as_u64()
            .expect("a duration")
    }

    /// Readings of the clock in one turn, a millisecond each.
    const READINGS_MAX: u64 = 100;

    /// Waits pass on the virtual clock: those of the backoff, and those that a provider asks for.
    #[tokio::test(flavor = "current_thread")]
    async fn waits_take_the_time_that_was_asked_for() {
        for (id, wait_ms) in [
            // 200 for the request, 200 for the stream, 200 for the request again.
            ("faults/retries_a_server_error_on_both_levels", 600),
            ("faults/waits_as_long_as_a_rate_limit_says", 300),
            ("faults/waits_as_long_as_retry_after_says", 1000),
            ("faults/fails_at_once_on_too_many_requests", 0),
        ] {
            let took = first_turn_ms(id).await;
            let range = wait_ms..wait_ms + READINGS_MAX;
            assert!(range.contains(&took), "{id}: {took} ms");
        }
    }

    /// Nothing but the plan decides the bytes.
    #[tokio::test(flavor = "current_thread")]
    async fn a_plan_run_twice_gives_the_same_bytes() {
        let driver = EngineDriver::new("0.171").expect("a family");
        let plan = plan("compaction/local/story_compacts_in_the_middle_of_the_turn");
        let first = driver.run(&plan).await.expect("runs");
        assert_eq!(driver.run(&plan).await.expect("runs"), first);
    }
}
