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
pub(crate) mod tests;
pub mod text;
pub mod turns;

use std::io::{Error, ErrorKind};
use std::path::Path;

use serde_json::Value;

use crate::rollout_file::line::LINE_BYTES_WHOLE_MAX;
use crate::rollout_file::{LineReader, Place, open, record, value};
use collect::{Collected, Collector};
use report::Report;
use resume::View;

/// Values of the part that is held in memory, which bounds what its bytes can grow to.
const RESUME_VALUES_MAX: usize = 1_000_000;
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
    if !suffix(path, from, bytes, &mut lines)? {
        let what = format!("more than {RESUME_VALUES_MAX} values from the newest checkpoint on");
        collected.findings.add("resume.not_read", from, what);
        return Ok(None);
    }
    let mut view = match resume::view(lines, collected.version) {
        Ok(view) => view,
        Err(why) => {
            let what = format!("no resume: the file {why}");
            collected.findings.add("resume.unreadable", from, what);
            return Ok(None);
        }
    };
    // The records before, which would have to be counted, were seen in the first pass.
    if !collected.window_recorded {
        view.window = collected.window;
    }
    Ok(Some(view))
}

/// Adds the records from a place on; false if they take too much memory.
fn suffix(path: &Path, from: Place, bytes: u64, into: &mut Vec<Value>) -> Result<bool, Error> {
    let source = open(path, from.offset)?;
    let whole_max = usize::try_from(bytes).unwrap_or(LINE_BYTES_WHOLE_MAX);
    let mut reader = LineReader::starting_at(source.reader, from, whole_max);
    let mut left = RESUME_VALUES_MAX;
    loop {
        let line = match reader.read() {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(true),
            // The first pass reported it.
            Err(error) if error.kind() == ErrorKind::InvalidData => return Ok(true),
            Err(error) => return Err(error),
        };
        // What Codex finds no record in is left out; that is known before the line is taken.
        if record::read(line).0.is_none() {
            continue;
        }
        match value::parse(&line.text, left) {
            Ok((mut value, count)) => {
                left -= count;
                without_shown_items(&mut value);
                into.push(value);
            }
            Err(error) if error.to_string().starts_with(value::TOO_MANY) => return Ok(false),
            // A byte order mark is no JSON.
            Err(_) => {}
        }
    }
}

/// Takes the item out of an event that shows one to the client: it repeats a text of the history,
/// and no version makes history of it (history.md §8).
fn without_shown_items(record: &mut Value) {
    let kind = record["payload"]["type"].as_str().unwrap_or_default();
    if record["type"] == "event_msg"
        && ["item_started", "item_completed"].contains(&kind)
        && let Some(item) = record["payload"]["item"].as_object_mut()
    {
        item.retain(|key, _| key == "type" || key == "id");
    }
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
