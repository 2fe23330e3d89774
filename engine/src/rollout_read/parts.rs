//! Where lines come from: files that are read in blocks, or values that are in memory already.
//!
//! A thread may lie in several files: a fork and a revert begin a file that stands on a part of an
//! older one. Its lines are those of the oldest file first; a [`Place`] orders them.

use std::io;
use std::rc::Rc;

use serde_json::Value;

use super::Unreadable;
use super::blocks::{Backwards, Forwards};
use super::lines::{FileOf, Skipped, take_apart};
use crate::ports::ReadAt;
use crate::profile::Profile;

/// Where a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Number of its file, from the oldest.
    pub part: usize,
    /// Bytes of the file before it; of lines in memory the number of lines. Records that share a
    /// line differ in it.
    pub offset: u64,
}

/// Lines of a thread.
pub(super) trait Lines {
    /// The next line before the one that was given last, at first the newest.
    fn before(&mut self) -> Result<Option<(Place, Value)>, Unreadable>;
    /// All lines from a place on, in order, until `take` is content.
    fn from(
        &self,
        place: Place,
        take: &mut dyn FnMut(Place, &Value) -> bool,
    ) -> Result<(), Unreadable>;
    /// Where the newest file begins.
    fn newest_part(&self) -> Place;
    /// Bytes of the lines between the place and the end, if they are bytes.
    fn bytes_from(&self, place: Place) -> u64;
}

/// Lines in memory.
pub(super) struct InMemory<'a> {
    lines: &'a [Value],
    left: usize,
}

impl<'a> InMemory<'a> {
    pub(super) fn new(lines: &'a [Value]) -> Self {
        Self {
            lines,
            left: lines.len(),
        }
    }
}

impl Lines for InMemory<'_> {
    fn before(&mut self) -> Result<Option<(Place, Value)>, Unreadable> {
        let Some(index) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = index;
        Ok(Some((at(index as u64), self.lines[index].clone())))
    }

    fn from(
        &self,
        place: Place,
        take: &mut dyn FnMut(Place, &Value) -> bool,
    ) -> Result<(), Unreadable> {
        let first = usize::try_from(place.offset).unwrap_or(usize::MAX);
        for (index, line) in self.lines.iter().enumerate().skip(first) {
            if take(at(index as u64), line) {
                break;
            }
        }
        Ok(())
    }

    fn newest_part(&self) -> Place {
        Place::default()
    }

    fn bytes_from(&self, _: Place) -> u64 {
        0
    }
}

fn at(offset: u64) -> Place {
    Place { part: 0, offset }
}

/// One file of a thread.
#[derive(Clone)]
pub struct Part {
    file: Rc<dyn ReadAt>,
    /// What another file calls it by.
    id: Option<String>,
    end: u64,
    /// Records from this ordinal on belong to what came later.
    before_ordinal: Option<u64>,
}

impl Part {
    /// The whole of a file.
    pub fn whole(file: Rc<dyn ReadAt>) -> io::Result<Self> {
        let end = file.bytes()?;
        Ok(Self {
            file,
            id: None,
            end,
            before_ordinal: None,
        })
    }

    /// Names the file, for what is said of its lines.
    #[must_use]
    pub fn called(self, id: &str) -> Self {
        Self {
            id: Some(id.to_owned()),
            ..self
        }
    }

    /// The records of a file before an ordinal. `end` says where they ended when it was written; a
    /// file that was changed since is read to its own end (history.md §8).
    pub fn before(file: Rc<dyn ReadAt>, ordinal: u64, end: Option<u64>) -> io::Result<Self> {
        let bytes = file.bytes()?;
        let mut part = Self {
            file,
            id: None,
            end: bytes,
            before_ordinal: Some(ordinal),
        };
        let Some(end) = end.filter(|end| *end <= bytes) else {
            return Ok(part);
        };
        let mut lines = Backwards::new(&*part.file, end, BLOCK_OF_A_CHECK);
        // Behind the last newline there is nothing, or a part of a line.
        let behind = lines.line()?;
        let last = lines.line()?.and_then(|(_, line)| parsed(&line));
        let last = last.and_then(|line| line["ordinal"].as_u64());
        let ends = behind.is_none_or(|(_, line)| line.is_empty());
        if ends && last.and_then(|last| last.checked_add(1)) == Some(ordinal) {
            part.end = end;
        }
        Ok(part)
    }

    /// The file ends inside a line.
    pub(super) fn open_end(&self) -> io::Result<bool> {
        let mut last = [b'\n'];
        if let Some(at) = self.end.checked_sub(1) {
            self.file.read_exact_at(&mut last, at)?;
        }
        Ok(last != *b"\n")
    }

    /// Bytes of the file that are part of the thread.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    fn holds(&self, line: &Value) -> bool {
        let Some(end) = self.before_ordinal else {
            return true;
        };
        line["ordinal"].as_u64().is_none_or(|own| own < end)
    }
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part")
            .field("end", &self.end)
            .field("before_ordinal", &self.before_ordinal)
            .finish_non_exhaustive()
    }
}

/// Bytes that are asked for to look at one line.
const BLOCK_OF_A_CHECK: usize = 1024;

/// A line that is JSON.
fn parsed(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).ok()
}

/// Lines of files, as a profile reads them.
pub(super) struct InFiles<'a> {
    parts: &'a [Part],
    block: usize,
    profile: &'a Profile,
    /// The part that is being read, from its end.
    open: Option<(usize, Backwards<'a>)>,
    /// Records of the line that was read last, the newest at the end.
    line: Vec<(Place, Value)>,
}

impl<'a> InFiles<'a> {
    pub(super) fn new(parts: &'a [Part], block: usize, profile: &'a Profile) -> Self {
        let mut lines = Self {
            parts,
            block,
            profile,
            open: None,
            line: Vec::new(),
        };
        lines.open = parts.len().checked_sub(1).map(|last| lines.part(last));
        lines
    }

    fn part(&self, number: usize) -> (usize, Backwards<'a>) {
        let part = &self.parts[number];
        (number, Backwards::new(&*part.file, part.end, self.block))
    }

    /// Records of a line that are part of the thread.
    fn records(
        &self,
        part: usize,
        offset: u64,
        line: &[u8],
    ) -> Result<Vec<(Place, Value)>, Unreadable> {
        let mut records = Vec::new();
        take_apart(line, offset, self.profile, &mut |piece| {
            let record = piece.record.ok();
            if let Some(record) = record.filter(|record| self.parts[part].holds(record)) {
                let offset = piece.offset;
                records.push((Place { part, offset }, record));
            }
        })?;
        Ok(records)
    }

    /// What no record could be read from, of all files.
    pub(super) fn skipped(&self) -> Result<Vec<Skipped>, Unreadable> {
        let mut skipped = Vec::new();
        let of = self.parts.len();
        for (index, part) in self.parts.iter().enumerate() {
            let file = (of > 1).then(|| FileOf {
                number: index + 1,
                of,
                id: part.id.clone(),
            });
            let mut lines = Forwards::new(&*part.file, 0, part.end, self.block);
            let mut number = 0;
            while let Some((offset, line)) = lines.line()? {
                number += 1;
                take_apart(&line, offset, self.profile, &mut |piece| {
                    let (line, bytes) = (number, piece.bytes);
                    let why = piece.record.err();
                    skipped.extend(why.map(|why| Skipped {
                        file: file.clone(),
                        line,
                        bytes,
                        why,
                    }));
                })?;
            }
        }
        Ok(skipped)
    }

    /// Reads all bytes for one that is not UTF-8.
    pub(super) fn all_utf8(&self) -> Result<(), Unreadable> {
        for part in self.parts {
            let mut lines = Forwards::new(&*part.file, 0, part.end, self.block);
            while let Some((_, line)) = lines.line()? {
                std::str::from_utf8(&line).map_err(|_| Unreadable::NotUtf8)?;
            }
        }
        Ok(())
    }
}

impl Lines for InFiles<'_> {
    fn before(&mut self) -> Result<Option<(Place, Value)>, Unreadable> {
        loop {
            if let Some(record) = self.line.pop() {
                return Ok(Some(record));
            }
            let Some((number, lines)) = &mut self.open else {
                return Ok(None);
            };
            let part = *number;
            match lines.line()? {
                Some((offset, line)) => self.line = self.records(part, offset, &line)?,
                None => self.open = part.checked_sub(1).map(|older| self.part(older)),
            }
        }
    }

    fn from(
        &self,
        place: Place,
        take: &mut dyn FnMut(Place, &Value) -> bool,
    ) -> Result<(), Unreadable> {
        for (part, file) in self.parts.iter().enumerate().skip(place.part) {
            let from = if part == place.part { place.offset } else { 0 };
            let mut lines = Forwards::new(&*file.file, from, file.end, self.block);
            while let Some((offset, line)) = lines.line()? {
                for (place, record) in self.records(part, offset, &line)? {
                    if take(place, &record) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn newest_part(&self) -> Place {
        Place {
            part: self.parts.len().saturating_sub(1),
            offset: 0,
        }
    }

    fn bytes_from(&self, place: Place) -> u64 {
        let parts = self.parts.iter().enumerate().skip(place.part);
        let bytes = parts.map(|(number, part)| {
            let from = if number == place.part {
                place.offset
            } else {
                0
            };
            part.end.saturating_sub(from)
        });
        bytes.sum()
    }
}
