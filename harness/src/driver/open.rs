//! Opens the driver of a subject, and says what a golden has to know of a real binary.

use std::path::PathBuf;

use futures_util::future::{FutureExt as _, LocalBoxFuture};

use super::codex::{CodexDriver, Source, install, stored_calibrations};
use super::engine::EngineDriver;
use super::{CrashDriver, Driver, NoVerdict};
use crate::scenario::plan::Plan;

/// Cases that run at once in one process of a real binary.
const CASES_PER_PROCESS: usize = 4;

/// Opens a subject. `plans` are all plans it will be asked to run: older real versions read one
/// model catalogue per process, so it has to hold every model.
pub fn open<'a>(
    subject: &'a str,
    plans: &[&Plan],
) -> LocalBoxFuture<'a, Result<Box<dyn Driver>, NoVerdict>> {
    let plans: Vec<Plan> = plans.iter().map(|plan| (*plan).clone()).collect();
    async move {
        let unknown = || NoVerdict::CouldNotRun(format!("there is no subject `{subject}`"));
        let (arm, version) = subject.split_once('@').ok_or_else(unknown)?;
        match arm {
            "engine" => {
                let driver = EngineDriver::new(version).ok_or_else(unknown)?;
                Ok(Box::new(driver) as Box<dyn Driver>)
            }
            "codex" => {
                let driver = CodexDriver::new(&source(version), &plans, CASES_PER_PROCESS).await?;
                Ok(Box::new(driver) as Box<dyn Driver>)
            }
            _ => Err(unknown()),
        }
    }
    .boxed_local()
}

/// Opens a subject to kill it. `plans` are those of [`open`].
pub async fn open_crash(subject: &str, plans: &[Plan]) -> Result<Box<dyn CrashDriver>, NoVerdict> {
    let unknown = || NoVerdict::CouldNotRun(format!("there is no subject `{subject}`"));
    let (arm, version) = subject.split_once('@').ok_or_else(unknown)?;
    match arm {
        "engine" => {
            let driver = EngineDriver::new(version).ok_or_else(unknown)?;
            Ok(Box::new(driver) as Box<dyn CrashDriver>)
        }
        "codex" => {
            let driver = CodexDriver::new(&source(version), plans, CASES_PER_PROCESS).await?;
            Ok(Box::new(driver) as Box<dyn CrashDriver>)
        }
        _ => Err(unknown()),
    }
}

fn source(version: &str) -> Source {
    if version.contains('/') {
        Source::Path(PathBuf::from(version))
    } else {
        Source::Version(version.to_owned())
    }
}

/// SHA-256 of a subject's binary, if it is installed; `None` for an engine.
pub fn binary_sha256(subject: &str) -> Option<String> {
    let version = subject.strip_prefix("codex@")?;
    if !version.contains('/') && !install::is_installed(version) {
        return None;
    }
    source(version).ensure().ok().map(|binary| binary.sha256)
}

/// Names of real texts that are left in a text about to be stored.
pub fn remnants(text: &str) -> Vec<String> {
    stored_calibrations()
        .iter()
        .filter_map(|calibration| calibration.remnant(text).map(str::to_owned))
        .collect()
}
