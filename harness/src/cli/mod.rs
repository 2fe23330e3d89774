//! Subcommands of `turnproof`, one file each.
//!
//! Exit codes: 0 all hold, 1 findings, 2 usage or invalid scenario, 3 could not run.

pub mod bench_resume;
pub mod bless;
pub mod calibrate;
pub mod check;
pub mod context;
pub mod crash;
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
pub mod replay;
pub mod review;
pub mod schema;
pub mod show;
pub mod shrink;
pub mod simulate;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::RangedU64ValueParser;

use self::out::complain;
use crate::scenario::{Suite, SuiteError};

/// Usage error or invalid scenario.
pub const EXIT_USAGE: u8 = 2;
/// The environment does not allow it to run.
pub const EXIT_COULD_NOT_RUN: u8 = 3;

/// A number of cases at once: at least one.
fn jobs() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=64)
}

/// The suite of the current folder's checkout.
fn suite() -> Result<Suite, ExitCode> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    Suite::find(&here).map_err(|error| report(&error))
}

/// Prints why a selection failed; the exit code says whose fault it is.
fn report(error: &SuiteError) -> ExitCode {
    if error.is_usage() {
        complain!("failed to select: {error}");
        ExitCode::from(EXIT_USAGE)
    } else {
        complain!("failed to {error}");
        ExitCode::from(EXIT_COULD_NOT_RUN)
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

    /// Says the message, and gives the exit code.
    pub fn finish(&self) -> ExitCode {
        if let Some(message) = &self.message {
            complain!("{message}");
        }
        ExitCode::from(self.code)
    }
}
