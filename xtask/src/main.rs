//! Tasks around the workspace: the gate, the real binaries, the numbers.
//!
//! It depends on no workspace crate: it runs cargo and the `turnproof` binary, prints each command
//! so that a person can run it alone, and counts what they report.

mod bench;
mod bench_resume;
mod bench_shrink;
mod ci;
mod mutants;
mod run;
mod transcripts;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <task>

  ci                     everything: format, lints, docs, tests, scenarios on the engine and on the
                         three real binaries, determinism, perturbed variants, generated files.
                         Ends with `N passed, N failed, N skipped`.
  ci --no-real           the same without the real binaries (their cases are counted as skipped)
  codex install [V...]   downloads and calibrates the real binaries (default: the pinned versions)
  codegen [--check]      writes the documents that are made from types, scenarios and data, or
                         compares them
  bench suite [--json FILE] [--against FILE]
                         how long the suite takes on the engine's profiles and on one real version,
                         with ratios to an earlier FILE
  bench resume [--json FILE]
                         how long the resume of a rollout of 1 GiB takes whose newest checkpoint
                         stands in its last megabyte: our reader against the newest real version
  bench shrink           what is left of a scenario of sixty steps for each planted fault, and how long
                         that takes
  record-transcripts     records threads of the real binaries with their own tools, for the tests of
                         `import` (by hand: ids and times are new each time)
  mutants --sample N --seed S [--only PART]
                         changes the engine's history, compaction and token code N times and says
                         which change no scenario and no test notices (by hand; N builds of about
                         ten seconds); of those drawn only the ones with PART in their name

Every step of `ci` prints its command first; run that command alone to repeat it.
";

/// Versions that goldens are recorded from, oldest first.
const PINNED: [&str; 3] = ["0.144.6", "0.164.0", "0.171.0"];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ci"] => ci::run(true),
        ["ci", "--no-real"] => ci::run(false),
        ["codex", "install", versions @ ..] => install(versions),
        ["codegen"] => run::exit(run::turnproof(&["schema", "--write"])),
        ["codegen", "--check"] => run::exit(run::turnproof(&["schema", "--check"])),
        ["mutants", "--sample", sample, "--seed", seed, rest @ ..] => {
            let only = match rest {
                [] => Some(None),
                ["--only", part] => Some(Some(*part)),
                _ => None,
            };
            if let (Ok(sample), Ok(seed), Some(only)) = (sample.parse(), seed.parse(), only) {
                mutants::run(sample, seed, only)
            } else {
                eprint!("`mutants` takes two numbers and `--only PART`\n\n{HELP}");
                ExitCode::from(2)
            }
        }
        ["record-transcripts"] => transcripts::record(),
        ["bench", "shrink"] => bench_shrink::run(),
        ["bench", "suite", rest @ ..] => {
            if let Some((json, against)) = bench_files(rest) {
                bench::suite(json, against)
            } else {
                eprint!("`bench suite` takes `--json FILE` and `--against FILE`\n\n{HELP}");
                ExitCode::from(2)
            }
        }
        ["bench", "resume"] => bench_resume::run(None),
        ["bench", "resume", "--json", file] => bench_resume::run(Some(file)),
        ["--help" | "-h" | "help"] => {
            crate::run::write(format_args!("{HELP}"));
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("unknown task: {}\n\n{HELP}", args.join(" "));
            ExitCode::from(2)
        }
    }
}

/// The files of `--json` and `--against`; `None` for anything else.
fn bench_files<'a>(mut words: &[&'a str]) -> Option<(Option<&'a str>, Option<&'a str>)> {
    let (mut json, mut against) = (None, None);
    while let [flag, file, rest @ ..] = words {
        match *flag {
            "--json" => json = Some(*file),
            "--against" => against = Some(*file),
            _ => return None,
        }
        words = rest;
    }
    words.is_empty().then_some((json, against))
}

fn install(versions: &[&str]) -> ExitCode {
    let versions = if versions.is_empty() {
        &PINNED[..]
    } else {
        versions
    };
    for version in versions {
        let status = run::turnproof(&["calibrate", &format!("codex@{version}")]);
        if !status {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
