//! `record-transcripts`: rollouts of the real binaries that use their own tools.
//!
//! `import` is tried on them. Nothing of this machine stays in them: a run has its own folder, and
//! the digits that name it become zeros.

use std::path::Path;
use std::process::ExitCode;

use crate::PINNED;
use crate::run::{root, say, turnproof};

/// Where scenario and transcripts lie.
const FOLDER: &str = "harness/tests/data/transcripts";
/// Folder of every run, before the digits that name one.
const RUNS: &str = "/tmp/turnproof/";
/// Digits that name a run.
const RUN_DIGITS: usize = 12;

/// Records the thread of `tools.yaml` on every pinned version.
pub(crate) fn record() -> ExitCode {
    for version in PINNED {
        if let Err(why) = record_on(version) {
            say!("{version}: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn record_on(version: &str) -> Result<(), String> {
    let folder = format!("{FOLDER}/{version}");
    let scenario = format!("{FOLDER}/tools.yaml");
    let subject = format!("codex@{version}");
    let place = root().join(&folder);
    // What is left of an earlier recording would be taken for this one.
    for old in files(&place).unwrap_or_default() {
        std::fs::remove_file(&old).map_err(|error| format!("{}: {error}", old.display()))?;
    }
    let args = [
        "record",
        &scenario,
        "--subject",
        &subject,
        "--own-tools",
        "-o",
        &folder,
    ];
    if !turnproof(&args) {
        return Err("it was not recorded".to_owned());
    }
    let [rollout] = files(&place)
        .map_err(|error| error.to_string())?
        .try_into()
        .map_err(|files: Vec<_>| {
            format!("{} files in {folder}, and one was expected", files.len())
        })?;
    let text = std::fs::read_to_string(&rollout).map_err(|error| error.to_string())?;
    let kept = place.join("tools.jsonl");
    std::fs::write(&kept, without_run(&text)).map_err(|error| error.to_string())?;
    std::fs::remove_file(&rollout).map_err(|error| error.to_string())
}

fn files(folder: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
    std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

/// The text with zeros for the digits that name the run.
fn without_run(text: &str) -> String {
    let mut parts = text.split(RUNS);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(RUNS);
        let digits = part.bytes().take(RUN_DIGITS);
        if digits.filter(u8::is_ascii_hexdigit).count() == RUN_DIGITS {
            out.push_str(&"0".repeat(RUN_DIGITS));
            out.push_str(&part[RUN_DIGITS..]);
        } else {
            out.push_str(part);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::without_run;

    #[test]
    fn the_name_of_a_run_becomes_zeros() {
        assert_eq!(
            without_run("a /tmp/turnproof/0123456789ab/w000 /tmp/turnproof/x b"),
            "a /tmp/turnproof/000000000000/w000 /tmp/turnproof/x b"
        );
    }
}
