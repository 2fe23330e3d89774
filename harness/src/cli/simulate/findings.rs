//! Broken laws of a range: the first and the shortest seed of each, and a small scenario of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::SimulateArgs;
use crate::cli::Exit;
use crate::cli::out::say;
use crate::recording::Finding;
use crate::scenario::plain::Tree;
use crate::scenario::write::write;
use crate::shrink::Size;
use crate::simulate::find::smallest;
use crate::simulate::trial::{Engine, Trial, runtime};
use crate::simulate::{Faults, Reach};

/// A law that was broken without a known cause.
#[derive(Debug)]
struct Broken {
    first: u64,
    seeds: u64,
    /// Requests, steps and number of the shortest session: it is the fastest to play, and to shrink.
    shortest: (usize, usize, u64),
    /// What it broke there.
    finding: Finding,
    scenario: Option<Value>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    laws: BTreeMap<String, Broken>,
    explained: BTreeMap<(String, &'static str), u64>,
}

impl Findings {
    pub(super) fn take(&mut self, trial: Trial) {
        for known in trial.explained {
            *self.explained.entry(known).or_default() += 1;
        }
        let size = (trial.requests, trial.steps, trial.seed);
        for (law, finding) in trial.unexplained {
            let scenario = || trial.scenario.clone();
            let broken = self.laws.entry(law).or_insert_with(|| Broken {
                first: trial.seed,
                seeds: 0,
                shortest: size,
                finding: finding.clone(),
                scenario: scenario(),
            });
            broken.seeds += 1;
            if size < broken.shortest {
                broken.shortest = size;
                broken.finding = finding;
                broken.scenario = scenario();
            }
        }
    }

    /// Seeds and laws that are broken there without a known cause.
    pub(super) fn unexplained(&self) -> u64 {
        self.laws.values().map(|broken| broken.seeds).sum()
    }

    /// Seeds and laws that are broken there for a known cause.
    pub(super) fn explained(&self) -> u64 {
        self.explained.values().sum()
    }

    /// Prints what is broken, and keeps a small scenario of each law.
    pub(super) fn tell(
        &self,
        args: &SimulateArgs,
        engine: &Engine,
        reach: Reach,
    ) -> Result<(), Exit> {
        for ((law, rule), count) in &self.explained {
            say!("explained: {count} {law} by {rule}");
        }
        for (law, broken) in &self.laws {
            let Broken {
                first,
                seeds,
                shortest: (requests, steps, seed),
                finding,
                scenario,
            } = broken;
            say!(
                "FAILED {law} on {}: {seeds} seeds, first {first}, shortest {seed} ({requests} \
                 requests, {steps} steps)",
                engine.name
            );
            say!("  {}", finding.message);
            if let Some(scenario) = scenario {
                let saved = save(args, engine, reach, law, *seed, scenario)?;
                say!("  {saved}");
            }
            say!("  rerun: {}", rerun(*seed, engine, reach));
        }
        Ok(())
    }
}

/// The command that plays a seed again.
pub(super) fn rerun(seed: u64, engine: &Engine, reach: Reach) -> String {
    let faults = if reach.faults == Faults::ALL {
        String::new()
    } else {
        format!(" --faults {}", reach.faults)
    };
    format!(
        "cargo turnproof replay {seed} --profile {}{faults}",
        engine.name
    )
}

/// Shrinks a scenario and writes it; what became of it.
fn save(
    args: &SimulateArgs,
    engine: &Engine,
    reach: Reach,
    law: &str,
    seed: u64,
    scenario: &Value,
) -> Result<String, Exit> {
    let runtime = runtime().map_err(|error| Exit::could_not_run(&error.to_string()))?;
    let progress = super::Progress::new();
    let tell = &mut |runs: u64| {
        if runs.is_multiple_of(super::SEEDS_PER_LINE) {
            progress.say(&format!("{law}: {runs} runs of shrinking"));
        }
    };
    let runs_max = args.shrink_runs;
    let shrunk = (runs_max > 0)
        .then(|| smallest(&runtime, engine, scenario, law, runs_max, tell))
        .flatten();
    progress.bar.finish_and_clear();
    let (mut tree, how) = match shrunk {
        Some(shrunk) => {
            let runs = shrunk.runs;
            (shrunk.tree, format!("shrunk in {runs} runs"))
        }
        None if runs_max == 0 => (Tree::from(scenario), "as it was drawn".to_owned()),
        None => (
            Tree::from(scenario),
            "as it was drawn: played as a scenario it does not break the law".to_owned(),
        ),
    };
    let description = format!(
        "Seed {seed} breaks {law} on {}; rerun: {}.",
        engine.name,
        rerun(seed, engine, reach)
    );
    tree.set_first("description", Tree::Text(description));
    let folder = args.findings.join(engine.name.replace(':', "-"));
    let path = put(&folder, &format!("{law}-{seed}.yaml"), &write(&tree))?;
    let Size { steps, lines, .. } = Size::of(&tree);
    Ok(format!(
        "{}: {steps} steps, {lines} lines, {how}",
        path.display()
    ))
}

/// Writes a file below a folder, which is made if it is not there.
pub(super) fn put(folder: &Path, name: &str, text: &str) -> Result<PathBuf, Exit> {
    let path = folder.join(name);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
    let why = |error| Exit::could_not_run(&format!("write {}: {error}", path.display()));
    written.map_err(why)?;
    Ok(path)
}
