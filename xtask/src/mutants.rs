//! `mutants`: changes the engine on purpose and looks whether scenarios and tests notice.
//!
//! cargo-mutants lists the mutants of the history, compaction and token code and applies one at a
//! time in a copy of the checkout; a seed draws the sample. A mutant is caught when the engine's
//! tests or the scenario suite on the engine fail. By hand, not in the gate: each mutant is a build.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use crate::run::{root, say};

/// What is mutated, as cargo-mutants takes it.
const FILES: [&str; 7] = [
    "engine/src/compaction/*.rs",
    "engine/src/history.rs",
    "engine/src/items.rs",
    "engine/src/images.rs",
    "engine/src/tokens.rs",
    "engine/src/truncate.rs",
    "engine/src/settings.rs",
];
/// Longest run of tests and scenarios for one mutant, in seconds: a mutant may loop.
const TIMEOUT_SECONDS: &str = "300";

/// Runs `sample` mutants drawn with `seed`.
pub(crate) fn run(sample: usize, seed: u64) -> ExitCode {
    if !installed() {
        return ExitCode::from(3);
    }
    let mut list = vec![
        "mutants",
        "--list",
        "--package",
        "engine",
        "--line-col=true",
    ];
    for file in FILES {
        list.extend(["--file", file]);
    }
    say!("$ cargo {}", list.join(" "));
    let Some(all) = output(&list) else {
        return ExitCode::from(3);
    };
    let drawn = draw(&all, sample, seed);
    say!("seed {seed}: {} of {} mutants", drawn.len(), all.len());
    let mut survivors = Vec::new();
    let mut undecided = 0;
    for (number, mutant) in drawn.iter().enumerate() {
        let verdict = try_one(mutant);
        say!("{}/{} {verdict:?}: {mutant}", number + 1, drawn.len());
        match verdict {
            Verdict::Caught => {}
            Verdict::Survived => survivors.push(mutant),
            Verdict::Undecided => undecided += 1,
        }
    }
    for mutant in &survivors {
        say!("survived: {mutant}");
    }
    let caught = drawn.len() - survivors.len() - undecided;
    say!(
        "{caught} caught, {} survived, {undecided} did not build or run",
        survivors.len()
    );
    if survivors.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Something failed, or ran too long.
    Caught,
    /// Nothing noticed.
    Survived,
    /// The mutant does not compile, or the tool failed.
    Undecided,
}

fn installed() -> bool {
    let version = Command::new("cargo")
        .args(["mutants", "--version"])
        .output()
        .is_ok_and(|out| out.status.success());
    if version {
        return true;
    }
    say!("$ cargo install --locked cargo-mutants");
    Command::new("cargo")
        .args(["install", "--locked", "cargo-mutants"])
        .status()
        .is_ok_and(|status| status.success())
}

fn output(args: &[&str]) -> Option<Vec<String>> {
    let out = Command::new("cargo")
        .args(args)
        .current_dir(root())
        .output();
    let out = out.ok().filter(|out| out.status.success())?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    Some(text.lines().map(str::to_owned).collect())
}

/// A sample without repeats: the seed and the list alone decide it.
fn draw(all: &[String], sample: usize, seed: u64) -> Vec<String> {
    let mut left: Vec<&String> = all.iter().collect();
    let mut state = seed;
    let mut drawn = Vec::new();
    while drawn.len() < sample && !left.is_empty() {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let index = usize::try_from((z ^ (z >> 31)) % left.len() as u64).unwrap_or(0);
        drawn.push(left.remove(index).clone());
    }
    drawn
}

/// Builds one mutant and runs the engine's tests and the test per scenario and profile on it.
fn try_one(mutant: &str) -> Verdict {
    let name = format!("^{}$", escaped(mutant));
    let out: PathBuf = root().join("target").join("mutants");
    let child = Command::new("cargo")
        .args([
            "mutants",
            "--package",
            "engine",
            "--line-col=true",
            "--baseline=skip",
        ])
        .args(["--timeout", TIMEOUT_SECONDS, "--re", &name])
        .args(["--test-package", "engine,harness", "--output"])
        .arg(&out)
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        return Verdict::Undecided;
    };
    let lines = child.stdout.take().map(BufReader::new);
    let lines = lines
        .into_iter()
        .flat_map(|out| out.lines().map_while(Result::ok));
    for line in lines {
        // A long run shows that it lives.
        let _ = writeln!(std::io::stderr(), "  {line}");
    }
    // Exit codes as documented by cargo-mutants.
    match child.wait().ok().and_then(|status| status.code()) {
        Some(0 | 3) if unviable(&out) => Verdict::Undecided,
        Some(0 | 3) => Verdict::Caught,
        Some(2) => Verdict::Survived,
        Some(_) | None => Verdict::Undecided,
    }
}

/// Whether the only mutant of the last run did not compile.
fn unviable(out: &std::path::Path) -> bool {
    let list = out.join("mutants.out/unviable.txt");
    std::fs::read_to_string(list).is_ok_and(|text| !text.trim().is_empty())
}

/// The name as a regular expression that matches it alone.
fn escaped(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if !c.is_alphanumeric() && !c.is_whitespace() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_depends_on_the_seed_alone_and_repeats_nothing() {
        let all: Vec<String> = (0..50).map(|n| format!("m{n}")).collect();
        let first = draw(&all, 20, 1);
        assert_eq!(first, draw(&all, 20, 1));
        assert_ne!(first, draw(&all, 20, 2));
        let mut unique = first.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 20);
        assert_eq!(draw(&all, 99, 1).len(), 50, "no more than there are");
    }

    #[test]
    fn names_are_taken_literally() {
        assert_eq!(
            escaped("a.rs:1:2: replace f -> i64 with 0"),
            "a\\.rs\\:1\\:2\\: replace f \\-\\> i64 with 0"
        );
    }
}
