//! `turnproof simulate`: drawn sessions on our engine, held to every law.

use std::time::Instant;

use super::Exit;
use crate::cli::out::say;
use crate::driver::engine::EngineDriver;
use crate::golden::versions::{Arm, Subject};
use crate::scenario::plain::Tree;
use crate::scenario::write::write;
use crate::simulate::{self, Dice, Reach, laws};

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct SimulateArgs {
    /// Seeds A..B, the last one left out.
    #[arg(long, value_name = "A..B", default_value = "0..1000")]
    pub seeds: String,
    /// Engine to simulate.
    #[arg(long, value_name = "SUBJECT", default_value = "engine@0.171+fixed")]
    pub profile: String,
    /// Real binary that plays the same sessions.
    #[arg(long, value_name = "SUBJECT")]
    pub against: Option<String>,
}

fn against(real: &str, from: u64, to: u64) -> Result<Exit, Exit> {
    let context = super::context::Context::here()?;
    let real = Subject::parse(real).map_err(|why| Exit::usage(&why))?;
    let gate = context.gate(&real)?;
    let engine = EngineDriver::new(real.family().name).expect("an engine");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    super::context::block_on(async {
        let seeds: Vec<u64> = (from..to).collect();
        for batch in seeds.chunks(40) {
            let mut drawn = Vec::new();
            for seed in batch {
                match simulate::against::draw(&engine, real.version, *seed).await {
                    Ok(one) => drawn.push(one),
                    Err(why) => {
                        skipped += 1;
                        say!("NOT RUN seed {seed}: {why}");
                    }
                }
            }
            let plans: Vec<_> = drawn.iter().map(|one| &one.plan).collect();
            let driver = match crate::driver::open(&real.name, &plans).await {
                Ok(driver) => driver,
                Err(why) => {
                    say!("NOT RUN: {why}");
                    return;
                }
            };
            simulate::against::compare(
                &*driver,
                &drawn,
                real.version,
                &gate.unmodelled,
                4,
                &mut |one, compared| match compared {
                    Err(why) => {
                        skipped += 1;
                        say!("NOT RUN seed {}: {why}", one.seed);
                    }
                    Ok(found) if found.is_empty() => passed += 1,
                    Ok(found) => {
                        failed += 1;
                        let path = format!("target/findings/{}-{}.yaml", real.name, one.seed);
                        let _ = std::fs::create_dir_all("target/findings");
                        let _ = std::fs::write(&path, write(&Tree::from(&one.scenario)));
                        say!(
                            "FAILED seed {}: {} differences, {path}",
                            one.seed,
                            found.len()
                        );
                        for finding in found.iter().take(3) {
                            say!("  {}", finding.message.replace('\n', "\n  "));
                        }
                    }
                },
            )
            .await;
        }
    })?;
    say!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(Exit::OK)
}

/// Runs the command.
pub fn run(args: &SimulateArgs) -> Exit {
    let subject = match Subject::parse(&args.profile) {
        Ok(subject) if subject.arm == Arm::Engine => subject,
        Ok(_) => return Exit::usage("--profile names an engine"),
        Err(why) => return Exit::usage(&why),
    };
    let Some((from, to)) = args.seeds.split_once("..") else {
        return Exit::usage("--seeds A..B");
    };
    let (Ok(from), Ok(to)) = (from.parse::<u64>(), to.parse::<u64>()) else {
        return Exit::usage("--seeds A..B: two whole numbers, for instance 0..1000");
    };
    if from >= to {
        return Exit::usage(&format!(
            "--seeds {from}..{to} draws nothing: A has to be below B"
        ));
    }
    if let Some(real) = &args.against {
        return against(real, from, to).unwrap_or_else(|exit| exit);
    }
    let name = subject.name.trim_start_matches("engine@");
    let driver = EngineDriver::new(name).expect("an engine");
    let reach = Reach {
        storage: true,
        faults: true,
        repeatable: false,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let mut counts: std::collections::BTreeMap<String, (usize, u64)> = Default::default();
    let (mut play, mut judge, mut requests, mut steps) = (0.0, 0.0, 0, 0);
    for seed in from..to {
        let at = Instant::now();
        let played = runtime.block_on(simulate::play(
            &driver,
            subject.version,
            reach,
            Dice::of_seed(seed),
            &format!("seed_{seed}"),
        ));
        play += at.elapsed().as_secs_f64();
        match played {
            Err(why) => {
                if let (simulate::Unplayed::NoVerdict(_, scenario), true) = (&why, to - from == 1) {
                    say!("{}", write(&Tree::from(&**scenario)));
                }
                counts
                    .entry(format!("unplayed: {why}"))
                    .or_insert((0, seed))
                    .0 += 1;
            }
            Ok(played) => {
                requests += played.outcome.recording.journal.len();
                steps += played.plan.steps.len();
                let at = Instant::now();
                let found = laws::unexplained(&played.plan, &played.outcome, subject.version);
                judge += at.elapsed().as_secs_f64();
                if to - from == 1 {
                    say!("{}", played.options);
                    say!("{}", write(&Tree::from(&played.scenario)));
                    for finding in found.values() {
                        say!("{}: {}", finding.id, finding.message);
                    }
                }
                for id in found.keys() {
                    if counts.get(id).is_none_or(|_| to - from == 1) {
                        if let Some(only) = std::env::var_os("ONLY") {
                            if !id.contains(&*only.to_string_lossy()) {
                                continue;
                            }
                        }
                        let small = simulate::find::smallest(
                            &runtime,
                            &driver,
                            subject.version,
                            &played.scenario,
                            id,
                            3000,
                        );
                        say!(
                            "--- {id} seed {seed}, {} runs\n{}",
                            small.runs,
                            write(&small.tree)
                        );
                    }
                }
                for id in found.into_keys() {
                    counts.entry(id).or_insert((0, seed)).0 += 1;
                }
            }
        }
    }
    for (id, (count, seed)) in &counts {
        say!("{count} {id} first {seed}");
    }
    say!("play {play:.2} s, judge {judge:.2} s, requests {requests}, steps {steps}");
    Exit::OK
}
