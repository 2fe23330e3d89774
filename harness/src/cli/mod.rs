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

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::RangedU64ValueParser;
use indicatif::{ProgressBar, ProgressDrawTarget};

use self::out::complain;
use crate::rollout_file::regular;
use crate::scenario::{Suite, SuiteError};
use crate::verify::{CaseResult, Verdict};

/// Usage error or invalid scenario.
pub const EXIT_USAGE: u8 = 2;
/// The environment does not allow it to run.
pub const EXIT_COULD_NOT_RUN: u8 = 3;

/// A number of cases at once: at least one.
fn jobs() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=64)
}

/// Most seeds of a command: they are drawn before the first one is run.
const SEEDS_MAX: u64 = 1_000_000;

/// A number of seeds: a command that draws none would say that all is well.
fn seeds() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..=SEEDS_MAX)
}

/// A bar on standard error, hidden where that is no terminal, and whether it is one.
fn progress_bar() -> (ProgressBar, bool) {
    let is_terminal = std::io::stderr().is_terminal();
    let target = if is_terminal {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    (ProgressBar::with_draw_target(None, target), is_terminal)
}

/// The suite of the current folder's checkout.
fn suite() -> Result<Suite, ExitCode> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    Suite::find(&here).map_err(|error| report(&error))
}

/// A run in which no scenario applies to a subject says nothing, and so is not green.
fn judged(results: &[CaseResult]) -> Result<(), Exit> {
    let none = |result: &CaseResult| matches!(result.verdict, Verdict::NotApplicable(_));
    if results.iter().any(|result| !none(result)) {
        return Ok(());
    }
    let what = "no scenario ran: none is selected that applies to a subject\n  \
                help: name others, or other subjects with --subject";
    Err(Exit::usage(what))
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

/// 128 and the number of SIGPIPE.
const EXIT_NO_READER: u8 = 141;

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

    /// A file that was not written: a name that no file can have is a slip of whoever typed it.
    pub fn unwritten(path: &Path, error: &std::io::Error) -> Self {
        let message = format!("write {}: {error}", path.display());
        if regular::is_slip(error) {
            Self::usage(&format!("failed to {message}"))
        } else {
            Self::could_not_run(&message)
        }
    }

    /// Says the message, and gives the exit code.
    pub fn finish(&self) -> ExitCode {
        if let Some(message) = &self.message {
            complain!("{message}");
        }
        if self.message.is_none() && self.code == EXIT_NO_READER {
            crate::interrupt::end_by_sigpipe();
        }
        ExitCode::from(self.code)
    }
}
