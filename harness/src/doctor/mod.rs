//! `doctor`: a report on one rollout file, made while it streams by.
//!
//! ```text
//! rollout_file::open ─► LineReader ─► record::read ─► collect::Collector ─┐
//!                                      kinds · session · ordinals · turns  │ first pass
//!                                      pairing · images · checkpoints      │
//!                                                        Findings ◄────────┤
//! suffix behind the newest checkpoint ─► resume::view ◄────────────────────┘ second pass
//!                                            │
//!                                            ▼
//!                               report::Report ─► text, JSON
//! ```
//!
//! It reads and never writes. Its output is a function of the file's bytes, its name and the options:
//! no clock, no place of this machine. Texts of the conversation are left out unless they are asked
//! for. Memory is bounded by named limits, and what a limit leaves out is counted in the report.

pub mod checkpoints;
pub mod collect;
pub mod defects;
pub mod findings;
pub mod images;
pub mod kinds;
pub mod live;
pub mod ordinals;
pub mod pairing;
pub mod report;
pub mod resume;
pub mod session;
#[cfg(test)]
mod tests;
pub mod text;
pub mod turns;

use std::io::{Error, ErrorKind};
use std::path::Path;

use serde_json::Value;

use crate::rollout_file::line::LINE_BYTES_WHOLE_MAX;
use crate::rollout_file::{LineReader, Place, open, record};
use collect::{Collected, Collector};
use report::Report;
use resume::View;

/// Bytes between two words on the progress.
const PROGRESS_BYTES: u64 = 4 * 1024 * 1024;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Texts of the conversation may be printed.
    pub show_text: bool,
    /// Largest part of a file that is held in memory to say what a resume sees, in bytes.
    pub resume_bytes_max: u64,
}

/// Examines a file. `progress` is told how many bytes of the file on the disk are read, and of how
/// many.
pub fn examine(
    path: &Path,
    options: Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, Error> {
    let source = open(path, 0)?;
    let (position, total) = (source.position(), source.bytes_on_disk);
    let (compressed, repeatable) = (source.compressed, source.repeatable);
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut collector = Collector::new(&file_name, options.show_text);
    let mut reader = LineReader::new(source.reader);
    let mut told = 0;
    loop {
        let line = match reader.read() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                collector.broken_compression(reader.next_place(), &error.to_string());
                break;
            }
            Err(error) => return Err(error),
        };
        let (record, defects) = record::read(line);
        collector.line(line, record, &defects);
        if position.get() - told >= PROGRESS_BYTES {
            told = position.get();
            progress(told, total);
        }
    }
    let bytes = reader.offset();
    drop(reader);
    let mut collected = collector.finish();
    let resume = if repeatable {
        resume(path, bytes, options, &mut collected)?
    } else {
        let what = "a pipe can be read only once";
        collected
            .findings
            .add("resume.not_read", Place::default(), what);
        None
    };
    progress(total, total);
    Ok(report::of(collected, resume, bytes, total, compressed))
}

/// The second pass: what a resume sees. Nothing where it would be refused.
fn resume(
    path: &Path,
    end: u64,
    options: Options,
    collected: &mut Collected,
) -> Result<Option<View>, Error> {
    let Some(meta) = collected.meta.take() else {
        return Ok(None);
    };
    let from = collected.resume_from;
    let bytes = end - from.offset;
    if bytes > options.resume_bytes_max {
        let mib = bytes.div_ceil(1024 * 1024);
        let what = format!(
            "{mib} MiB from the newest checkpoint on, at most {} are read",
            options.resume_bytes_max / 1024 / 1024
        );
        collected.findings.add("resume.not_read", from, what);
        return Ok(None);
    }
    let mut lines = Vec::new();
    if from.offset > 0 {
        lines.push(meta);
    }
    lines.extend(suffix(path, from, bytes)?);
    let mut view = resume::view(&lines, collected.version);
    // The records before, which would have to be counted, were seen in the first pass.
    if !collected.window_recorded {
        view.window = collected.window;
    }
    Ok(Some(view))
}

/// The records from a place on.
fn suffix(path: &Path, from: Place, bytes: u64) -> Result<Vec<Value>, Error> {
    let source = open(path, from.offset)?;
    let whole_max = usize::try_from(bytes).unwrap_or(LINE_BYTES_WHOLE_MAX);
    let mut reader = LineReader::starting_at(source.reader, from, whole_max);
    let mut records = Vec::new();
    loop {
        let line = match reader.read() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            // The first pass reported it.
            Err(error) if error.kind() == ErrorKind::InvalidData => break,
            Err(error) => return Err(error),
        };
        if record::read(line).0.is_some()
            && let Ok(value) = serde_json::from_slice(&line.text)
        {
            records.push(value);
        }
    }
    Ok(records)
}

/// Characters of a word that is printed.
const WORD_CHARS_MAX: usize = 96;

/// A word of the file that may be printed: an id, a kind, a version, a model. Anything else could be
/// a text, or steer a terminal.
pub(crate) fn shown(word: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:/@+".contains(c);
    if word.is_empty() {
        "(none)".to_owned()
    } else if word.len() <= WORD_CHARS_MAX && word.chars().all(fits) {
        word.to_owned()
    } else {
        "(not a word)".to_owned()
    }
}

/// Item types that every version knows and keeps out of the history (history.md §1).
pub(crate) fn is_dropped(kind: &str) -> bool {
    [
        "compaction_trigger",
        "configuration_update",
        "ghost_snapshot",
        "other",
        "mcp_call",
    ]
    .contains(&kind)
}
