//! Runs scenarios on the real binary: install, home, app-server, provider, capture.
//!
//! The way of a plan: [`CodexDriver::run`] takes a place in a process of the pool (`pool.rs`),
//! opens a case at the mock provider, starts a thread in a fresh workspace and plays the steps
//! (`session.rs`, `turn.rs`). The capture becomes a recording with our fixed texts
//! (`crate::texts`).

mod calibrate;
mod calibration_plans;
mod capture;
mod crash;
mod events;
mod home;
mod hooks;
pub mod install;
mod pool;
mod process;
mod rpc;
mod session;
mod time_resume;
mod turn;
mod wire;

use std::path::PathBuf;

use self::install::Binary;
use self::pool::Pool;
use super::{Driver, NoVerdict, Outcome};
use crate::scenario::plan::Plan;
use crate::texts::Calibration;

pub use self::calibrate::{calibrate, stored_calibrations};
pub use self::home::{HOME_PATH_BYTES, INSTALLATION_ID, WORKSPACE_PATH_BYTES, slug};
#[cfg(test)]
pub(crate) use self::session::rewritten::{Resumed, Rewrite};
pub(crate) use self::time_resume::time_resume;

/// Which binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A released version, for instance `0.171.0`.
    Version(String),
    /// A local build.
    Path(PathBuf),
}

impl Source {
    /// Finds the binary; a released version is downloaded on first use.
    pub fn ensure(&self) -> Result<Binary, NoVerdict> {
        match self {
            Self::Version(version) => install::ensure(version),
            Self::Path(path) => install::at_path(path),
        }
    }
}

/// The driver of one real binary.
#[derive(Debug)]
pub struct CodexDriver {
    subject: String,
    pool: Pool,
}

impl CodexDriver {
    /// Prepares a pool for these plans; `jobs` cases run at once.
    ///
    /// It has to be called inside a tokio runtime. The first use of a version downloads and
    /// calibrates it.
    pub async fn new(source: &Source, plans: &[Plan], jobs: usize) -> Result<Self, NoVerdict> {
        let binary = source.ensure()?;
        let calibration = calibrate::load_or_make(&binary).await?;
        let subject = match source {
            Source::Version(version) => format!("codex@{version}"),
            Source::Path(path) => format!("codex@{}", path.display()),
        };
        let pool = Pool::new(binary, calibration, plans, jobs).await?;
        Ok(Self { subject, pool })
    }

    /// The binary that runs.
    pub fn binary(&self) -> &Binary {
        self.pool.binary()
    }

    /// The fixed texts of the binary.
    pub fn calibration(&self) -> &Calibration {
        self.pool.calibration()
    }

    /// Ends every process. Dropping the driver does it too, without waiting.
    pub async fn close(self) {
        self.pool.close().await;
    }
}

#[async_trait::async_trait(?Send)]
impl Driver for CodexDriver {
    fn subject(&self) -> &str {
        &self.subject
    }

    #[tracing::instrument(name = "case", skip_all, fields(id = plan.id, subject = self.subject))]
    async fn run(&self, plan: &Plan) -> Result<Outcome, NoVerdict> {
        self.pool.run(plan).await
    }
}

#[cfg(test)]
mod tests;
