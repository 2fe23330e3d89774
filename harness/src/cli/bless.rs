//! `turnproof bless`: records goldens from a real binary, and its envelope when asked.

use super::Exit;
use super::context::{Context, block_on, subjects};
use crate::cli::out::say;
use crate::driver;
use crate::golden::bless::{accept, pending, refused_in_ci, retitle};
use crate::golden::envelope::ENVELOPE_SCENARIOS;
use crate::golden::gate::Gate;
use crate::golden::versions::{Arm, Subject};
use crate::mask::Masked;
use crate::report::text;
use crate::verify::{CaseResult, Verdict, plan_all, run_all};

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct BlessArgs {
    /// Scenario ids, folders or globs; all without one.
    pub patterns: Vec<String>,
    /// codex (all versions) or codex@V; repeatable.
    #[arg(long = "subject", value_name = "SUBJECT", required = true)]
    pub subjects: Vec<String>,
    /// Takes the version's envelope anew first.
    #[arg(long)]
    pub envelope: bool,
    /// Cases run at once.
    #[arg(long, default_value_t = 4, value_parser = super::jobs())]
    pub jobs: usize,
}

/// An engine is held to what the real binaries did; it never says what is right.
const NOTHING_OF_AN_ENGINE: &str = "nothing to bless: an engine records scenarios with `only: engine` \
    alone, and none is selected\n  help: `--subject codex` records from the real binaries";

/// Runs the command.
pub fn run(args: &BlessArgs, context: &Context) -> Exit {
    match bless(args, context) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn bless(args: &BlessArgs, context: &Context) -> Result<Exit, Exit> {
    if let Some(why) = refused_in_ci() {
        return Err(Exit::usage(why));
    }
    let mut results = Vec::new();
    for subject in subjects(&args.subjects, "codex")? {
        let mut gate = context.gate(&subject)?;
        if args.envelope {
            envelope(args, context, &subject, &mut gate)?;
        }
        let cases = context.select(&args.patterns, None)?;
        let mut planned =
            plan_all(&*context.cases, &cases, &subject).map_err(|e| Exit::from(&e))?;
        if subject.arm == Arm::Engine {
            planned.retain(|p| p.info.only_engine);
            if planned.is_empty() {
                return Err(Exit::usage(NOTHING_OF_AN_ENGINE));
            }
        }
        let mut keep = |_: &_, _: &_| {};
        let run = run_all(
            &driver::open,
            &subject,
            &planned,
            &gate,
            args.jobs,
            &mut keep,
        );
        for mut result in block_on(run)? {
            settle(&mut result, &gate)?;
            let case = cases.iter().find(|case| case.id == result.case);
            if let (Verdict::Passed, Some(case)) = (&result.verdict, case) {
                retitle(&gate.folder(&case.id), &case.description)
                    .map_err(|e| Exit::could_not_run(&e.to_string()))?;
            }
            results.push(result);
        }
    }
    crate::cli::out::write(format_args!("{}", text::report(&results, &[], &[])));
    super::judged(&results)?;
    let failed = results
        .iter()
        .any(|r| matches!(r.verdict, Verdict::Failed(_)));
    let not_run = results
        .iter()
        .any(|r| matches!(r.verdict, Verdict::NotRun(_)));
    Ok(if failed {
        Exit::FINDINGS
    } else if not_run {
        Exit::NOT_RUN
    } else {
        Exit::OK
    })
}

/// Accepts what a case left, unless something other than its golden is wrong.
fn settle(result: &mut CaseResult, gate: &Gate) -> Result<(), Exit> {
    let Verdict::Failed(findings) = &mut result.verdict else {
        return Ok(());
    };
    findings.retain(|f| !["golden.difference", "golden.unusable"].contains(&f.id.as_str()));
    if !findings.is_empty() {
        return Ok(());
    }
    let folder = gate.folder("");
    for one in pending(&folder)
        .iter()
        .filter(|p| result.pending.contains(&p.name))
    {
        accept(one).map_err(|e| Exit::could_not_run(&e.to_string()))?;
        say!("blessed golden/{}", one.name);
    }
    result.pending.clear();
    result.verdict = Verdict::Passed;
    Ok(())
}

fn envelope(
    args: &BlessArgs,
    context: &Context,
    subject: &Subject,
    gate: &mut Gate,
) -> Result<(), Exit> {
    let names: Vec<String> = ENVELOPE_SCENARIOS.iter().map(|s| (*s).to_owned()).collect();
    let mut cases = context.select(&names, None)?;
    cases.retain(|case| ENVELOPE_SCENARIOS.contains(&case.id.as_str()));
    let planned = plan_all(&*context.cases, &cases, subject).map_err(|e| Exit::from(&e))?;
    gate.write_pending = false;
    let mut recordings: Vec<Masked> = Vec::new();
    let mut keep = |_: &_, masked: &Masked| recordings.push(masked.clone());
    let run = run_all(&driver::open, subject, &planned, gate, args.jobs, &mut keep);
    let results = block_on(run)?;
    gate.write_pending = true;
    if recordings.len() != ENVELOPE_SCENARIOS.len() {
        crate::cli::out::write(format_args!("{}", text::report(&results, &[], &[])));
        return Err(Exit::could_not_run("record every scenario of the envelope"));
    }
    let list: Vec<&Masked> = recordings.iter().collect();
    let (name, envelope) = gate
        .write_envelope(subject, &list)
        .map_err(|e| Exit::could_not_run(&e.to_string()))?;
    for one in pending(&gate.folder("")).iter().filter(|p| p.name == name) {
        accept(one).map_err(|e| Exit::could_not_run(&e.to_string()))?;
        say!("blessed golden/{name}");
    }
    gate.set_envelope(subject.version, envelope);
    Ok(())
}
