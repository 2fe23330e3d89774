//! The gate: every step prints its command, and the last line counts all of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::PINNED;
use crate::run::{Counts, Ended, root, say, step};

/// Fewest cases that the engine's three profiles have to give a verdict on.
const ENGINE_CASES_MIN: &str = "2000";
/// Fewest cases that one real version has to give a verdict on.
const REAL_CASES_MIN: &str = "620";
/// Fewest crash points of `turnproof crash`: ten scenarios, three families, each append twice.
const CRASH_POINTS_MIN: &str = "1900";
/// Drawn sessions of each family, each played twice.
const SIMULATED: &str = "0..200";
/// Seeds in which planted faults are looked for.
const PLANTED_SEEDS: &str = "0..120";
/// Fewest of the 31 planted faults that drawn sessions have to find: four of five.
const PLANTED_MIN: &str = "25";
/// Perturbed variants a version that follow their script.
const VARIANTS: &str = "50";
/// Fewest variants a version that follow their script and are equal.
const VARIANTS_MIN: u64 = 50;
/// Drawn histories a version; by hand 300 were run.
const HISTORIES: &str = "60";
/// Tests that draw recorded cases and ask the real binaries again.
const DRAWN_CASES: &str = "drawn_";
/// Fewest of these cases that are as recorded: 60 of items behind a turn, 59 of 60 whole rollouts.
const DRAWN_CASES_MIN: u64 = 119;
/// Scenarios that run twice on each real version.
const REPEATED: [&str; 3] = [
    "turn/sends_the_output_of_a_call",
    "compaction/local/story_compacts_before_the_next_turn",
    "compaction/local/resumes_after_a_mid_turn_compaction",
];
/// Scenarios with parallel calls: five times on each real version.
const PARALLEL: [&str; 2] = [
    "turn/puts_parallel_outputs_in_call_order",
    "turn/keeps_a_message_between_calls_in_place",
];
/// Runs of a scenario with parallel calls.
const PARALLEL_RUNS: usize = 5;

/// What has been counted so far.
struct Gate {
    counts: Counts,
    broken: Vec<String>,
}

impl Gate {
    /// Runs a step that counts as one.
    fn one(&mut self, name: &str, program: &str, args: &[&str], env: &[(&str, &str)]) {
        let ended = announce(name, || step(&root(), program, args, env));
        self.counts.add(Counts {
            passed: u64::from(ended.ok),
            failed: u64::from(!ended.ok),
            skipped: 0,
        });
        self.note(name, ended.ok);
    }

    /// Runs a step whose closing lines count cases; how many passed.
    fn cases(&mut self, name: &str, folder: &Path, program: &str, args: &[&str]) -> u64 {
        self.cases_with(name, folder, program, args, &[])
    }

    fn cases_with(
        &mut self,
        name: &str,
        folder: &Path,
        program: &str,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> u64 {
        let mut ended = announce(name, || step(folder, program, args, env));
        if ended.counts.passed + ended.counts.failed == 0 {
            say!("  nothing ran: that is a failure");
            ended.ok = false;
        }
        if !ended.ok && ended.counts.failed == 0 {
            ended.counts.failed = 1;
        }
        self.counts.add(ended.counts);
        self.note(name, ended.ok);
        ended.counts.passed
    }

    fn note(&mut self, name: &str, ok: bool) {
        if !ok {
            self.broken.push(name.to_owned());
        }
    }

    /// Counts a check that is made here.
    fn verdict(&mut self, name: &str, result: Result<(), String>) {
        say!("== {name}");
        let ok = result.is_ok();
        match result {
            Ok(()) => say!("  holds"),
            Err(why) => say!("  {why}"),
        }
        self.counts.add(Counts {
            passed: u64::from(ok),
            failed: u64::from(!ok),
            skipped: 0,
        });
        self.note(name, ok);
    }
}

fn announce(name: &str, run: impl FnOnce() -> Ended) -> Ended {
    say!("== {name}");
    let started = Instant::now();
    let ended = run();
    say!(
        "  {} in {:.1} s",
        if ended.ok { "ok" } else { "FAILED" },
        started.elapsed().as_secs_f64()
    );
    ended
}

/// Runs the gate; `real` includes the real binaries.
pub(crate) fn run(real: bool) -> ExitCode {
    let mut gate = Gate {
        counts: Counts::default(),
        broken: Vec::new(),
    };
    static_steps(&mut gate);
    let here = root();
    gate.cases(
        "unit tests and named cases",
        &here,
        "cargo",
        &["test", "--workspace", "-q"],
    );
    say!(
        "  ignored there: cases and tests that need a real binary; the steps named codex@… and \
         `tests that need a real binary` run them"
    );
    let turnproof = match binary(&here) {
        Some(path) => path.display().to_string(),
        None => "turnproof".to_owned(),
    };
    gate.one("scenarios are valid", &turnproof, &["lint"], &[]);
    gate.one("generated files", &turnproof, &["schema", "--check"], &[]);
    gate.cases(
        "scenarios on the engine",
        &here,
        &turnproof,
        &["check", "--min-cases", ENGINE_CASES_MIN, "--no-pending"],
    );
    gate.cases(
        "crash points on the engine with its faults mended",
        &here,
        &turnproof,
        &["crash", "--min-points", CRASH_POINTS_MIN],
    );
    for family in ["0.144", "0.164", "0.171"] {
        let subject = format!("engine@{family}+fixed");
        let mut args = vec!["simulate", "--twice", "--jobs", "2", "--seeds", SIMULATED];
        args.extend(["--profile", &subject]);
        let name = format!("{subject}: drawn sessions, twice");
        gate.cases(&name, &here, &turnproof, &args);
    }
    let mut args = vec![
        "simulate",
        "--planted",
        "--jobs",
        "2",
        "--seeds",
        PLANTED_SEEDS,
    ];
    args.extend(["--planted-min", PLANTED_MIN]);
    gate.cases("planted faults in drawn sessions", &here, &turnproof, &args);
    engine_determinism(&mut gate, &turnproof);
    if real {
        for version in PINNED {
            real_steps(&mut gate, &turnproof, version);
        }
        elsewhere(&mut gate, &turnproof);
        recorded_cases(&mut gate);
        let ignored = [
            "test",
            "-q",
            "-p",
            "harness",
            "--lib",
            "--",
            "--ignored",
            "--skip",
            DRAWN_CASES,
        ];
        gate.cases("tests that need a real binary", &here, "cargo", &ignored);
    } else {
        say!("== real binaries\n  skipped: --no-real");
        gate.counts.add(Counts {
            passed: 0,
            failed: 0,
            skipped: PINNED.len() as u64,
        });
    }
    for name in &gate.broken {
        say!("broken: {name}");
    }
    let Counts {
        passed,
        failed,
        skipped,
    } = gate.counts;
    say!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 && gate.broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn static_steps(gate: &mut Gate) {
    gate.one("format", "cargo", &["fmt", "--all", "--check"], &[]);
    gate.one(
        "lints",
        "cargo",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "-q",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    );
    gate.one(
        "documentation",
        "cargo",
        &["doc", "--workspace", "--no-deps", "-q"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    );
    gate.one(
        "build",
        "cargo",
        &["build", "-q", "-p", "harness", "--bin", "turnproof"],
        &[],
    );
}

/// The built command.
fn binary(root: &Path) -> Option<PathBuf> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let path = target.join("debug").join("turnproof");
    path.is_file().then_some(path)
}

/// Each scenario twice on the engine, in two folders of different depth, byte-equal.
fn engine_determinism(gate: &mut Gate, turnproof: &str) {
    let scratch = root().join("target").join("determinism");
    let folders = [
        scratch.join("a"),
        scratch.join("b").join("deeper").join("still"),
    ];
    let result = (|| {
        let _ = fs::remove_dir_all(&scratch);
        for (folder, (zone, mask)) in folders.iter().zip([("UTC", "022"), ("Asia/Tokyo", "077")]) {
            checkout(folder).map_err(|error| error.to_string())?;
            let out = folder.join("out").display().to_string();
            let line =
                format!("umask {mask}; exec \"$0\" check --no-pending --record \"$1\" >/dev/null");
            let ended = step(
                folder,
                "sh",
                &["-c", &line, turnproof, &out],
                &[("TZ", zone)],
            );
            if !ended.ok {
                return Err("the check in another folder does not hold".to_owned());
            }
        }
        same_files(&folders[0].join("out"), &folders[1].join("out"))
    })();
    gate.verdict(
        "determinism of the engine: two folders, two time zones, two umasks",
        result,
    );
}

/// What a run needs of the checkout.
fn checkout(folder: &Path) -> io::Result<()> {
    for part in ["scenarios", "golden", "docs"] {
        copy(&root().join(part), &folder.join(part))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Whether two folders hold the same files with the same bytes; at least one.
fn same_files(a: &Path, b: &Path) -> Result<(), String> {
    let (left, right) = (list(a)?, list(b)?);
    if left.is_empty() {
        return Err(format!("{} holds no recording", a.display()));
    }
    if left != right {
        return Err("the two runs recorded different cases".to_owned());
    }
    for name in &left {
        let read = |folder: &Path| fs::read(folder.join(name)).map_err(|e| e.to_string());
        if read(a)? != read(b)? {
            return Err(format!("{} differs between two runs", name.display()));
        }
    }
    say!("  {} recordings byte-equal", left.len());
    Ok(())
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).map_err(|e| format!("{}: {e}", next.display()))? {
            let path = entry.map_err(|e| e.to_string())?.path();
            if path.is_dir() {
                open.push(path);
            } else if let Ok(name) = path.strip_prefix(folder) {
                found.push(name.to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Goldens, repeated runs and perturbed variants on one real version.
fn real_steps(gate: &mut Gate, turnproof: &str, version: &str) {
    let here = root();
    let subject = format!("codex@{version}");
    gate.one(
        &format!("{subject}: install and calibrate"),
        turnproof,
        &["calibrate", &subject],
        &[],
    );
    gate.cases(
        &format!("{subject}: goldens"),
        &here,
        turnproof,
        &[
            "check",
            "--subject",
            &subject,
            "--min-cases",
            REAL_CASES_MIN,
            "--no-pending",
        ],
    );
    for (ids, runs) in [(&REPEATED[..], 2), (&PARALLEL[..], PARALLEL_RUNS)] {
        for run in 1..=runs {
            let mut args = vec!["check", "--subject", &subject, "--no-pending"];
            args.extend(ids);
            gate.cases(
                &format!("{subject}: the same again, run {run} of {runs}"),
                &here,
                turnproof,
                &args,
            );
        }
    }
    for place in ["supplied", "injected", "response"] {
        gate.cases(
            &format!("{subject}: {HISTORIES} drawn histories, {place}"),
            &here,
            turnproof,
            &[
                "fuzz-history",
                "--place",
                place,
                "--seeds",
                HISTORIES,
                "--against",
                &subject,
            ],
        );
    }
    let name = format!("{subject}: {VARIANTS} perturbed variants");
    let args = ["perturb", "--seeds", VARIANTS, "--against", &subject];
    let equal = gate.cases(&name, &here, turnproof, &args);
    let enough = if equal >= VARIANTS_MIN {
        Ok(())
    } else {
        Err(format!(
            "{equal} equal variants followed their script, at least {VARIANTS_MIN} have to"
        ))
    };
    gate.verdict(
        &format!("{subject}: at least {VARIANTS_MIN} equal variants"),
        enough,
    );
}

/// Drawn cases of the recorded ones, each on the version that it was recorded from.
fn recorded_cases(gate: &mut Gate) {
    let args = [
        "test",
        "-q",
        "-p",
        "harness",
        "--lib",
        "--",
        "--ignored",
        "--nocapture",
        DRAWN_CASES,
    ];
    let equal = gate.cases(
        "recorded cases on the real binaries",
        &root(),
        "cargo",
        &args,
    );
    let enough = if equal >= DRAWN_CASES_MIN {
        Ok(())
    } else {
        Err(format!(
            "{equal} are as recorded, at least {DRAWN_CASES_MIN} have to be"
        ))
    };
    gate.verdict("as many recorded cases as were drawn", enough);
}

/// A real version from a checkout at another depth, with another home, time zone and umask.
fn elsewhere(gate: &mut Gate, turnproof: &str) {
    let folder = root()
        .join("target")
        .join("determinism")
        .join("b")
        .join("deeper")
        .join("still");
    let home = folder.join("home");
    let cache = cache();
    if let Err(error) = fs::create_dir_all(&home) {
        gate.verdict("a real version from elsewhere", Err(error.to_string()));
        return;
    }
    let subject = format!("codex@{}", PINNED[2]);
    let line = "umask 077; exec \"$0\" check --no-pending --subject \"$@\"";
    let mut args = vec!["-c", line, turnproof, &subject];
    args.extend(REPEATED);
    gate.cases_with(
        "a real version from another folder, home, time zone and umask",
        &folder,
        "sh",
        &args,
        &[
            ("HOME", &home.display().to_string()),
            ("TZ", "Asia/Tokyo"),
            ("TURNPROOF_CACHE", &cache.display().to_string()),
        ],
    );
}

/// The cache of the real binaries, as the harness finds it.
fn cache() -> PathBuf {
    let set = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    if let Some(path) = set("TURNPROOF_CACHE") {
        return path;
    }
    let base = set("XDG_CACHE_HOME").filter(|base| base.is_absolute());
    base.unwrap_or_else(|| set("HOME").unwrap_or_default().join(".cache"))
        .join("turnproof")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_a_difference_and_no_file_is_one_too() {
        let folder = std::env::temp_dir().join(format!("turnproof-xtask-{}", std::process::id()));
        let (a, b) = (folder.join("a"), folder.join("b"));
        fs::create_dir_all(&a).unwrap();
        fs::create_dir_all(&b).unwrap();
        assert!(same_files(&a, &b).is_err(), "nothing recorded");
        fs::write(a.join("x"), "1").unwrap();
        fs::write(b.join("x"), "1").unwrap();
        assert_eq!(same_files(&a, &b), Ok(()));
        fs::write(b.join("x"), "2").unwrap();
        assert!(same_files(&a, &b).is_err(), "another byte");
        fs::remove_dir_all(&folder).unwrap();
    }
}
