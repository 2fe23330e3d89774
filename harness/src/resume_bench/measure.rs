//! Reads a long rollout once: with our reader in a process of its own, and with the real binary.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Instant;

use engine::profile::{Profile, Version};
use engine::rollout_read::{BLOCK_BYTES, Part, read_files};
use engine::settings::Truncation;
use serde::{Deserialize, Serialize};

use super::{Long, Measured};
use crate::driver::codex::{Source, time_resume};
use crate::rollout_file::bytes::Bytes;

/// Cut of tool outputs of a model that no catalogue knows, in bytes.
const OUTPUT_BYTES: u64 = 10_000;

/// What our reader found, as its process says it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Seconds for opening and putting together, without the start of the process.
    pub seconds: f64,
    /// Highest resident memory of the process in bytes.
    pub peak_bytes: Option<u64>,
    /// Bytes from the oldest record that was looked at.
    pub read_bytes: u64,
    /// The whole file was read.
    pub whole: bool,
    /// Items of the history.
    pub items: usize,
    /// Number of the window.
    pub window: u64,
}

/// Opens a rollout and puts its thread together.
pub fn open(path: &Path, family: &str) -> Result<Opened, String> {
    let start = Instant::now();
    let version = match family {
        "0.144" => Version::V144,
        "0.164" => Version::V164,
        "0.171" => Version::V171,
        other => return Err(format!("no version: {other}")),
    };
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = Bytes::open(path).map_err(failed)?;
    let part = Part::whole(Rc::new(file)).map_err(failed)?;
    let policy = Truncation::Bytes(OUTPUT_BYTES);
    let reading = read_files(&[part], BLOCK_BYTES, &Profile::of(version), policy)
        .map_err(|why| format!("{} {why}", path.display()))?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Opened {
        seconds,
        peak_bytes: peak_bytes("self"),
        read_bytes: reading.reach.bytes,
        whole: reading.reach.whole,
        items: reading.found.history.items().len(),
        window: reading.found.window.number,
    })
}

/// Highest resident memory of a process; `None` where the system does not tell.
pub(crate) fn peak_bytes(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Our reader in a process of its own: once with the start of the process, once without.
pub fn engine(long: &Long, family: &str) -> Result<[Measured; 2], String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let start = Instant::now();
    let output = Command::new(program)
        .args(["bench-resume", "--family", family, "--open"])
        .arg(&long.path)
        .output()
        .map_err(|error| error.to_string())?;
    let whole = start.elapsed().as_secs_f64();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let opened: Opened =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    if opened.whole || opened.read_bytes > long.behind + BLOCK_BYTES as u64 {
        return Err("more was read than the end of the file".to_owned());
    }
    let measured = |what: &str, seconds| Measured {
        subject: format!("engine@{family}"),
        what: what.to_owned(),
        seconds,
        peak_bytes: opened.peak_bytes,
    };
    Ok([
        measured("whole process", whole),
        measured("open and put together", opened.seconds),
    ])
}

/// The real binary: the answer to `thread/resume`, without the start of its process.
pub async fn real(long: &Long, version: &str) -> Result<Measured, String> {
    let source = Source::Version(version.to_owned());
    let (seconds, peak_bytes) = time_resume(&source, &long.plan, &long.path, &long.thread)
        .await
        .map_err(|why| why.to_string())?;
    Ok(Measured {
        subject: format!("codex@{version}"),
        what: "thread/resume".to_owned(),
        seconds,
        peak_bytes,
    })
}
