//! `bench suite`: how long the scenario suite takes, on the engine and on one real version.
//!
//! A time says little on a shared machine. So every run is shown beside the processor time it took,
//! and `--against` gives ratios to an earlier run. Nothing is asserted here: a timed test is a
//! flaky one.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::run::{root, say};

/// Runs of each suite.
const RUNS: usize = 3;
/// What the suites should take at most on two idle cores, in seconds.
const ENGINE_SECONDS: f64 = 2.0;
const REAL_SECONDS: f64 = 60.0;

/// What one benchmark took.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Timing {
    name: String,
    /// Wall time of each run in seconds, shortest first.
    wall: Vec<f64>,
    /// Processor time of the shortest run in seconds, where the system tells it.
    processor: Option<f64>,
    /// Target in seconds.
    target: f64,
}

/// Builds, runs and prints; `json` is written, `against` is compared with.
pub(crate) fn suite(json: Option<&str>, against: Option<&str>) -> ExitCode {
    let before: Vec<Timing> = match against.map(read).transpose() {
        Ok(before) => before.unwrap_or_default(),
        Err(why) => {
            say!("{why}");
            return ExitCode::from(2);
        }
    };
    if !build_release() {
        return ExitCode::FAILURE;
    }
    let newest = crate::PINNED[crate::PINNED.len() - 1];
    let real = format!("codex@{newest}");
    let mut timings = Vec::new();
    for (subject, target) in [("engine", ENGINE_SECONDS), (real.as_str(), REAL_SECONDS)] {
        match time(subject, target) {
            Ok(timing) => timings.push(timing),
            Err(why) => {
                say!("{subject}: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    for timing in &timings {
        timing.print(before.iter().find(|old| old.name == timing.name));
    }
    let text = serde_json::to_string_pretty(&timings).unwrap_or_default() + "\n";
    match json.map(|path| std::fs::write(path, text)).transpose() {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            say!("could not write the numbers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the program that is timed; whether that worked.
pub(crate) fn build_release() -> bool {
    let build = [
        "build",
        "--release",
        "-q",
        "-p",
        "harness",
        "--bin",
        "turnproof",
    ];
    say!("$ cargo {}", build.join(" "));
    let status = Command::new("cargo")
        .args(build)
        .current_dir(root())
        .status();
    status.is_ok_and(|status| status.success())
}

fn read(path: &str) -> Result<Vec<Timing>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    serde_json::from_str(&text)
        .map_err(|error| format!("{path}:{}: {error}; write it with --json", error.line()))
}

fn time(subject: &str, target: f64) -> Result<Timing, String> {
    let program = root().join("target/release/turnproof");
    let mut runs: Vec<(f64, Option<f64>)> = Vec::new();
    for _ in 0..RUNS {
        let spent = children();
        let start = Instant::now();
        let status = Command::new(&program)
            .args(["check", "--no-pending", "--subject", subject])
            .current_dir(root())
            .stdout(Stdio::null())
            .status()
            .map_err(|error| error.to_string())?;
        let wall = start.elapsed().as_secs_f64();
        if !status.success() {
            return Err("the suite does not hold; run `cargo turnproof check`".to_owned());
        }
        let processor = spent.and_then(|before| Some(children()? - before));
        runs.push((wall, processor));
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(Timing {
        name: format!("suite on {subject}"),
        wall: runs.iter().map(|(wall, _)| *wall).collect(),
        processor: runs[0].1,
        target,
    })
}

/// Processor time of all children that ended, in seconds; `None` where the system does not tell.
fn children() -> Option<f64> {
    /// Ticks of a second in `/proc`.
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string(Path::new("/proc/self/stat")).ok()?;
    // Fields are counted behind the name, which may hold blanks; user time of children is the 16th.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(13)? + ticks(14)?) / TICKS)
}

impl Timing {
    fn print(&self, before: Option<&Self>) {
        let (min, middle) = (self.wall[0], self.wall[self.wall.len() / 2]);
        let max = self.wall[self.wall.len() - 1];
        let processor = self
            .processor
            .map_or(String::new(), |spent| format!(", processor {spent:.2} s"));
        let verdict = if min < self.target { "within" } else { "over" };
        say!(
            "{}: min {min:.2} s, median {middle:.2} s, max {max:.2} s{processor}; {verdict} {} s",
            self.name,
            self.target
        );
        if let Some(before) = before {
            say!(
                "  {:.2} times the minimum of the earlier run",
                min / before.wall[0]
            );
        }
    }
}
