//! Processes and provider servers that cases share.
//!
//! A case gets a process of its own when a step or a setting changes files or processes. A shared
//! process takes up to four cases at once; one that died is started anew for the next case. What a
//! case shares is never its fate: a case whose shared process died, or did not start, runs again in
//! a process of its own, so that only the case that is to blame has no outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mock_provider::case::CaseHandle;
use mock_provider::{http, live};
use tokio::sync::{Mutex, Semaphore};

use super::home::{Family, RunDir, UNREACHABLE, catalog, quiet_config, set, slug, thread_config};
use super::hooks::HookScripts;
use super::install::Binary;
use super::process::CodexProcess;
use super::session::{Session, SessionParts};
use crate::driver::script::scripted;
use crate::driver::{NoVerdict, Outcome};
use crate::scenario::plan::{Plan, StepAction, StopKind};
use crate::texts::Calibration;

/// Cases that run in one process at once.
const CASES_PER_PROCESS: usize = 4;

/// A process and its folder. The process is dropped first: its folder goes when it is gone.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) process: CodexProcess,
    pub(crate) run: Arc<RunDir>,
    pub(crate) hooks: Arc<HookScripts>,
}

/// One place for a shared process.
#[derive(Debug)]
struct Shared {
    seat: Mutex<Option<Arc<Seat>>>,
    free: Arc<Semaphore>,
}

#[derive(Debug)]
pub(crate) struct Pool {
    binary: Binary,
    calibration: Calibration,
    plans: Vec<Plan>,
    http: http::Server,
    live: live::Server,
    shared: Vec<Shared>,
    jobs: Semaphore,
    cases: AtomicU64,
    /// A process with the catalogue of all plans did not start: nobody shares any more.
    alone: AtomicBool,
}

impl Pool {
    pub(crate) async fn new(
        binary: Binary,
        calibration: Calibration,
        plans: &[Plan],
        jobs: usize,
    ) -> Result<Self, NoVerdict> {
        let denied = |error: std::io::Error| {
            NoVerdict::CouldNotRun(format!("could not listen on 127.0.0.1: {error}"))
        };
        let jobs = jobs.max(1);
        let shared = (0..jobs.div_ceil(CASES_PER_PROCESS))
            .map(|_| Shared {
                seat: Mutex::default(),
                free: Arc::new(Semaphore::new(CASES_PER_PROCESS)),
            })
            .collect();
        Ok(Self {
            binary,
            calibration,
            plans: plans.to_vec(),
            http: http::Server::start().await.map_err(denied)?,
            live: live::Server::start().await.map_err(denied)?,
            shared,
            jobs: Semaphore::new(jobs),
            cases: AtomicU64::new(0),
            alone: AtomicBool::new(false),
        })
    }

    pub(crate) fn binary(&self) -> &Binary {
        &self.binary
    }

    pub(crate) fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    pub(crate) fn family(&self) -> Family {
        Family::of(&self.binary.version)
    }

    pub(crate) async fn run(&self, plan: &Plan) -> Result<Outcome, NoVerdict> {
        let _job = self.jobs.acquire().await.expect("never closed");
        if !needs_own_process(plan)
            && let Some(outcome) = self.run_shared(plan).await
        {
            return outcome;
        }
        self.own_session(plan).await?.play().await
    }

    /// Runs a case beside others; `None` where the process that they share is to be blamed.
    async fn run_shared(&self, plan: &Plan) -> Option<Result<Outcome, NoVerdict>> {
        let shared = self.least_busy();
        let _place = shared.free.acquire().await.expect("never closed");
        if self.alone.load(Ordering::Relaxed) {
            return None;
        }
        let (seat, workspace) = match self.take_seat(shared, plan).await {
            Ok(taken) => taken,
            Err(reason) => {
                tracing::info!(%reason, "every case gets a process of its own");
                self.alone.store(true, Ordering::Relaxed);
                return None;
            }
        };
        let outcome = Session::new(SessionParts {
            pool: self,
            plan,
            case: self.open_case(plan),
            seat: Arc::clone(&seat),
            workspace,
            own: false,
        })
        .play()
        .await;
        if seat.process.has_ended().await {
            tracing::info!(
                id = plan.id,
                "the shared process died: again in one of its own"
            );
            return None;
        }
        Some(outcome)
    }

    /// A session in a process of its own.
    pub(crate) async fn own_session<'a>(
        &'a self,
        plan: &'a Plan,
    ) -> Result<Session<'a>, NoVerdict> {
        let case = self.open_case(plan);
        let started = self.start_own(plan, &base_url(plan, &case)).await;
        let (seat, workspace) = match started {
            Ok(started) => started,
            Err(reason) => return Err(self.blame(plan, reason).await),
        };
        Ok(Session::new(SessionParts {
            pool: self,
            plan,
            case,
            seat,
            workspace,
            own: true,
        }))
    }

    /// The id of the shared process, once it runs.
    #[cfg(test)]
    pub(super) async fn shared_process(&self) -> Option<i32> {
        let seat = self.shared.first()?.seat.lock().await;
        seat.as_ref()?.process.pid()
    }

    fn open_case(&self, plan: &Plan) -> CaseHandle {
        let number = self.cases.fetch_add(1, Ordering::Relaxed);
        let key = format!("c{number:06}");
        let live = plan
            .steps
            .iter()
            .flat_map(|step| &step.replies)
            .any(|reply| scripted(reply, &plan.models, &self.calibration).needs_live());
        if live || plan.config.websockets {
            self.live.open_case(&key)
        } else {
            self.http.open_case(&key)
        }
    }

    fn least_busy(&self) -> &Shared {
        self.shared
            .iter()
            .max_by_key(|shared| shared.free.available_permits())
            .expect("one at least")
    }

    async fn take_seat(
        &self,
        shared: &Shared,
        plan: &Plan,
    ) -> Result<(Arc<Seat>, std::path::PathBuf), NoVerdict> {
        let mut place = shared.seat.lock().await;
        if let Some(seat) = &*place
            && seat.process.is_running().await
            && let Some(workspace) = seat.run.workspace(&plan.files)?
        {
            return Ok((Arc::clone(seat), workspace));
        }
        let run = Arc::new(RunDir::create()?);
        let mut plans: Vec<&Plan> = self.plans.iter().collect();
        // A plan that the pool was not told of, for instance a variant of a scenario.
        if !self.plans.iter().any(|known| known.models == plan.models) {
            plans.push(plan);
        }
        let model = first_model(plan)?;
        run.configure(
            &quiet_config(self.family(), &run.home(), &model),
            &catalog(plans),
        )?;
        let workspace = run
            .workspace(&plan.files)?
            .expect("the first number is free");
        let process = CodexProcess::start(&self.binary, &run, &run.user_home()).await?;
        let hooks = Arc::default();
        let seat = Arc::new(Seat {
            process,
            run,
            hooks,
        });
        *place = Some(Arc::clone(&seat));
        Ok((seat, workspace))
    }

    /// A process for one case, with its settings in the config file so that a resume finds them.
    async fn start_own(
        &self,
        plan: &Plan,
        base_url: &str,
    ) -> Result<(Arc<Seat>, std::path::PathBuf), NoVerdict> {
        let run = Arc::new(RunDir::create()?);
        let model = first_model(plan)?;
        let mut config = quiet_config(self.family(), &run.home(), &model);
        for (key, value) in thread_config(self.family(), plan, base_url) {
            set(&mut config, &key, &self.calibration.to_real_value(&value));
        }
        if let Some(text) = &plan.config.developer_instructions {
            set(&mut config, "developer_instructions", &text.as_str().into());
        }
        let workspace = run
            .workspace(&plan.files)?
            .expect("the first number is free");
        if let Some(text) = &plan.config.compact_prompt_file {
            run.prompt_file(text)?;
        }
        let hooks = &plan.config.hooks;
        let mut scripts = HookScripts::default();
        if !hooks.is_empty() {
            scripts = HookScripts::write(&run, hooks)?;
            set(&mut config, "features.hooks", &true.into());
            let mut table = scripts.config(hooks);
            set(&mut config, "hooks", &table);
            run.configure(&config, &catalog([plan]))?;
            // Only the binary knows the hash that a user trusts.
            let process = CodexProcess::start(&self.binary, &run, &workspace).await?;
            table["state"] = scripts.trust(&process, &workspace, hooks).await?;
            process.stop(StopKind::Eof).await?;
            set(&mut config, "hooks", &table);
        }
        run.configure(&config, &catalog([plan]))?;
        let process = CodexProcess::start(&self.binary, &run, &workspace).await?;
        let seat = Seat {
            process,
            run,
            hooks: Arc::new(scripts),
        };
        Ok((Arc::new(seat), workspace))
    }

    /// Whose fault it is that a process for this plan did not start: that of the scenario, if one
    /// starts with nothing of it.
    async fn blame(&self, plan: &Plan, reason: NoVerdict) -> NoVerdict {
        let simple = super::calibration_plans::all();
        let starts = match simple.first() {
            Some(simple) => self.start_own(simple, UNREACHABLE).await.is_ok(),
            None => false,
        };
        if !starts {
            return reason;
        }
        NoVerdict::Refused(format!(
            "codex {} starts, but not with the `models` and the `config` of {}: {reason}",
            self.binary.version, plan.id
        ))
    }

    pub(crate) async fn close(self) {
        for shared in self.shared {
            if let Some(seat) = shared.seat.into_inner()
                && let Err(error) = seat.process.stop(StopKind::Eof).await
            {
                tracing::warn!(%error, "did not end");
            }
        }
        // A mock server that is dropped in a task that never yields can spin.
        tokio::task::yield_now().await;
    }
}

/// Where the provider of a plan is asked.
pub(super) fn base_url(plan: &Plan, case: &CaseHandle) -> String {
    if plan.config.unreachable {
        UNREACHABLE.to_owned()
    } else {
        format!("{}{}", case.base_url(), plan.config.provider_path)
    }
}

/// The slug of the start model.
fn first_model(plan: &Plan) -> Result<String, NoVerdict> {
    plan.models
        .first()
        .map(slug)
        .ok_or_else(|| NoVerdict::CouldNotRun(format!("{}: no model", plan.id)))
}

/// Whether a case may not share a process.
fn needs_own_process(plan: &Plan) -> bool {
    plan.config.own_process
        || !plan.config.hooks.is_empty()
        || plan.config.compact_prompt_file.is_some()
        || plan.steps.iter().any(|step| match step.action {
            StepAction::Stop(_)
            | StepAction::Resume(_)
            | StepAction::EditRollout(_)
            | StepAction::Fork(_)
            | StepAction::Rollback(_)
            | StepAction::Revert(_) => true,
            StepAction::User(_)
            | StepAction::Compact
            | StepAction::Settings(_)
            | StepAction::Inject(_)
            | StepAction::Storage(_) => false,
        })
}
