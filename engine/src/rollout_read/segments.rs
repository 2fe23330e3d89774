//! Which records a later rollback took back, and which turns hold a message of the user.
//!
//! A segment is a turn, from its start to its end, or the records between two turns. A rollback of
//! n takes back the segments before it until n of them held a message of the user; those without
//! one go along (history.md §4).

use std::ops::Range;

use super::records::Record;
use super::rollback;
use crate::profile::Profile;

/// What the reader has to know of a record before it comes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing<'a> {
    /// No rollback took its segment back.
    pub(super) survives: bool,
    /// Its segment holds a message of the user, or another boundary of turns.
    pub(super) by_user: bool,
    /// Id of the turn that it stands in; `None` between turns.
    pub(super) turn: Option<&'a str>,
    /// Number of its segment.
    pub(super) segment: usize,
}

struct Segment<'a> {
    records: Range<usize>,
    by_user: bool,
    turn: Option<&'a str>,
    /// Turns that a marker at its end takes back.
    rolled_back: u64,
}

impl Segment<'_> {
    fn at(index: usize) -> Self {
        Self {
            records: index..index,
            by_user: false,
            turn: None,
            rolled_back: 0,
        }
    }
}

/// The standing of every record.
pub(super) fn standings<'a>(records: &[Record<'a>], profile: &Profile) -> Vec<Standing<'a>> {
    let segments = segments(records, profile);
    let mut standings = Vec::with_capacity(records.len());
    let mut pending: u64 = 0;
    for (number, segment) in segments.iter().enumerate().rev() {
        // A marker is the last record of its segment, and not taken back by itself.
        let survives = pending == 0;
        let standing = Standing {
            survives,
            by_user: segment.by_user,
            turn: segment.turn,
            segment: number,
        };
        standings.extend(segment.records.clone().map(|_| standing));
        if segment.by_user {
            pending = pending.saturating_sub(1);
        }
        pending = pending.saturating_add(segment.rolled_back);
    }
    standings.reverse();
    standings
}

fn segments<'a>(records: &[Record<'a>], profile: &Profile) -> Vec<Segment<'a>> {
    let mut segments: Vec<Segment<'a>> = Vec::new();
    let mut open: Option<Segment<'a>> = None;
    for (index, record) in records.iter().enumerate() {
        if matches!(record, Record::TurnStarted(_) | Record::RolledBack(_)) {
            segments.extend(open.take());
        }
        let segment = open.get_or_insert_with(|| Segment::at(index));
        segment.records.end = index + 1;
        match record {
            Record::TurnStarted(turn) => segment.turn = *turn,
            Record::Item(item) => segment.by_user |= rollback::is_boundary(item, profile),
            Record::RolledBack(turns) => segment.rolled_back = *turns,
            Record::Meta(_)
            | Record::Checkpoint(_)
            | Record::WorldState { .. }
            | Record::TurnContext(_)
            | Record::Usage(_)
            | Record::TurnEnded
            | Record::Event(_)
            | Record::Other => {}
        }
        if matches!(record, Record::TurnEnded | Record::RolledBack(_)) {
            segments.extend(open.take());
        }
    }
    segments.extend(open);
    segments
}
