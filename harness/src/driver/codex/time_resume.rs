//! How long a `thread/resume` of a given rollout takes in a process that is already running.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Source;
use super::home::{Family, RunDir, UNREACHABLE, catalog, quiet_config, set, slug, thread_config};
use super::process::CodexProcess;
use crate::driver::NoVerdict;
use crate::resume_bench::peak_bytes;
use crate::scenario::plan::{Plan, StopKind};

/// Longest wait for the answer.
const ANSWER_MAX: Duration = Duration::from_mins(15);

/// Seconds up to the answer, and the highest resident memory of the process in bytes.
///
/// The file is linked into a home of its own; nothing is asked of a provider. From 0.164 on the
/// answer leaves the turns out, which is the quicker way.
pub(crate) async fn time_resume(
    source: &Source,
    plan: &Plan,
    rollout: &Path,
    thread: &str,
) -> Result<(f64, Option<u64>), NoVerdict> {
    let denied = |what: &str, error: &std::io::Error| {
        NoVerdict::CouldNotRun(format!("could not {what}: {error}"))
    };
    let binary = source.ensure()?;
    let family = Family::of(&binary.version);
    let run = RunDir::create()?;
    let model = plan.models.first().map(slug).unwrap_or_default();
    let mut config = quiet_config(family, &run.home(), &model);
    for (key, value) in thread_config(family, plan, UNREACHABLE) {
        set(&mut config, &key, &value);
    }
    run.configure(&config, &catalog([plan]))?;
    let folder = run.home().join("sessions/2026/01/01");
    fs::create_dir_all(&folder).map_err(|error| denied("create the sessions", &error))?;
    let name = rollout.file_name().unwrap_or_default();
    let place = folder.join(name);
    if fs::hard_link(rollout, &place).is_err() {
        fs::copy(rollout, &place).map_err(|error| denied("copy the rollout", &error))?;
    }
    let workspace = run.workspace(&[])?.unwrap_or_else(|| run.user_home());
    let process = CodexProcess::start(&binary, &run, &workspace).await?;
    let mut params = json!({"threadId": thread, "cwd": workspace});
    if family == Family::New {
        params["excludeTurns"] = json!(true);
    }
    let start = Instant::now();
    let answer = process
        .rpc
        .request_within("thread/resume", params, ANSWER_MAX)
        .await;
    let seconds = start.elapsed().as_secs_f64();
    let answer = answer
        .map_err(|error| NoVerdict::CouldNotRun(format!("{error}{}", process.stderr_tail())))?;
    let peak = process.pid().and_then(|pid| peak_bytes(&pid.to_string()));
    process.stop(StopKind::Kill).await?;
    if answer["thread"]["id"] != thread {
        return Err(NoVerdict::CouldNotRun(format!(
            "another thread was resumed than {thread}"
        )));
    }
    Ok((seconds, peak))
}
