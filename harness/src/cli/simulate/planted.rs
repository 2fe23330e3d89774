//! `simulate --planted`: at which seed, and after what time, which law finds each planted fault.

use std::time::{Duration, Instant};

use engine::planted::Planted;
use rayon::prelude::*;

use super::SimulateArgs;
use crate::cli::Exit;
use crate::cli::out::say;
use crate::golden::versions::Subject;
use crate::simulate::Reach;
use crate::simulate::canaries::{Found, Pair};
use crate::simulate::range::Range;
use crate::simulate::trial::runtime;

/// Time that a fault is looked for.
const LOOK_MAX: Duration = Duration::from_mins(1);

/// What became of a fault.
struct Row {
    fault: Planted,
    found: Option<Found>,
    seeds: u64,
    took: Duration,
}

/// Plants each fault in an engine.
pub(super) fn run(
    args: &SimulateArgs,
    range: Range,
    reach: Reach,
    subject: &Subject,
) -> Result<Exit, Exit> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.jobs);
    let pool = pool
        .build()
        .map_err(|error| Exit::could_not_run(&format!("start the threads: {error}")))?;
    say!(
        "simulate: {} planted faults in {}, seeds {range}, {} s each at most",
        Planted::ALL.len(),
        subject.name,
        LOOK_MAX.as_secs()
    );
    let all = Planted::ALL.par_iter();
    let rows: Result<Vec<Row>, Exit> = pool.install(|| {
        all.map(|fault| look(*fault, range, reach, subject))
            .collect()
    });
    let rows = rows?;
    say!("{:<22} {:>6} {:>8}  law", "fault", "seed", "time");
    for row in &rows {
        let (seed, law) = match &row.found {
            Some(found) => (found.seed.to_string(), found.law.clone()),
            None => ("-".to_owned(), format!("none in {} seeds", row.seeds)),
        };
        let seconds = row.took.as_secs_f64();
        say!("{:<22} {seed:>6} {seconds:>6.1} s  {law}", row.fault.name());
    }
    let found = rows.iter().filter(|row| row.found.is_some()).count();
    let missed = rows.len() - found;
    let enough = found >= args.planted_min;
    if !enough {
        say!(
            "{found} faults were found, at least {} have to be",
            args.planted_min
        );
    }
    say!(
        "{found} of {} planted faults found, {missed} missed",
        rows.len()
    );
    // What is missed within the wanted number is known, and no failure.
    let failed = if enough { 0 } else { args.planted_min - found };
    say!(
        "{found} passed, {failed} failed, {} skipped",
        missed - failed.min(missed)
    );
    Ok(if enough { Exit::OK } else { Exit::FINDINGS })
}

fn look(fault: Planted, range: Range, reach: Reach, subject: &Subject) -> Result<Row, Exit> {
    let pair = Pair::new(subject, fault).map_err(|why| Exit::usage(&why))?;
    let runtime = runtime().map_err(|error| Exit::could_not_run(&error.to_string()))?;
    let began = Instant::now();
    let mut row = Row {
        fault,
        found: None,
        seeds: 0,
        took: Duration::ZERO,
    };
    for seed in range.seeds(0, 1) {
        if began.elapsed() >= LOOK_MAX {
            break;
        }
        row.seeds += 1;
        row.found = pair.look(&runtime, reach, seed);
        if row.found.is_some() {
            break;
        }
    }
    row.took = began.elapsed();
    Ok(row)
}
