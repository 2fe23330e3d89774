//! The files that a thread lies in: its newest one, and those that it stands on.

use std::rc::Rc;

use serde_json::Value;

use super::Unreadable;
use super::blocks::{BLOCK_BYTES, Forwards};
use super::lines::Part;
use crate::ports::ReadAt;

/// Finds rollout files.
pub trait Rollouts {
    /// The files of a thread, oldest first.
    fn of_thread(&self, thread: &str) -> Vec<Rc<dyn ReadAt>>;
}

/// The parts of the newest file of a thread, oldest first.
///
/// A file names the thread that it stands on, and an ordinal: of the files of that thread it is the
/// newest one that begins before it, and of its own thread one that is older.
pub fn lineage(thread: &str, rollouts: &dyn Rollouts) -> Result<Vec<Part>, Unreadable> {
    let mut files = rollouts.of_thread(thread);
    let newest = files.pop().ok_or(Unreadable::Lineage)?;
    let mut own = thread.to_owned();
    let mut base = base_of(&*newest)?;
    let mut parts = vec![Part::whole(newest)?];
    let mut before = u64::MAX;
    while let Some((older, ordinal, end)) = base {
        // Files that stand on each other in a circle would never end.
        if ordinal >= before {
            return Err(Unreadable::Lineage);
        }
        before = ordinal;
        if older != own {
            files = rollouts.of_thread(&older);
            own = older;
        }
        let file = loop {
            let file = files.pop().ok_or(Unreadable::Lineage)?;
            if first_ordinal(&*file)?.is_none_or(|first| first < ordinal) {
                break file;
            }
        };
        base = base_of(&*file)?;
        parts.push(Part::before(file, ordinal, end)?);
    }
    parts.reverse();
    Ok(parts)
}

type Base = (String, u64, Option<u64>);

/// Thread, first ordinal that is not part of it, and bytes of the file that a file stands on.
fn base_of(file: &dyn ReadAt) -> Result<Option<Base>, Unreadable> {
    let Some(meta) = first_line(file)? else {
        return Ok(None);
    };
    let base = &meta["payload"]["history_base"];
    let thread = base["thread_id"].as_str().map(str::to_owned);
    let ordinal = base["end_ordinal_exclusive"].as_u64();
    let end = base["end_byte_offset"].as_u64();
    Ok(thread.zip(ordinal).map(|(thread, at)| (thread, at, end)))
}

fn first_ordinal(file: &dyn ReadAt) -> Result<Option<u64>, Unreadable> {
    Ok(first_line(file)?.and_then(|line| line["ordinal"].as_u64()))
}

/// The first line that is JSON.
fn first_line(file: &dyn ReadAt) -> Result<Option<Value>, Unreadable> {
    let mut lines = Forwards::new(file, 0, file.bytes()?, BLOCK_BYTES);
    while let Some((_, line)) = lines.line()? {
        if let Ok(line) = serde_json::from_slice(&line) {
            return Ok(Some(line));
        }
    }
    Ok(None)
}
