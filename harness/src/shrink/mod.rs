//! Delta debugging of a scenario: the smallest YAML that still shows something.
//!
//! [`shrink`] takes a tree and a closure that says whether a candidate still shows it. Moves go from
//! coarse to fine and are tried in a fixed order, each text at most once, so that two runs give the
//! same bytes. Nothing here knows what is looked for (`predicate.rs`) or which moves there are
//! (`moves.rs`); a limit is a number of runs, never a time.

mod moves;
pub mod predicate;
mod seen;

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use crate::scenario::plain::Tree;
use crate::scenario::write::write;
use crate::scenario::{Loaded, load_bytes};

/// Runs of the predicate that a search may take unless told otherwise.
pub const RUNS_MAX_DEFAULT: u64 = 10_000;
/// Steps that are removed together at every place, also across the chunks of the delta debugging.
const NEIGHBOURS_MAX: usize = 3;

/// Size of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Steps.
    pub steps: usize,
    /// Scripted replies.
    pub replies: usize,
    /// Lines as written.
    pub lines: usize,
}

impl Size {
    /// Measures a tree as it is written.
    pub fn of(tree: &Tree) -> Self {
        Self {
            steps: tree.count_in("steps"),
            replies: tree.count_in("replies"),
            lines: write(tree).lines().count(),
        }
    }
}

/// What a search came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Shrunk {
    /// The smallest tree that was found.
    pub tree: Tree,
    /// Runs of the predicate.
    pub runs: u64,
    /// No single removal of a node keeps it; `false` where the budget ended first.
    pub is_minimal: bool,
}

/// Says whether a candidate still shows what is looked for.
pub type Shows<'a> = dyn FnMut(&Loaded) -> bool + 'a;
/// Is told the runs so far and the smallest tree so far, after each run.
pub type Tell<'a> = dyn FnMut(u64, &Tree) + 'a;

/// Makes a scenario smaller as long as it shows something. The start is taken to show it.
pub fn shrink(start: Tree, runs_max: u64, shows: &mut Shows<'_>, tell: &mut Tell<'_>) -> Shrunk {
    let mut search = Search {
        best: start,
        tried: BTreeSet::new(),
        runs: 0,
        runs_max,
        out_of_budget: false,
        shows,
        tell,
    };
    loop {
        let before = search.best.clone();
        search.keys_everywhere();
        search.lists();
        search.neighbours();
        search.nodes();
        search.short_forms();
        search.leaves();
        search.pairs();
        if search.best == before || search.out_of_budget {
            break;
        }
    }
    // What was refused before is known, so this takes no run where the loop ended by itself.
    let is_minimal = search.nothing_can_go() && !search.out_of_budget;
    Shrunk {
        tree: search.best,
        runs: search.runs,
        is_minimal,
    }
}

/// Reads a tree as a scenario. Rules are not looked up: a shrunk scenario names none.
pub fn load(tree: &Tree) -> Option<Loaded> {
    let text = write(tree);
    load_bytes("shrunk.yaml", "shrunk", text.as_bytes(), None).ok()
}

struct Search<'a, 'b> {
    best: Tree,
    /// Hashes of candidates that do not load or do not show it.
    tried: BTreeSet<[u8; 32]>,
    runs: u64,
    runs_max: u64,
    /// A candidate was left out for want of runs.
    out_of_budget: bool,
    shows: &'a mut Shows<'b>,
    tell: &'a mut Tell<'b>,
}

impl Search<'_, '_> {
    /// Tries a candidate and keeps it if it shows it.
    fn keep(&mut self, candidate: Option<Tree>) -> bool {
        let Some(candidate) = candidate else {
            return false;
        };
        if !self.shows(&candidate) {
            return false;
        }
        self.best = candidate;
        true
    }

    fn shows(&mut self, candidate: &Tree) -> bool {
        let text = write(candidate);
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        if self.tried.contains(&hash) {
            return false;
        }
        if self.runs >= self.runs_max {
            self.out_of_budget = true;
            return false;
        }
        let loaded = load_bytes("shrunk.yaml", "shrunk", text.as_bytes(), None);
        let shows = match &loaded {
            // What does not load costs no run.
            Err(_) => false,
            Ok(loaded) => {
                self.runs += 1;
                let shows = (self.shows)(loaded);
                (self.tell)(self.runs, if shows { candidate } else { &self.best });
                shows
            }
        };
        if !shows {
            self.tried.insert(hash);
        }
        shows
    }

    /// A key at once wherever it stands: assertions, usages, ids.
    fn keys_everywhere(&mut self) {
        for key in moves::keys(&self.best) {
            let candidate = self.best.without_key(&key);
            if candidate != self.best {
                self.keep(Some(candidate));
            }
        }
    }

    /// Delta debugging of every list, outer ones first. Chunks go from the end.
    fn lists(&mut self) {
        let mut number = 0;
        while let Some(place) = moves::lists(&self.best).into_iter().nth(number) {
            let mut chunk = moves::list_len(&self.best, &place);
            while chunk > 0 {
                let removed = self.chunks(&place, chunk, chunk);
                let left = moves::list_len(&self.best, &place);
                if chunk == 1 && removed {
                    continue;
                }
                chunk = (chunk / 2).min(left);
            }
            number += 1;
        }
    }

    /// Removes runs of neighbours that may lie across two chunks.
    fn neighbours(&mut self) {
        let steps = moves::lists(&self.best).into_iter();
        let steps: Vec<_> = steps.filter(|place| place.len() == 1).collect();
        for place in steps {
            for count in (2..=NEIGHBOURS_MAX).rev() {
                self.chunks(&place, count, 1);
            }
        }
    }

    /// Tries to remove `count` neighbours of a list, from its end on, `stride` apart.
    fn chunks(&mut self, place: &[usize], count: usize, stride: usize) -> bool {
        let mut removed = false;
        let mut end = moves::list_len(&self.best, place);
        while end > 0 {
            let start = end.saturating_sub(count);
            let candidate = self.best.without_children(place, start..end);
            if self.keep(candidate) {
                removed = true;
                end = start;
            } else {
                end = end.saturating_sub(stride);
            }
        }
        removed
    }

    /// Tries every move of a kind; the list is made anew only behind a move that worked, where
    /// another move has its number.
    fn each<M>(&mut self, list: fn(&Tree) -> Vec<M>, apply: fn(&Tree, &M) -> Option<Tree>) {
        let mut all = list(&self.best);
        let mut number = 0;
        while let Some(one) = all.get(number) {
            let candidate = apply(&self.best, one);
            if self.keep(candidate) {
                all = list(&self.best);
            } else {
                number += 1;
            }
        }
    }

    /// Every node on its own, shorter forms, and nodes that only make sense together.
    fn nodes(&mut self) {
        self.each(moves::removable, |tree, place| tree.without(place));
    }

    fn short_forms(&mut self) {
        self.each(moves::shorter_forms, |_, form| Some(form.clone()));
    }

    fn pairs(&mut self) {
        self.each(moves::pairs, |tree, (one, other)| {
            moves::without_pair(tree, one, other)
        });
    }

    /// Texts and numbers. A leaf is made smaller as often as that works.
    fn leaves(&mut self) {
        for place in self.best.places() {
            while let Some(smaller) = self.smaller(&place) {
                self.best = smaller;
            }
        }
    }

    fn smaller(&mut self, place: &[usize]) -> Option<Tree> {
        for leaf in moves::smaller_leaf(&self.best, place) {
            let candidate = self.best.with(place, leaf)?;
            if self.shows(&candidate) {
                return Some(candidate);
            }
        }
        None
    }

    /// Whether no single removal shows it.
    fn nothing_can_go(&mut self) -> bool {
        let places = moves::removable(&self.best);
        places.iter().all(|place| {
            let candidate = self.best.without(place);
            candidate.is_none_or(|candidate| !self.shows(&candidate))
        })
    }
}
