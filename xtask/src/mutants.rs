//! `mutants`: changes the engine on purpose and looks whether scenarios and tests notice.
//!
//! cargo-mutants lists the mutants of the history, compaction and token code; a seed draws the
//! sample. Each is applied in a copy of the checkout, and caught when the scenario suite on the
//! engine fails, or else the engine's tests. cargo-mutants would build every test target for each
//! mutant, which takes ten times as long. By hand, not in the gate: each mutant is a build.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;

use crate::run::{root, say};

/// What is mutated, as cargo-mutants takes it.
const FILES: [&str; 9] = [
    "engine/src/compaction/*.rs",
    "engine/src/history.rs",
    "engine/src/hooks.rs",
    "engine/src/items.rs",
    "engine/src/images.rs",
    "engine/src/token_budget.rs",
    "engine/src/tokens.rs",
    "engine/src/truncate.rs",
    "engine/src/settings.rs",
];
/// Longest run of the suite for one mutant, in seconds: a mutant may loop.
const SUITE_SECONDS_MAX: &str = "60";
/// The newest profile first: it catches most.
const SUBJECTS: [&str; 3] = ["engine@0.171", "engine@0.144", "engine@0.164"];

/// A mutant as cargo-mutants lists it.
#[derive(Debug, Clone, Deserialize)]
struct Mutant {
    name: String,
    file: String,
    span: Span,
    replacement: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Span {
    start: Place,
    end: Place,
}

/// 1-based line and column, in characters.
#[derive(Debug, Clone, Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// A scenario of this profile failed, or ran too long.
    Caught(&'static str),
    /// Only a test of the engine failed.
    CaughtByTests,
    /// Nothing noticed.
    Survived,
    /// The mutant does not compile.
    Unviable,
}

/// Runs `sample` mutants drawn with `seed`; only those whose name holds `only`, if there is one.
pub(crate) fn run(sample: usize, seed: u64, only: Option<&str>) -> ExitCode {
    if !installed() {
        return ExitCode::from(3);
    }
    let all = match list() {
        Ok(all) => all,
        Err(why) => {
            say!("{why}");
            return ExitCode::from(3);
        }
    };
    let mut drawn = draw(&all, sample, seed);
    say!("seed {seed}: {} of {} mutants", drawn.len(), all.len());
    drawn.retain(|mutant| only.is_none_or(|only| mutant.name.contains(only)));
    let tree = match Tree::copy() {
        Ok(tree) => tree,
        Err(error) => {
            say!("could not copy the checkout: {error}");
            return ExitCode::from(3);
        }
    };
    if tree.judge() != Verdict::Survived {
        say!("the suite fails without a mutant");
        return ExitCode::from(3);
    }
    let mut survivors = Vec::new();
    let mut unviable = 0;
    for (number, mutant) in drawn.iter().enumerate() {
        let verdict = match tree.try_one(mutant) {
            Ok(verdict) => verdict,
            Err(why) => {
                say!("{}: {why}", mutant.name);
                return ExitCode::from(3);
            }
        };
        say!(
            "{}/{} {verdict:?}: {}",
            number + 1,
            drawn.len(),
            mutant.name
        );
        match verdict {
            Verdict::Caught(_) | Verdict::CaughtByTests => {}
            Verdict::Survived => survivors.push(mutant),
            Verdict::Unviable => unviable += 1,
        }
    }
    for mutant in &survivors {
        say!("survived: {}", mutant.name);
    }
    let caught = drawn.len() - survivors.len() - unviable;
    say!(
        "{caught} caught, {} survived, {unviable} did not build",
        survivors.len()
    );
    if survivors.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
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

fn list() -> Result<Vec<Mutant>, String> {
    let mut args = vec!["mutants", "--list", "--json", "--package", "engine"];
    for file in FILES {
        args.extend(["--file", file]);
    }
    say!("$ cargo {}", args.join(" "));
    let out = Command::new("cargo")
        .args(args)
        .current_dir(root())
        .output()
        .map_err(|error| format!("could not start cargo mutants: {error}"))?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned());
    }
    serde_json::from_slice(&out.stdout).map_err(|error| format!("cargo mutants --list: {error}"))
}

/// A sample without repeats: the seed and the list alone decide it.
fn draw<T: Clone>(all: &[T], sample: usize, seed: u64) -> Vec<T> {
    let mut left: Vec<&T> = all.iter().collect();
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

impl Mutant {
    /// The source with this mutant; `None` if its span is not in it.
    fn apply(&self, source: &str) -> Option<String> {
        let (start, end) = (
            self.span.start.offset(source)?,
            self.span.end.offset(source)?,
        );
        let (head, tail) = (source.get(..start)?, source.get(end..)?);
        Some(format!("{head}{}{tail}", self.replacement))
    }
}

impl Place {
    /// Byte offset in the source.
    fn offset(&self, source: &str) -> Option<usize> {
        let mut lines = source.split_inclusive('\n');
        let before: usize = lines.by_ref().take(self.line - 1).map(str::len).sum();
        let line = lines.next()?;
        let mut places = line.char_indices().map(|(at, _)| at).chain([line.len()]);
        Some(before + places.nth(self.column - 1)?)
    }
}

/// Deletes what an older copy holds and git no longer knows, but for the build folder.
fn forget(folder: &Path, known: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() && path.file_name() != Some(OsStr::new("target")) {
            forget(&path, known)?;
        } else if kind.is_file() && !known.contains(&path) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// A copy of the checkout that mutants are built in, with a build folder of its own.
struct Tree {
    folder: PathBuf,
}

impl Tree {
    /// Copies what git knows.
    fn copy() -> std::io::Result<Self> {
        let folder = root().join("target").join("mutants");
        let known = Command::new("git")
            .args(["ls-files", "-z"])
            .current_dir(root())
            .output()?;
        let names = String::from_utf8_lossy(&known.stdout);
        let known: BTreeSet<PathBuf> = names
            .split_terminator('\0')
            .map(|name| folder.join(name))
            .collect();
        forget(&folder, &known)?;
        for name in names.split_terminator('\0') {
            let (from, to) = (root().join(name), folder.join(name));
            let Ok(text) = std::fs::read(&from) else {
                continue;
            };
            // A file that stays the same keeps its time, and is not built again.
            if std::fs::read(&to).is_ok_and(|old| old == text) {
                continue;
            }
            std::fs::create_dir_all(to.parent().unwrap_or(&folder))?;
            std::fs::write(&to, text)?;
        }
        Ok(Self { folder })
    }

    fn try_one(&self, mutant: &Mutant) -> Result<Verdict, String> {
        let file = self.folder.join(&mutant.file);
        let source = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
        let changed = mutant.apply(&source).ok_or("its span is not in the file")?;
        let put = |text: &str| std::fs::write(&file, text).map_err(|error| error.to_string());
        put(&changed)?;
        let verdict = self.judge();
        put(&source)?;
        Ok(verdict)
    }

    fn judge(&self) -> Verdict {
        let build = ["build", "-q", "-p", "harness", "--bin", "turnproof"];
        if !self.succeeds("cargo", &build) {
            return Verdict::Unviable;
        }
        let program = self.folder.join("target/debug/turnproof");
        let program = program.display().to_string();
        for subject in SUBJECTS {
            let args = [
                SUITE_SECONDS_MAX,
                &program,
                "check",
                "--no-pending",
                "--subject",
                subject,
            ];
            if !self.succeeds("timeout", &args) {
                return Verdict::Caught(subject);
            }
        }
        let tests = [SUITE_SECONDS_MAX, "cargo", "test", "-q", "-p", "engine"];
        if !self.succeeds("cargo", &["test", "-q", "-p", "engine", "--no-run"])
            || !self.succeeds("timeout", &tests)
        {
            return Verdict::CaughtByTests;
        }
        Verdict::Survived
    }

    fn succeeds(&self, program: &str, args: &[&str]) -> bool {
        Command::new(program)
            .args(args)
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", Path::new("target"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(text: &str) -> Mutant {
        let json = format!(
            r#"{{"name": "m", "file": "f", "replacement": "{text}",
                "span": {{"start": {{"line": 2, "column": 5}}, "end": {{"line": 2, "column": 7}}}}}}"#
        );
        serde_json::from_str(&json).expect("the form of cargo-mutants")
    }

    #[test]
    fn a_sample_depends_on_the_seed_alone_and_repeats_nothing() {
        let all: Vec<u32> = (0..50).collect();
        let first = draw(&all, 20, 1);
        assert_eq!(first, draw(&all, 20, 1));
        assert_ne!(first, draw(&all, 20, 2));
        let mut unique = first.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), 20);
        assert_eq!(draw(&all, 99, 1).len(), 50, "no more than there are");
    }

    #[test]
    fn a_copy_forgets_what_git_no_longer_knows() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(&path, "").expect("written");
            path
        };
        let (kept, gone, built) = (put("a/kept"), put("a/gone"), put("target/built"));
        forget(folder.path(), &BTreeSet::from([kept.clone()])).expect("it forgets");
        assert!(kept.exists() && built.exists() && !gone.exists());
    }

    #[test]
    fn a_mutant_replaces_its_span_alone() {
        let source = "one\nä b += c\nthree\n";
        assert_eq!(
            mutant("-=").apply(source).as_deref(),
            Some("one\nä b -= c\nthree\n")
        );
        assert_eq!(mutant("-=").apply("one\n"), None, "a span outside the file");
    }
}
