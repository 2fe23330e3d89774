//! Which records a later rollback took back, and which turns hold a message of the user.
//!
//! A segment is a turn and what follows it up to the start of the next one. It is found from its
//! end: the newest record that names a turn says whose segment it is, and the start of another turn
//! does not end it. A rollback of n takes back segments, beginning with the one that its marker
//! stands in, until n of them held a message of the user; those without one go along
//! (history.md §4).

use super::records::Record;
use super::rollback;
use crate::profile::Profile;

/// What the reader has to know of a record before it comes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// No rollback took its segment back.
    pub(super) survives: bool,
    /// Its segment holds a message of the user, or another boundary of turns.
    pub(super) by_user: bool,
    /// It names the turn of its segment, or none.
    pub(super) fits: bool,
    /// Its segment holds a checkpoint.
    pub(super) compacted: bool,
    /// Number of its segment, the newest is 0.
    pub(super) segment: usize,
}

/// The segment that is being read, from its end.
#[derive(Debug, Default)]
struct Open<'a> {
    turn: Option<&'a str>,
    by_user: bool,
    compacted: bool,
}

impl<'a> Open<'a> {
    /// Whether a turn is the one of this segment; a segment that has none takes it.
    fn fits(&mut self, turn: Option<&'a str>) -> bool {
        match (self.turn, turn) {
            (Some(own), Some(named)) => own == named,
            (None, Some(_)) => {
                self.turn = turn;
                true
            }
            (Some(_) | None, None) => true,
        }
    }
}

/// The standing of every record.
pub(super) fn standings(records: &[Record<'_>], profile: &Profile) -> Vec<Standing> {
    let unknown = Standing {
        survives: true,
        by_user: false,
        compacted: false,
        fits: true,
        segment: 0,
    };
    let mut standings = vec![unknown; records.len()];
    let mut rolled_back: u64 = 0;
    let mut open: Option<Open<'_>> = None;
    let mut end = records.len();
    let mut segment = 0;
    for (index, record) in records.iter().enumerate().rev() {
        let mut begins = index == 0;
        match record {
            Record::RolledBack(turns) => rolled_back = rolled_back.saturating_add(*turns),
            Record::TurnStarted(turn) => {
                begins |= open.as_mut().is_some_and(|open| open.fits(*turn));
            }
            Record::TurnEnded(turn) => {
                open.get_or_insert_default().fits(*turn);
            }
            Record::TurnContext(context) => {
                standings[index].fits = open.get_or_insert_default().fits(context.turn);
            }
            Record::Item(item) => {
                let boundary = rollback::is_boundary(item, profile);
                open.get_or_insert_default().by_user |= boundary;
            }
            Record::Checkpoint(_) => open.get_or_insert_default().compacted = true,
            Record::WorldState { .. } => {
                open.get_or_insert_default();
            }
            Record::Meta(_) | Record::Usage(_) | Record::Event(_) | Record::Other => {}
        }
        if !begins {
            continue;
        }
        let Open {
            by_user, compacted, ..
        } = open.take().unwrap_or_default();
        for standing in &mut standings[index..end] {
            standing.survives = rolled_back == 0;
            standing.by_user = by_user;
            standing.compacted = compacted;
            standing.segment = segment;
        }
        if by_user {
            rolled_back = rolled_back.saturating_sub(1);
        }
        end = index;
        segment += 1;
    }
    standings
}
