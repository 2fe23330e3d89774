//! Tasks around the workspace: the gate, the real binaries, the numbers.
//!
//! It depends on no workspace crate: it runs cargo and the `turnproof` binary, prints each command
//! so that a person can run it alone, and counts what they report.

mod ci;
mod mutants;
mod run;

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
  mutants --sample N --seed S
                         changes the engine's history, compaction and token code N times and says
                         which change no test and no scenario notices (by hand; N builds)

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
        ["mutants", "--sample", sample, "--seed", seed] => {
            if let (Ok(sample), Ok(seed)) = (sample.parse(), seed.parse()) {
                mutants::run(sample, seed)
            } else {
                eprint!("`mutants` takes numbers\n\n{HELP}");
                ExitCode::from(2)
            }
        }
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
