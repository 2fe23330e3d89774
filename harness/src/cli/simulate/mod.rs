//! `turnproof simulate`: drawn sessions on our engine, held to every law.

mod against;
mod findings;
mod planted;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use self::findings::Findings;
use super::context::Shard;
use super::{Exit, jobs, progress_bar};
use crate::cli::out::{complain, say};
use crate::golden::versions::{Arm, Subject};
use crate::simulate::coverage::{CELL_SESSIONS_MIN, Coverage};
use crate::simulate::range::{self, Range, Way};
use crate::simulate::trial::{Engine, Trial};
use crate::simulate::{Faults, Reach};

/// Seeds where none are asked for.
const SEEDS: &str = "0..1000";
/// Seeds where only a time is asked for: more than fit into it.
const SEEDS_OF_TIME: &str = "0..1000000000000";
/// Engine where none is asked for.
pub(super) const PROFILE: &str = "engine@0.171+fixed";
/// Seeds between two lines of progress where there is no terminal.
const SEEDS_PER_LINE: u64 = 1000;
const SECONDS_PER_MINUTE: u64 = 60;

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Each seed is a session: settings, steps and answers are drawn while our \
    engine plays it. What it leaves is held to every checker and bound (`law.…`). A broken law that \
    the client or the provider caused, and that docs/rules.md knows, is counted as explained. Of the \
    others the first and the shortest seed are kept, and the shortest is shrunk to a scenario.\n\n\
    Examples:\n  \
    cargo turnproof simulate --seeds 0..10000 --jobs 2\n  \
    cargo turnproof simulate --seeds 0..2000 --faults none --profile engine@0.144+fixed\n  \
    cargo turnproof simulate --minutes 10 --commit-seed $(git rev-parse HEAD)\n  \
    cargo turnproof simulate --seeds 0..40 --against codex@0.171.0\n  \
    cargo turnproof simulate --planted --seeds 0..2000\n  \
    cargo turnproof replay 18\n\n\
    Exit codes: 0 no law is broken without a known cause, 1 findings (or --coverage, --twice, \
    --planted fail), 2 wrong usage, 3 could not run."
)]
pub struct SimulateArgs {
    /// Seeds A..B, the last one left out (0..1000; with --minutes as many as there is time for).
    #[arg(long, value_name = "A..B")]
    pub seeds: Option<Range>,
    /// Engine to simulate: engine@V, engine@V+fixed, engine@V+planted:NAME. With --against the
    /// engine of that version.
    #[arg(long, value_name = "SUBJECT")]
    pub profile: Option<String>,
    /// Begins no more seeds behind this time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub minutes: Option<u64>,
    /// Faults that may be drawn: all, none, or some of stream,transport,storage,hooks (all; with
    /// --against all but storage).
    #[arg(long, value_name = "LIST")]
    pub faults: Option<Faults>,
    /// Threads; with --against sessions at once. The output is the same for every number.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = jobs())]
    pub jobs: usize,
    /// The I-th of N parts of the seeds.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Moves the seeds by a number made of this text, so that each commit has seeds of its own.
    #[arg(long, value_name = "HASH")]
    pub commit_seed: Option<String>,
    /// Plays each seed twice; stops at the first one that is another session the second time.
    #[arg(long, conflicts_with = "against")]
    pub twice: bool,
    /// Plays the sessions on a real binary, too, and compares the recordings.
    #[arg(long, value_name = "codex@V", conflicts_with_all = ["coverage", "planted"])]
    pub against: Option<String>,
    /// Prints how often compaction, step and fault came up together; fails where a cell has fewer
    /// sessions than --cell-min.
    #[arg(long)]
    pub coverage: bool,
    /// Fewest sessions of a cell of --coverage.
    #[arg(long, value_name = "N", default_value_t = CELL_SESSIONS_MIN, requires = "coverage")]
    pub cell_min: u64,
    /// Plants each fault of the engine in turn, and says which law finds it at which seed.
    #[arg(long, conflicts_with_all = ["coverage", "twice", "shard"])]
    pub planted: bool,
    /// Fewest planted faults that have to be found.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "planted")]
    pub planted_min: usize,
    /// Most runs that shrink a finding; 0 keeps it as it was drawn.
    #[arg(long, value_name = "RUNS", default_value_t = 3000)]
    pub shrink_runs: u64,
    /// Folder that findings are written to.
    #[arg(long, value_name = "FOLDER", default_value = "target/findings")]
    pub findings: PathBuf,
}

/// Runs the command.
pub fn run(args: &SimulateArgs) -> Exit {
    match simulated(args) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn simulated(args: &SimulateArgs) -> Result<Exit, Exit> {
    let range = range(args)?;
    if let Some(real) = &args.against {
        return against::run(args, range, real);
    }
    let subject = profile(args.profile.as_deref().unwrap_or(PROFILE))?;
    let reach = reach(args.faults.unwrap_or(Faults::ALL));
    if args.planted {
        return planted::run(args, range, reach, &subject);
    }
    let engine = Engine::new(&subject).map_err(|why| Exit::usage(&why))?;
    say!(
        "simulate: seeds {range} on {}, faults {}",
        engine.name,
        reach.faults
    );
    if let Some(seed) = range.single() {
        let options = engine.options(reach, seed);
        say!("{}", options.map_err(|why| Exit::usage(&why.to_string()))?);
    }
    let mut seen = Seen::new(args);
    let way = Way {
        reach,
        twice: args.twice,
        jobs: args.jobs,
    };
    range::play(&engine, way, shard(args, range), &mut |trial| {
        seen.take(trial)
    })
    .map_err(|why| Exit::could_not_run(&format!("start the threads: {why}")))?;
    seen.progress.bar.finish_and_clear();
    seen.end(args, &engine, reach)
}

/// The subject of `--profile`: one of our engines.
pub(super) fn profile(name: &str) -> Result<Subject, Exit> {
    let subject = Subject::parse(name).map_err(|why| Exit::usage(&format!("--profile: {why}")))?;
    if subject.arm == Arm::Codex {
        return Err(Exit::usage(&format!(
            "--profile {name} is a real binary: sessions are drawn on an engine of ours; \
             `--against {name}` plays them on it as well"
        )));
    }
    Ok(subject)
}

/// What the engine may be given.
pub(super) fn reach(faults: Faults) -> Reach {
    Reach {
        faults,
        ..Reach::ENGINE
    }
}

fn range(args: &SimulateArgs) -> Result<Range, Exit> {
    let default = if args.minutes.is_some() {
        SEEDS_OF_TIME
    } else {
        SEEDS
    };
    let range = args.seeds.map_or_else(|| default.parse(), Ok);
    let range = range.map_err(|why: String| Exit::usage(&why))?;
    let Some(hash) = &args.commit_seed else {
        return Ok(range);
    };
    range.moved_by(hash).ok_or_else(|| {
        Exit::usage("--seeds ends beyond the last number when --commit-seed moves it: begin lower")
    })
}

fn shard(args: &SimulateArgs, range: Range) -> impl Iterator<Item = u64> + use<> {
    let (index, of) = args.shard.map_or((0, 1), Shard::place);
    range.seeds(index, of)
}

/// What was seen so far.
struct Seen {
    findings: Findings,
    coverage: Coverage,
    passed: u64,
    failed: u64,
    skipped: Vec<String>,
    diverged: Option<String>,
    ends_at: Option<Instant>,
    progress: Progress,
}

impl Seen {
    fn new(args: &SimulateArgs) -> Self {
        let time = args
            .minutes
            .map(|minutes| Duration::from_secs(minutes * SECONDS_PER_MINUTE));
        Self {
            findings: Findings::default(),
            coverage: Coverage::default(),
            passed: 0,
            failed: 0,
            skipped: Vec::new(),
            diverged: None,
            ends_at: time.map(|time| Instant::now() + time),
            progress: Progress::new(),
        }
    }

    fn seeds(&self) -> u64 {
        self.passed + self.failed + self.skipped.len() as u64
    }

    /// Takes a trial; whether more are wanted.
    fn take(&mut self, trial: Trial) -> bool {
        let seed = trial.seed;
        self.diverged = trial
            .divergence
            .as_ref()
            .map(|found| format!("seed {seed}, {found}"));
        let is_sound = trial.unexplained.is_empty() && self.diverged.is_none();
        match &trial.not_run {
            Some(why) => self.skipped.push(format!("NOT RUN seed {seed}: {why}")),
            None if is_sound => self.passed += 1,
            None => self.failed += 1,
        }
        if trial.not_run.is_none() {
            self.coverage.add(&trial.came);
        }
        self.findings.take(trial);
        self.progress
            .tell(self.seeds(), self.findings.unexplained());
        let is_late = self.ends_at.is_some_and(|end| Instant::now() >= end);
        self.diverged.is_none() && !is_late
    }

    fn end(self, args: &SimulateArgs, engine: &Engine, reach: Reach) -> Result<Exit, Exit> {
        let seeds = self.seeds();
        for line in &self.skipped {
            say!("{line}");
        }
        self.findings.tell(args, engine, reach)?;
        let mut low = 0;
        if args.coverage {
            let (table, count) = self.coverage.table(engine.family, reach, args.cell_min);
            say!("{table}");
            low = count;
        }
        if let Some(diverged) = &self.diverged {
            say!("DIVERGED {diverged}");
            say!(
                "  rerun: {} --twice",
                findings::rerun(diverged_seed(diverged), engine, reach)
            );
        } else if args.twice {
            say!("each seed was the same session again");
        }
        say!(
            "{seeds} seeds, {} findings unexplained, {} explained by rule",
            self.findings.unexplained(),
            self.findings.explained()
        );
        let skipped = self.skipped.len();
        say!(
            "{} passed, {} failed, {skipped} skipped",
            self.passed,
            self.failed
        );
        Ok(if self.failed > 0 || low > 0 {
            Exit::FINDINGS
        } else if skipped > 0 {
            Exit::NOT_RUN
        } else {
            Exit::OK
        })
    }
}

/// The seed that a line of a divergence begins with.
fn diverged_seed(line: &str) -> u64 {
    let number = line.trim_start_matches("seed ").split(',').next();
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

/// How far it is, on standard error.
pub(super) struct Progress {
    pub(super) bar: ProgressBar,
    is_terminal: bool,
    began: Instant,
}

impl Progress {
    pub(super) fn new() -> Self {
        let (bar, is_terminal) = progress_bar();
        Self {
            bar,
            is_terminal,
            began: Instant::now(),
        }
    }

    fn tell(&self, seeds: u64, findings: u64) {
        if !self.is_terminal && !seeds.is_multiple_of(SEEDS_PER_LINE) {
            return;
        }
        let rate = seeds as f64 / self.began.elapsed().as_secs_f64().max(f64::EPSILON);
        self.say(&format!(
            "{seeds} seeds, {rate:.0} seeds/s, {findings} findings"
        ));
    }

    /// Shows a line in the place of the one before.
    pub(super) fn say(&self, line: &str) {
        if self.is_terminal {
            self.bar.set_message(line.to_owned());
            self.bar.tick();
        } else {
            complain!("simulate: {line}");
        }
    }
}
