//! `turnproof diff`: runs one scenario on one subject and prints every difference from its golden.

use super::Exit;
use super::check::{self, CheckArgs};
use super::context::Context;

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct DiffArgs {
    /// Scenario id.
    pub case: String,
    /// engine (all profiles), engine@V, codex@V; repeatable.
    #[arg(long = "subject", value_name = "SUBJECT")]
    pub subjects: Vec<String>,
}

/// Runs the command: a check that leaves nothing behind.
pub fn run(args: &DiffArgs, context: &Context) -> Exit {
    let args = CheckArgs {
        record: None,
        patterns: vec![args.case.clone()],
        subjects: args.subjects.clone(),
        shard: None,
        json: None,
        junit: None,
        jobs: 1,
        min_cases: 0,
        no_pending: true,
    };
    check::run(&args, context)
}
