//! `turnproof list`: the scenarios of the checkout.

use crate::cli::out::say;
use std::process::ExitCode;

use clap::Args;

use super::{EXIT_USAGE, report, suite};

/// Arguments of `turnproof list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Ids, folders or globs; everything without one.
    pub scenarios: Vec<String>,
    /// Adds the description.
    #[arg(long, short)]
    pub long: bool,
}

/// Runs the command: 0 listed, 2 nothing selected or an invalid scenario.
pub fn run(args: &ListArgs) -> ExitCode {
    let suite = match suite() {
        Ok(suite) => suite,
        Err(code) => return code,
    };
    let files = match suite.select(&args.scenarios) {
        Ok(files) => files,
        Err(error) => return report(&error),
    };
    let mut code = ExitCode::SUCCESS;
    for file in files {
        if !args.long {
            say!("{}", file.id);
            continue;
        }
        match suite.load(file) {
            Ok(loaded) => say!("{}\n    {}", file.id, loaded.scenario.description),
            Err(errors) => {
                for error in errors {
                    eprintln!("{error}");
                }
                code = ExitCode::from(EXIT_USAGE);
            }
        }
    }
    code
}
