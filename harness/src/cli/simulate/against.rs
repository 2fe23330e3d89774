//! `simulate --against`: the same drawn sessions on our engine and on a real binary.

use super::findings::put;
use super::{SimulateArgs, shard};
use crate::cli::Exit;
use crate::cli::context::{Context, block_on};
use crate::cli::out::say;
use crate::driver::{self, NoVerdict};
use crate::golden::unmodelled::UnmodelledFields;
use crate::golden::versions::{Arm, Subject};
use crate::recording::Finding;
use crate::scenario::plain::Tree;
use crate::scenario::write::write;
use crate::simulate::against::{Drawn, REACH, compare, draw};
use crate::simulate::range::Range;
use crate::simulate::trial::Engine;
use crate::simulate::{Faults, Group, Reach};

/// Sessions that share a process of the binary: an older one reads the models of all of them once.
const BATCH: usize = 40;
/// Differences of a session that are printed.
const SHOWN_MAX: usize = 3;

/// Draws sessions on our engine and plays them on a binary.
pub(super) fn run(args: &SimulateArgs, range: Range, real: &str) -> Result<Exit, Exit> {
    let real = Subject::parse(real).map_err(|why| Exit::usage(&format!("--against: {why}")))?;
    if real.arm != Arm::Codex {
        return Err(Exit::usage("--against names a real binary (codex@V)"));
    }
    let reach = reach(args.faults)?;
    let ours = format!("engine@{}", real.family().name);
    let ours = super::profile(args.profile.as_deref().unwrap_or(&ours))?;
    if ours.version != real.version {
        let (ours, real) = (&ours.name, &real.name);
        let what = format!("--profile {ours} is another version than --against {real}");
        return Err(Exit::usage(&what));
    }
    let engine = Engine::new(&ours).map_err(|why| Exit::usage(&why))?;
    let context = Context::here()?;
    let gate = context.gate(&real)?;
    say!(
        "simulate: seeds {range} on {} and {}, faults {}",
        engine.name,
        real.name,
        reach.faults
    );
    let mut run = Run {
        args,
        engine: &engine,
        real: &real,
        reach,
        unmodelled: &gate.unmodelled,
        passed: 0,
        failed: 0,
        skipped: 0,
    };
    let seeds: Vec<u64> = shard(args, range).collect();
    block_on(async {
        for batch in seeds.chunks(BATCH) {
            run.batch(batch).await?;
        }
        Ok::<(), Exit>(())
    })??;
    let Run {
        passed,
        failed,
        skipped,
        ..
    } = run;
    say!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(if failed > 0 {
        Exit::FINDINGS
    } else if skipped > 0 {
        Exit::NOT_RUN
    } else {
        Exit::OK
    })
}

fn reach(faults: Option<Faults>) -> Result<Reach, Exit> {
    let faults = faults.unwrap_or(REACH.faults);
    if faults.has(Group::Storage) {
        return Err(Exit::usage(
            "--faults storage: the disk of a real binary does not fail when it is told to; \
             leave it out with --against",
        ));
    }
    Ok(Reach { faults, ..REACH })
}

struct Run<'a> {
    args: &'a SimulateArgs,
    engine: &'a Engine,
    real: &'a Subject,
    reach: Reach,
    unmodelled: &'a UnmodelledFields,
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Run<'_> {
    async fn batch(&mut self, seeds: &[u64]) -> Result<(), Exit> {
        let mut drawn = Vec::new();
        for seed in seeds {
            match draw(self.engine, self.reach, *seed).await {
                Ok(one) => drawn.push(one),
                Err(why) => self.skip(&format!("seed {seed}"), &why.to_string()),
            }
        }
        let plans: Vec<_> = drawn.iter().map(|one| &one.plan).collect();
        let driver = match driver::open(&self.real.name, &plans).await {
            Ok(driver) => driver,
            Err(why) => {
                for one in &drawn {
                    self.skip(&format!("seed {}", one.seed), &why.to_string());
                }
                return Ok(());
            }
        };
        let mut ended = Vec::new();
        compare(
            &*driver,
            &drawn,
            self.real.version,
            self.unmodelled,
            self.args.jobs,
            &mut |one, compared| ended.push((one.seed, compared)),
        )
        .await;
        // They end in any order, and are told in that of their seeds.
        ended.sort_by_key(|(seed, _)| *seed);
        for (seed, compared) in ended {
            let one = drawn.iter().find(|one| one.seed == seed);
            if let Some(one) = one {
                self.take(one, compared)?;
            }
        }
        Ok(())
    }

    fn skip(&mut self, what: &str, why: &str) {
        self.skipped += 1;
        say!("NOT RUN {what}: {why}");
    }

    fn take(&mut self, one: &Drawn, compared: Result<Vec<Finding>, NoVerdict>) -> Result<(), Exit> {
        let seed = one.seed;
        let found = match compared {
            Ok(found) => found,
            Err(why) => {
                self.skip(&format!("seed {seed}"), &why.to_string());
                return Ok(());
            }
        };
        if found.is_empty() {
            self.passed += 1;
            return Ok(());
        }
        self.failed += 1;
        let (ours, real) = (&self.engine.name, &self.real.name);
        let rerun = format!(
            "cargo turnproof simulate --seeds {seed}..{} --against {real} --faults {}",
            seed + 1,
            self.reach.faults
        );
        let mut tree = Tree::from(&one.scenario);
        let description = format!("Seed {seed} differs on {ours} and {real}; rerun: {rerun}.");
        tree.set_first("description", Tree::Text(description));
        let folder = self.args.findings.join(real);
        let path = put(&folder, &format!("differs-{seed}.yaml"), &write(&tree))?;
        let path = path.display();
        say!("FAILED seed {seed} on {real}: {} differences", found.len());
        for finding in found.iter().take(SHOWN_MAX) {
            say!("  {}", finding.message.replace('\n', "\n  "));
        }
        say!("  {path}, as it was drawn");
        say!("  shrink: cargo turnproof shrink {path} --while differs:{ours},{real}");
        say!("  rerun: {rerun}");
        Ok(())
    }
}
