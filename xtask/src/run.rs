//! Starts commands, shows them, and reads the counts they print.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Writes to standard output; where nobody can read it, the task ends as failed.
pub(crate) fn write(text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    if out.write_fmt(text).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Prints one line.
macro_rules! say {
    ($($part:tt)*) => {
        $crate::run::write(format_args!("{}\n", format_args!($($part)*)))
    };
}
pub(crate) use say;

/// What a step reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Cases that hold.
    pub(crate) passed: u64,
    /// Cases that do not.
    pub(crate) failed: u64,
    /// Cases that did not run, with a reason.
    pub(crate) skipped: u64,
}

impl Counts {
    /// Adds what another step reported.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// From a line of a test runner or of `turnproof`, if it is a closing line.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let line = line.strip_prefix("test result: ").unwrap_or(line);
        if !line.contains(" passed") || !line.contains(" failed") {
            return None;
        }
        let number = |word: &str| {
            let before = line[..line.find(word)?].trim_end();
            before
                .rsplit(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        };
        Some(Self {
            passed: number(" passed")?,
            failed: number(" failed")?,
            skipped: number(" skipped")
                .or_else(|| number(" ignored"))
                .unwrap_or(0),
        })
    }
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The command exited with 0.
    pub(crate) ok: bool,
    /// What its closing lines counted.
    pub(crate) counts: Counts,
}

/// The workspace folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Runs a command in `folder`, passes its output through and counts its closing lines.
pub(crate) fn step(folder: &Path, program: &str, args: &[&str], env: &[(&str, &str)]) -> Ended {
    say!("$ {program} {}", args.join(" "));
    let child = Command::new(program)
        .args(args)
        .envs(env.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            say!("could not start {program}: {error}");
            return Ended {
                ok: false,
                counts: Counts::default(),
            };
        }
    };
    let mut counts = Counts::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(found) = Counts::from_line(&line) {
                counts.add(found);
                say!("  {line}");
            } else {
                say!("  {line}");
            }
        }
    }
    let ok = child.wait().is_ok_and(|status| status.success());
    Ended { ok, counts }
}

/// Runs the `turnproof` binary with cargo; whether it exited with 0.
pub(crate) fn turnproof(args: &[&str]) -> bool {
    let mut all = vec!["run", "-q", "-p", "harness", "--bin", "turnproof", "--"];
    all.extend(args);
    step(&root(), "cargo", &all, &[]).ok
}

/// The exit code of a step.
pub(crate) fn exit(ok: bool) -> ExitCode {
    if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_both_kinds_are_read() {
        let cargo = "test result: ok. 14 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        assert_eq!(
            Counts::from_line(cargo),
            Some(Counts {
                passed: 14,
                failed: 0,
                skipped: 1
            })
        );
        assert_eq!(
            Counts::from_line("108 passed, 2 failed, 3 skipped"),
            Some(Counts {
                passed: 108,
                failed: 2,
                skipped: 3
            })
        );
        assert_eq!(Counts::from_line("all of them passed"), None);
    }
}
