//! `turnproof check`: runs scenarios and holds them to goldens, assertions and checkers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Exit;
use super::context::{Context, Shard, block_on, subjects};
use crate::driver;
use crate::golden::deviations::Owner;
use crate::golden::orphans::orphans;
use crate::golden::versions::Subject;
use crate::mask::Masked;
use crate::report::{self, Counts};
use crate::verify::{CaseResult, Planned, plan_all, run_all};

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct CheckArgs {
    /// Scenario ids, folders or globs; all without one.
    pub patterns: Vec<String>,
    /// engine (all profiles), codex (all versions), engine@V, codex@V; repeatable.
    #[arg(long = "subject", value_name = "SUBJECT")]
    pub subjects: Vec<String>,
    /// Only the I-th of N parts of the selection.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Writes the results as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Writes the results as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Cases run at once on one subject.
    #[arg(long, default_value_t = 4, value_parser = super::jobs())]
    pub jobs: usize,
    /// Fails if fewer cases than this got a verdict.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_cases: usize,
    /// Writes every masked recording below this folder, to compare runs byte by byte.
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Leaves no pending goldens behind.
    #[arg(long)]
    pub no_pending: bool,
}

/// Runs the command.
pub fn run(args: &CheckArgs, context: &Context) -> Exit {
    match check(args, context) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn check(args: &CheckArgs, context: &Context) -> Result<Exit, Exit> {
    let subjects = subjects(&args.subjects, "engine")?;
    let cases = context.select(&args.patterns, args.shard)?;
    let whole_suite = args.patterns.is_empty() && args.shard.is_none();
    let (mut results, mut problems, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let ids: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    if whole_suite {
        problems.extend(orphans(&context.root, &ids));
    }
    for subject in &subjects {
        let planned = plan_all(&*context.cases, &cases, subject).map_err(|e| Exit::from(&e))?;
        let mut gate = context.gate(subject)?;
        gate.write_pending = !args.no_pending && std::env::var_os("CI").is_none();
        let mut unwritten = None;
        let mut keep = |planned: &Planned, masked: &Masked| {
            if let Some(folder) = &args.record
                && let Err(error) = record(folder, subject, &planned.case.id, masked)
            {
                unwritten.get_or_insert(error);
            }
        };
        let run = run_all(
            &driver::open,
            subject,
            &planned,
            &gate,
            args.jobs,
            &mut keep,
        );
        let part = block_on(run)?;
        if let Some(error) = unwritten {
            return Err(Exit::could_not_run(&error));
        }
        let all_ran = Counts::of(&part).not_run == 0;
        results.extend(part);
        problems.extend(gate.deviations.unused());
        if whole_suite {
            problems.extend(gate.deviations.unknown_cases(&ids));
        }
        let profiles = [subject.family().name];
        problems.extend(
            gate.unmodelled
                .problems(&profiles, whole_suite && all_ran && is_engine(subject)),
        );
        notes = vec![format!(
            "known: {} deviations ours, {} upstream, {} unmodelled fields",
            gate.deviations.count(Owner::Ours),
            gate.deviations.count(Owner::Upstream),
            gate.unmodelled.count()
        )];
    }
    problems.dedup();
    let counts = Counts::of(&results);
    let judged = counts.passed + counts.failed;
    if judged < args.min_cases && counts.not_run == 0 {
        problems.push(format!(
            "{judged} cases got a verdict, at least {} are wanted",
            args.min_cases
        ));
    }
    write_reports(args, &results, &problems)?;
    crate::cli::out::write(format_args!(
        "{}",
        report::text::report(&results, &problems, &notes)
    ));
    if problems.is_empty() {
        super::judged(&results)?;
    }
    Ok(if counts.failed > 0 || !problems.is_empty() {
        Exit::FINDINGS
    } else if counts.not_run > 0 {
        Exit::NOT_RUN
    } else {
        Exit::OK
    })
}

/// Writes one masked recording.
fn record(folder: &Path, subject: &Subject, id: &str, masked: &Masked) -> Result<(), String> {
    let path = folder.join(&subject.name).join(format!("{id}.txt"));
    let failed = |error: std::io::Error| format!("write {}: {error}", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    std::fs::write(&path, format!("{masked:#?}\n")).map_err(failed)
}

fn is_engine(subject: &Subject) -> bool {
    subject.arm == crate::golden::versions::Arm::Engine
}

fn write_reports(
    args: &CheckArgs,
    results: &[CaseResult],
    problems: &[String],
) -> Result<(), Exit> {
    let write = |path: &PathBuf, text: String| {
        std::fs::write(path, text).map_err(|error| Exit::unwritten(path, &error))
    };
    if let Some(path) = &args.json {
        write(path, format!("{:#}\n", report::json(results, problems)))?;
    }
    if let Some(path) = &args.junit {
        write(
            path,
            report::junit::report(results).map_err(|e| Exit::could_not_run(&e))?,
        )?;
    }
    Ok(())
}
