//! `bench resume`: the resume of a long rollout by our reader and by the newest real version.
//!
//! Both read the same file in one run. Our time is that of a whole process, the real one that of
//! the answer to `thread/resume` in a process that is already up. Nothing is asserted here.

use std::process::{Command, ExitCode};

use serde::Deserialize;

use crate::bench::build_release;
use crate::run::{root, say};

/// How much faster our reader should be.
const FASTER: f64 = 100.0;
/// Memory that it should stay below, in bytes.
const MEMORY_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Deserialize)]
struct Report {
    bytes: u64,
    bytes_from_checkpoint: u64,
    measured: Vec<Measured>,
}

#[derive(Debug, Deserialize)]
struct Measured {
    subject: String,
    what: String,
    seconds: f64,
    peak_bytes: Option<u64>,
}

/// Builds, runs and prints; `json` is written.
pub(crate) fn run(json: Option<&str>) -> ExitCode {
    if !build_release() {
        return ExitCode::FAILURE;
    }
    let newest = crate::PINNED[crate::PINNED.len() - 1];
    let args = ["bench-resume", "--real", newest];
    say!("$ target/release/turnproof {}", args.join(" "));
    let output = Command::new(root().join("target/release/turnproof"))
        .args(args)
        .current_dir(root())
        .output();
    let output = match output {
        Ok(output) if output.status.success() => output,
        Ok(output) => {
            say!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
            return ExitCode::FAILURE;
        }
        Err(error) => {
            say!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let report: Report = match serde_json::from_slice(&output.stdout) {
        Ok(report) => report,
        Err(error) => {
            say!("the numbers are not readable: {error}");
            return ExitCode::FAILURE;
        }
    };
    report.print();
    match json
        .map(|path| std::fs::write(path, &output.stdout))
        .transpose()
    {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            say!("could not write the numbers: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Report {
    fn print(&self) {
        let mib = |bytes: u64| bytes as f64 / 1024.0 / 1024.0;
        say!(
            "resume of a rollout of {:.1} MiB, {:.2} MiB from the newest checkpoint on",
            mib(self.bytes),
            mib(self.bytes_from_checkpoint)
        );
        for one in &self.measured {
            let peak = one
                .peak_bytes
                .map_or("?".to_owned(), |bytes| format!("{:.1}", mib(bytes)));
            let (subject, what) = (&one.subject, &one.what);
            say!(
                "{subject:<14} {what:<22} {:>9.4} s {peak:>9} MiB",
                one.seconds
            );
        }
        let (Some(ours), Some(real)) = (self.measured.first(), self.measured.last()) else {
            return;
        };
        let ratio = real.seconds / ours.seconds;
        let verdict = |holds: bool| if holds { "within" } else { "over" };
        say!(
            "{ratio:.0} times as fast ({} the goal of {FASTER}); memory {} {} MiB",
            if ratio >= FASTER { "reaches" } else { "misses" },
            verdict(ours.peak_bytes.is_some_and(|bytes| bytes < MEMORY_BYTES)),
            MEMORY_BYTES / 1024 / 1024,
        );
    }
}
