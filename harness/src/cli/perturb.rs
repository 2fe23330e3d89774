//! `turnproof perturb`: variants of scenarios, live on the engine and on a real binary.

use super::Exit;
use super::context::{Context, block_on, subjects};
use crate::cases::PlanFor;
use crate::cli::out::say;
use crate::driver::{self, Driver, NoVerdict};
use crate::golden::gate::Gate;
use crate::golden::versions::{Arm, Subject};
use crate::perturb::{compare_live, perturb};
use crate::scenario::plan::Plan;

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct PerturbArgs {
    /// Scenario ids, folders or globs; all without one.
    pub patterns: Vec<String>,
    /// One seed.
    #[arg(long, conflicts_with = "seeds")]
    pub seed: Option<u64>,
    /// Number of variants that follow their script, dealt out over the scenarios, seeds counted
    /// from 0; variants that leave it are compared on top.
    #[arg(long, value_name = "N", value_parser = super::seeds())]
    pub seeds: Option<u64>,
    /// Real binary to compare with.
    #[arg(long, value_name = "SUBJECT", default_value = "codex@0.171.0")]
    pub against: String,
}

/// Runs the command.
pub fn run(args: &PerturbArgs, context: &Context) -> Exit {
    match variants(args, context) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn variants(args: &PerturbArgs, context: &Context) -> Result<Exit, Exit> {
    let real = subjects(std::slice::from_ref(&args.against), "codex")?.remove(0);
    if real.arm != Arm::Codex {
        return Err(Exit::usage("--against names a real binary (codex@V)"));
    }
    let engine = format!("engine@{}", real.family().name);
    let mut plans = Vec::new();
    for case in context
        .select(&args.patterns, None)?
        .iter()
        .filter(|c| !c.is_canary())
    {
        let plan = context
            .cases
            .plan(&case.id, real.family().real)
            .map_err(|e| Exit::from(&e))?;
        if let (PlanFor::Applicable(plan), false) = (plan, case.only_engine) {
            plans.push(*plan);
        }
    }
    if plans.is_empty() {
        let what = format!(
            "none of the scenarios runs on {}: name others, or another --against",
            real.name
        );
        return Err(Exit::usage(&what));
    }
    let drawn = draw(args, &plans);
    let wanted = wanted(args, &plans);
    say!(
        "perturb: {wanted} variants, seeds from {}",
        args.seed.unwrap_or(0)
    );
    let gate = context.gate(&real)?;
    let list: Vec<&Plan> = drawn.iter().map(|(_, _, plan)| plan).collect();
    block_on(async {
        let ours = driver::open(&engine, &list).await;
        let theirs = driver::open(&real.name, &list).await;
        match ours.and_then(|ours| Ok((ours, theirs?))) {
            Ok((ours, theirs)) => compare_all(&*ours, &*theirs, &drawn, wanted, &real, &gate).await,
            Err(reason) => not_run(&drawn, &reason),
        }
    })
}

type Drawn = (String, u64, Plan);

/// How many variants have to follow their script.
fn wanted(args: &PerturbArgs, plans: &[Plan]) -> u64 {
    match args.seed {
        Some(_) => plans.len() as u64,
        None => args.seeds.unwrap_or(plans.len() as u64),
    }
}

/// Variants to draw for `wanted` ones that follow their script: 5 to 7 in 100 leave it.
fn reserve(wanted: u64) -> u64 {
    wanted + wanted / 8 + 4
}

fn draw(args: &PerturbArgs, plans: &[Plan]) -> Vec<Drawn> {
    let one = |plan: &Plan, seed| (plan.id.clone(), seed, perturb(plan, seed));
    match args.seed {
        Some(seed) => plans.iter().map(|plan| one(plan, seed)).collect(),
        None => (0..reserve(wanted(args, plans)))
            .zip(plans.iter().cycle())
            .map(|(seed, plan)| one(plan, seed))
            .collect(),
    }
}

fn not_run(drawn: &[Drawn], reason: &NoVerdict) -> Exit {
    for (case, seed, _) in drawn {
        say!("NOT RUN {case} --seed {seed}: {reason}");
    }
    say!(
        "0 passed, 0 failed, {} skipped (not run {})",
        drawn.len(),
        drawn.len()
    );
    Exit::NOT_RUN
}

async fn compare_all(
    ours: &dyn Driver,
    theirs: &dyn Driver,
    drawn: &[Drawn],
    wanted: u64,
    real: &Subject,
    gate: &Gate,
) -> Exit {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut off_script = Vec::new();
    for (case, seed, plan) in drawn {
        if passed + failed + skipped == wanted {
            break;
        }
        let pair = match ours.run(plan).await {
            Ok(outcome) => theirs.run(plan).await.map(|other| (outcome, other)),
            Err(reason) => Err(reason),
        };
        let rerun = format!(
            "cargo turnproof perturb {case} --seed {seed} --against {}",
            real.name
        );
        match pair {
            Err(reason) => {
                skipped += 1;
                say!("NOT RUN {case} --seed {seed}: {reason}\n  rerun: {rerun}");
            }
            Ok((ours, theirs)) => {
                let profile = real.family().name;
                let found = compare_live(&ours, &theirs, profile, &gate.unmodelled);
                if found.is_empty() {
                    if ours.findings.is_empty() {
                        passed += 1;
                    } else {
                        let ids: Vec<&str> = ours
                            .findings
                            .iter()
                            .map(|finding| finding.id.as_str())
                            .collect();
                        off_script.push(format!("{case} --seed {seed}: {}", ids.join(", ")));
                    }
                    continue;
                }
                failed += 1;
                say!("FAILED {case} --seed {seed}");
                for finding in found {
                    say!(
                        "  {}: {}",
                        finding.id,
                        finding.message.replace('\n', "\n  ")
                    );
                }
                say!("  rerun: {rerun}\n");
            }
        }
    }
    for one in &off_script {
        say!("SKIPPED both sides left the script alike: {one}");
    }
    let left = off_script.len() as u64;
    say!(
        "{passed} passed, {failed} failed, {} skipped (left the script {left}, not run {skipped})",
        left + skipped
    );
    let short = drawn.len() as u64 > wanted && passed + failed < wanted;
    if short {
        say!("fewer than {wanted} variants followed their script: raise --seeds");
    }
    if failed > 0 {
        Exit::FINDINGS
    } else if skipped > 0 || short {
        Exit::NOT_RUN
    } else {
        Exit::OK
    }
}
