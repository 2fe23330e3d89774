//! Where a session is drawn from: a seed, or the bytes of a fuzzer. Both give the same kinds of draw.

use crate::perturb::{Draw, text_of};

/// A source of draws, and how many it gave.
#[derive(Debug, Clone)]
pub struct Dice {
    source: Source,
    count: u64,
    /// The draw that gives another number: a canary of `twice`.
    #[cfg(test)]
    slips_at: Option<u64>,
}

#[derive(Debug, Clone)]
enum Source {
    Seed(Draw),
    /// What is left, in reverse; behind its end every draw is 0.
    Bytes(Vec<u8>),
}

impl Dice {
    /// Draws that only depend on the seed.
    pub fn of_seed(seed: u64) -> Self {
        Self {
            source: Source::Seed(Draw::new(seed)),
            count: 0,
            #[cfg(test)]
            slips_at: None,
        }
    }

    /// Draws that spend bytes, so that a fuzzer or a property test can steer and shrink them.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let left = bytes.iter().rev().copied().collect();
        Self {
            source: Source::Bytes(left),
            count: 0,
            #[cfg(test)]
            slips_at: None,
        }
    }

    /// The same dice, but for the draw with a number from 0.
    #[cfg(test)]
    pub(super) fn slipping_at(self, draw: u64) -> Self {
        let slips_at = Some(draw);
        Self { slips_at, ..self }
    }

    /// Draws so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A number below a bound; 0 where the bound is.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.count += 1;
        let drawn = self.drawn(bound);
        #[cfg(test)]
        if self.slips_at == Some(self.count - 1) {
            return (drawn + 1) % bound.max(1);
        }
        drawn
    }

    fn drawn(&mut self, bound: u64) -> u64 {
        match &mut self.source {
            Source::Seed(draw) => draw.below(bound),
            Source::Bytes(left) => {
                let wide = bound > u64::from(u8::MAX);
                let mut number = u64::from(left.pop().unwrap_or(0));
                if wide {
                    let high = u64::from(left.pop().unwrap_or(0));
                    let more = u64::from(left.pop().unwrap_or(0));
                    number |= high << 8 | more << 16;
                }
                number % bound.max(1)
            }
        }
    }

    /// True one time in `times`. What is rare is no draw of 0, so that spent bytes end a session.
    pub fn rarely(&mut self, times: u64) -> bool {
        self.below(times) + 1 == times
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        let at = self.below(list.len() as u64);
        &list[usize::try_from(at).unwrap_or(0)]
    }

    /// A short text; a first word keeps it from being blank, and a last sign from ending in a blank.
    pub fn text(&mut self, head: &str) -> String {
        let drawn = text_of(&mut |bound| self.below(bound));
        format!("{head} {drawn}.")
    }

    /// So many drawn bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence_and_spent_bytes_give_zeros() {
        let draws = |mut dice: Dice| -> Vec<u64> { (0..40).map(|_| dice.below(1000)).collect() };
        assert_eq!(draws(Dice::of_seed(3)), draws(Dice::of_seed(3)));
        assert_ne!(draws(Dice::of_seed(3)), draws(Dice::of_seed(4)));
        let spent = draws(Dice::of_bytes(&[1, 1, 0, 7]));
        assert_eq!(spent[..3], [257, 7, 0]);
        assert!(!Dice::of_bytes(&[]).rarely(2));
    }
}
