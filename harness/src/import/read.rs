//! Records of a file with their places, and the tasks that they form.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use super::ImportError;
use crate::rollout_file::{LineReader, Place, open, record};

/// Longest file of which a scenario is made, decompressed: its records are held in memory, and a
/// scenario has at most a megabyte.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A record that a scenario may need.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// Where its line begins.
    pub(super) place: Place,
    /// `type`
    pub(super) kind: String,
    /// `payload`
    pub(super) payload: Value,
    /// `metadata`, null where there is none.
    pub(super) metadata: Value,
}

impl Entry {
    /// `type` of the payload.
    pub(super) fn inner(&self) -> &str {
        self.payload["type"].as_str().unwrap_or_default()
    }

    /// Whether it is an event of this kind.
    pub(super) fn is_event(&self, inner: &str) -> bool {
        self.kind == "event_msg" && self.inner() == inner
    }
}

/// Something that no step of the scenario carries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// The record.
    pub place: Place,
    /// What it is, and why it is left out.
    pub what: String,
}

/// Records of a file, the session metadata first.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) entries: Vec<Entry>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Reads a file. A broken line is left out, as a resume leaves it out; a file that no version would
/// resume is an error.
pub(super) fn read(path: &Path) -> Result<Read, ImportError> {
    let start = Place { line: 1, offset: 0 };
    let source = open(path, 0).map_err(|error| {
        let help = "name a file that `turnproof` may read".to_owned();
        ImportError::new(start, "it cannot be opened", &error.to_string(), &help)
    })?;
    let mut reader = LineReader::new(source.reader);
    let mut found = Read {
        entries: Vec::new(),
        left_out: Vec::new(),
    };
    loop {
        let next = reader.next_place();
        let line = match reader.read() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) => {
                let help = if error.kind() == ErrorKind::InvalidData {
                    "take the file from a backup"
                } else {
                    "see that the disk can be read"
                };
                return Err(ImportError::new(
                    next,
                    "it cannot be read",
                    &error.to_string(),
                    help,
                ));
            }
        };
        if line.condensed {
            let what = "the line is longer than is kept whole";
            let help = "shorten its texts in a copy of the file";
            return Err(ImportError::new(
                line.place,
                what,
                "its texts were cut",
                help,
            ));
        }
        let place = line.place;
        if place.offset > FILE_BYTES_MAX {
            let what = "the file is too long to make one scenario of";
            let why = format!("more than {FILE_BYTES_MAX} bytes");
            let help = "cut turns from a copy of the file";
            return Err(ImportError::new(place, what, &why, help));
        }
        let (record, defects) = record::read(line);
        match record {
            Some(record) => found.entries.push(Entry {
                place,
                kind: record.kind,
                payload: record.payload,
                metadata: record.metadata,
            }),
            None if defects.contains(&record::Defect::Blank) => {}
            None => found.left_out.push(LeftOut {
                place,
                what: "a line that holds no record: `turnproof doctor` says why".to_owned(),
            }),
        }
    }
    let Some(first) = found.entries.first() else {
        let help = "name a `rollout-….jsonl` of a Codex home";
        return Err(if found.left_out.is_empty() {
            ImportError::new(start, "the file is empty", "it holds no record", help)
        } else {
            ImportError::new(start, "not a rollout", "no line holds a record", help)
        });
    };
    if first.kind != "session_meta" || !first.payload["cwd"].is_string() {
        let what = "not a rollout that can be resumed";
        let why = "it does not begin with session metadata";
        let help = "put the record back from a backup; it has to be the first line";
        return Err(ImportError::new(first.place, what, why, help));
    }
    Ok(found)
}

/// A stretch of the file.
#[derive(Debug)]
pub(super) enum Stretch {
    /// Records of no task.
    Between(Vec<Entry>),
    /// From `task_started` to what ends it.
    Task(Vec<Entry>),
}

/// Cuts the records behind the session metadata into tasks.
pub(super) fn stretches(entries: Vec<Entry>, left_out: &mut Vec<LeftOut>) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut between = Vec::new();
    let mut task: Option<Vec<Entry>> = None;
    for entry in entries {
        if entry.kind == "session_meta" {
            left_out.push(LeftOut {
                place: entry.place,
                what: "another thread's metadata: its records are taken for this thread's".into(),
            });
            continue;
        }
        if entry.is_event("task_started") {
            if !between.is_empty() {
                found.push(Stretch::Between(std::mem::take(&mut between)));
            }
            found.extend(task.take().map(Stretch::Task));
            task = Some(vec![entry]);
            continue;
        }
        let ends = entry.is_event("task_complete") || entry.is_event("turn_aborted");
        match &mut task {
            Some(records) => {
                records.push(entry);
                if ends {
                    found.extend(task.take().map(Stretch::Task));
                }
            }
            None => between.push(entry),
        }
    }
    found.extend(task.map(Stretch::Task));
    if !between.is_empty() {
        found.push(Stretch::Between(between));
    }
    found
}
