//! Subcommands of `turnproof`, one file each.
//!
//! Exit codes: 0 all hold, 1 findings, 2 usage or invalid scenario, 3 could not run.

pub mod bless;
pub mod calibrate;
pub mod check;
pub mod context;
pub mod diff;
pub mod doctor;
pub mod fuzz_history;
pub mod import;
pub mod lint;
pub mod list;
pub mod new;
pub(crate) mod out;
pub mod perturb;
pub mod record;
pub mod review;
pub mod schema;
pub mod show;
pub mod shrink;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::scenario::{Suite, SuiteError};

/// Usage error or invalid scenario.
pub const EXIT_USAGE: u8 = 2;
/// The environment does not allow it to run.
pub const EXIT_COULD_NOT_RUN: u8 = 3;

/// The suite of the current folder's checkout.
fn suite() -> Result<Suite, ExitCode> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    Suite::find(&here).map_err(|error| report(&error))
}

/// Prints why a selection failed; the exit code says whose fault it is.
fn report(error: &SuiteError) -> ExitCode {
    eprintln!(
        "failed to {}{error}",
        if matches!(error, SuiteError::Pattern(..) | SuiteError::NoMatch(..)) {
            "select: "
        } else {
            ""
        }
    );
    match error {
        SuiteError::NoFolder(_) | SuiteError::Read(..) => ExitCode::from(EXIT_COULD_NOT_RUN),
        SuiteError::Pattern(..) | SuiteError::NoMatch(..) => ExitCode::from(EXIT_USAGE),
    }
}

/// How a command ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Exit code.
    pub code: u8,
    /// Printed on standard error.
    pub message: Option<String>,
}

impl Exit {
    /// All hold.
    pub const OK: Self = Self {
        code: 0,
        message: None,
    };
    /// Findings were printed.
    pub const FINDINGS: Self = Self {
        code: 1,
        message: None,
    };
    /// Nothing is wrong that was seen, but something could not run.
    pub const NOT_RUN: Self = Self {
        code: 3,
        message: None,
    };

    /// Wrong arguments or an invalid file.
    pub fn usage(message: &str) -> Self {
        Self {
            code: 2,
            message: Some(message.to_owned()),
        }
    }

    /// The environment does not allow it.
    pub fn could_not_run(message: &str) -> Self {
        Self {
            code: 3,
            message: Some(format!("failed to {message}")),
        }
    }
}
