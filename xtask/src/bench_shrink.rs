//! `bench shrink`: what is left of a scenario of sixty steps for each of the planted faults, and how
//! long that takes.
//!
//! The sizes are asserted, since they do not depend on the machine; the times are only shown.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::run::{root, say};

/// The scenario and the names of the faults; the tests of `shrink` read the same files.
const SCENARIO: &str = "harness/tests/data/shrink/long_day.yaml";
const FAULTS: &str = "harness/tests/data/shrink/faults.txt";
/// Steps that may be left.
const STEPS_LEFT_MAX: u64 = 4;
/// What a search should take at most on an idle core, in seconds.
const SECONDS: f64 = 30.0;

/// Builds, shrinks and prints.
pub(crate) fn run() -> ExitCode {
    if !crate::bench::build_release() {
        return ExitCode::FAILURE;
    }
    let faults = match std::fs::read_to_string(root().join(FAULTS)) {
        Ok(faults) => faults,
        Err(error) => {
            say!("{FAULTS}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut failed, mut slowest) = (0, 0.0_f64);
    for fault in faults.lines() {
        let start = Instant::now();
        let said = shrink(fault);
        let seconds = start.elapsed().as_secs_f64();
        slowest = slowest.max(seconds);
        match said {
            Ok(said) => say!("{fault}: {seconds:.2} s; {said}"),
            Err(why) => {
                failed += 1;
                say!("{fault}: FAILED: {why}");
            }
        }
    }
    let passed = faults.lines().count() - failed;
    let verdict = if slowest < SECONDS { "within" } else { "over" };
    say!("slowest {slowest:.2} s; {verdict} {SECONDS} s");
    say!("{passed} passed, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Shrinks for one fault; what the command says of the sizes.
fn shrink(fault: &str) -> Result<String, String> {
    let condition = format!("differs:engine@0.171,engine@0.171+planted:{fault}");
    let output = Command::new(root().join("target/release/turnproof"))
        .args(["shrink", SCENARIO, "--while", &condition])
        .current_dir(root())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    if !output.status.success() {
        return Err(said.trim_end().to_owned());
    }
    if steps_left(last).is_none_or(|left| left > STEPS_LEFT_MAX) {
        return Err(format!("more than {STEPS_LEFT_MAX} steps: {last}"));
    }
    if !last.ends_with("; 1-minimal") {
        return Err(format!("not minimal: {last}"));
    }
    Ok(last.trim_start_matches("shrink: ").to_owned())
}

/// The second number of `steps 60 → 2`.
fn steps_left(line: &str) -> Option<u64> {
    let behind = line.split_once("steps ")?.1;
    let left = behind.split_once("→ ")?.1;
    left.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::steps_left;

    #[test]
    fn the_steps_that_are_left_are_read() {
        let line = "shrink: steps 60 → 2, replies 69 → 1, lines 173 → 4; 67 runs; 1-minimal";
        assert_eq!(steps_left(line), Some(2));
        assert_eq!(steps_left("shrink: 500 runs"), None);
    }
}
