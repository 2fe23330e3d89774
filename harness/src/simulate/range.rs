//! A range of seeds: which there are, and how they are played on several threads.
//!
//! Results come in the order of the seeds, whatever the number of threads.

use std::str::FromStr;

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::Reach;
use super::trial::{Engine, Trial, runtime};

/// Seeds that are played before the next ones begin. No number of threads changes it, so that a
/// range that ends early ends at the same seed.
const BATCH: usize = 64;

/// Seeds A..B, the last one left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    from: u64,
    to: u64,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u64>().ok();
        let ends = text.split_once("..");
        match ends.and_then(|(from, to)| Some((number(from)?, number(to)?))) {
            Some((from, to)) if from < to => Ok(Self { from, to }),
            Some((from, to)) => Err(format!(
                "{from}..{to} holds no seed: B is left out, so that one seed is {from}..{}",
                from.saturating_add(1)
            )),
            None => Err("expected A..B, two whole numbers, as 0..1000".to_owned()),
        }
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}..{}", self.from, self.to)
    }
}

impl Range {
    /// The first seed, if there is no other.
    pub fn single(self) -> Option<u64> {
        (self.to - self.from == 1).then_some(self.from)
    }

    /// The range moved by a number that only depends on a text: each commit looks at seeds of its own.
    /// `None` where the seeds end.
    pub fn moved_by(self, text: &str) -> Option<Self> {
        let hash = Sha256::digest(text.as_bytes());
        // Six bytes: far from the end of the numbers, and short enough to be read.
        let moved = hash[..6]
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Some(Self {
            from: self.from.checked_add(moved)?,
            to: self.to.checked_add(moved)?,
        })
    }

    /// The seeds of one part: every `of`-th one.
    pub fn seeds(self, index: usize, of: usize) -> impl Iterator<Item = u64> {
        (self.from..self.to).skip(index).step_by(of.max(1))
    }
}

/// How a range is played.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// What may be drawn.
    pub reach: Reach,
    /// Each seed twice.
    pub twice: bool,
    /// Threads.
    pub jobs: usize,
}

/// Plays seeds and tells of each in their order, until there are no more or a listener has enough.
pub fn play(
    engine: &Engine,
    way: Way,
    seeds: impl Iterator<Item = u64>,
    tell: &mut dyn FnMut(Trial) -> bool,
) -> Result<(), String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(way.jobs);
    let pool = pool.build().map_err(|error| error.to_string())?;
    let mut seeds = seeds;
    loop {
        let batch: Vec<u64> = seeds.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return Ok(());
        }
        let trials: Result<Vec<Trial>, String> = pool.install(|| {
            let all = batch.par_iter().map_init(runtime, |runtime, seed| {
                let runtime = runtime.as_ref().map_err(ToString::to_string)?;
                Ok(engine.trial(runtime, way.reach, *seed, way.twice))
            });
            all.collect()
        });
        for trial in trials? {
            if !tell(trial) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::versions::Subject;

    #[test]
    fn ranges_are_read_and_an_empty_one_says_why() {
        let range: Range = "3..9".parse().expect("a range");
        assert_eq!(range.seeds(0, 1).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8]);
        let parts = [0, 1].map(|part| range.seeds(part, 2).collect::<Vec<_>>());
        assert_eq!(parts, [[3, 5, 7], [4, 6, 8]]);
        assert_eq!(range.single(), None);
        assert_eq!("4..5".parse::<Range>().expect("a range").single(), Some(4));
        for wrong in ["5..5", "7..3"] {
            let why = wrong.parse::<Range>().expect_err("no seed");
            assert!(why.contains("holds no seed"), "{why}");
        }
        for wrong in ["", "5", "a..b", "..", "-1..4", "1..99999999999999999999"] {
            let why = wrong.parse::<Range>().expect_err("no range");
            assert!(why.contains("expected A..B"), "{why}");
        }
    }

    #[test]
    fn a_commit_moves_a_range_always_by_the_same() {
        let range: Range = "0..10".parse().expect("a range");
        let moved = range.moved_by("475caab").expect("in the numbers");
        assert_eq!(range.moved_by("475caab"), Some(moved));
        assert_ne!(range.moved_by("2009724"), Some(moved));
        assert_eq!(moved.seeds(0, 1).count(), 10);
        let last: Range = format!("0..{}", u64::MAX).parse().expect("a range");
        assert_eq!(last.moved_by("475caab"), None);
    }

    #[test]
    fn two_threads_tell_what_one_tells() {
        let subject = Subject::parse("engine@0.144").expect("a subject");
        let engine = Engine::new(&subject).expect("an engine");
        let told = |jobs| {
            let way = Way {
                reach: Reach::ENGINE,
                twice: false,
                jobs,
            };
            let mut told = Vec::new();
            play(&engine, way, 0..70, &mut |trial| {
                told.push(format!("{trial:?}"));
                told.len() < 66
            })
            .expect("it runs");
            told
        };
        let one = told(1);
        assert_eq!(one.len(), 66, "it ends when the listener has enough");
        assert_eq!(told(2), one);
    }
}
