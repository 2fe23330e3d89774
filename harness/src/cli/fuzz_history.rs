//! `turnproof fuzz-history`: drawn histories, live on the engine and on a real binary.

use clap::ValueEnum as _;

use super::Exit;
use super::context::{Context, block_on, subjects};
use crate::cli::out::say;
use crate::driver::{self, Driver, NoVerdict, Outcome};
use crate::fuzz::{self, Place};
use crate::golden::unmodelled::UnmodelledFields;
use crate::golden::versions::Arm;
use crate::perturb::compare_live;
use crate::scenario::plan::Plan;

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct FuzzHistoryArgs {
    /// One seed.
    #[arg(long, conflicts_with = "seeds")]
    pub seed: Option<u64>,
    /// Seeds counted from 0.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = super::seeds())]
    pub seeds: u64,
    /// Where the drawn items stand.
    #[arg(long, value_enum, default_value_t = Place::Supplied)]
    pub place: Place,
    /// Real binary to compare with.
    #[arg(long, value_name = "SUBJECT", default_value = "codex@0.171.0")]
    pub against: String,
}

/// Runs the command.
pub fn run(args: &FuzzHistoryArgs, context: &Context) -> Exit {
    match sequences(args, context) {
        Ok(exit) | Err(exit) => exit,
    }
}

/// What a seed is compared by.
struct Judge<'a> {
    place: Place,
    profile: &'a str,
    unmodelled: &'a UnmodelledFields,
}

impl Judge<'_> {
    fn difference(&self, ours: &Outcome, real: &Outcome) -> Option<String> {
        if self.place == Place::Supplied {
            return fuzz::difference(ours, real);
        }
        let found = compare_live(ours, real, self.profile, self.unmodelled);
        let texts: Vec<String> = found.into_iter().map(|finding| finding.message).collect();
        (!texts.is_empty()).then(|| texts.join("\n  "))
    }
}

fn sequences(args: &FuzzHistoryArgs, context: &Context) -> Result<Exit, Exit> {
    let real = subjects(std::slice::from_ref(&args.against), "codex")?.remove(0);
    if real.arm != Arm::Codex {
        return Err(Exit::usage("--against names a real binary (codex@V)"));
    }
    let version = semver::Version::parse(real.family().real)
        .map_err(|error| Exit::usage(&error.to_string()))?;
    let seeds: Vec<u64> = args
        .seed
        .map_or_else(|| (0..args.seeds).collect(), |one| vec![one]);
    let mut plans = Vec::new();
    for seed in &seeds {
        plans.push(fuzz::plan(*seed, &version, args.place).map_err(|why| Exit::usage(&why))?);
    }
    say!(
        "fuzz-history: {} histories, seeds {} to {}",
        seeds.len(),
        seeds.first().unwrap_or(&0),
        seeds.last().unwrap_or(&0)
    );
    let engine = format!("engine@{}", real.family().name);
    let gate = context.gate(&real)?;
    let judge = Judge {
        place: args.place,
        profile: real.family().name,
        unmodelled: &gate.unmodelled,
    };
    let list: Vec<&Plan> = plans.iter().collect();
    block_on(async {
        let ours = driver::open(&engine, &list).await;
        let theirs = driver::open(&real.name, &list).await;
        match ours.and_then(|ours| Ok((ours, theirs?))) {
            Ok((ours, theirs)) => {
                compare_all(
                    &*ours,
                    &*theirs,
                    seeds.iter().copied().zip(&plans),
                    &real.name,
                    &judge,
                )
                .await
            }
            Err(reason) => {
                say!("NOT RUN: {reason}");
                say!("0 passed, 0 failed, {} skipped", plans.len());
                Exit::NOT_RUN
            }
        }
    })
}

async fn compare_all(
    ours: &dyn Driver,
    theirs: &dyn Driver,
    drawn: impl Iterator<Item = (u64, &Plan)>,
    real: &str,
    judge: &Judge<'_>,
) -> Exit {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (seed, plan) in drawn {
        let place = judge.place.to_possible_value();
        let place = place.as_ref().map_or("supplied", |place| place.get_name());
        let rerun =
            format!("cargo turnproof fuzz-history --seed {seed} --place {place} --against {real}");
        let pair: Result<_, NoVerdict> = match ours.run(plan).await {
            Ok(outcome) => theirs.run(plan).await.map(|other| (outcome, other)),
            Err(reason) => Err(reason),
        };
        match pair {
            Err(reason) => {
                skipped += 1;
                say!("NOT RUN seed {seed}: {reason}\n  rerun: {rerun}");
            }
            Ok((ours, theirs)) => match judge.difference(&ours, &theirs) {
                None => passed += 1,
                Some(found) => {
                    failed += 1;
                    say!("FAILED seed {seed}: {found}\n  rerun: {rerun}");
                }
            },
        }
    }
    say!("{passed} passed, {failed} failed, {skipped} skipped (not run {skipped})");
    if failed > 0 {
        Exit::FINDINGS
    } else if skipped > 0 {
        Exit::NOT_RUN
    } else {
        Exit::OK
    }
}
