//! The same seed twice: where the second session is another one.
//!
//! Compared is everything a session leaves: its draws, its steps, each request with its headers and
//! exact body, each byte of its rollout files, and each event.

use std::fmt;

use super::Simulated;
use crate::driver::engine::play::Mark;

/// Where two sessions of one seed part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// The first step that differs, from 1; 0 where the session was not played to its end.
    pub step: usize,
    /// Draws before that step.
    pub draws: u64,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, draws, what } = self;
        write!(f, "step {step}, behind draw {draws}: {what}")
    }
}

impl Divergence {
    /// Two sessions of which one was not played to its end.
    pub(super) fn of_ends(first: &str, second: &str) -> Option<Self> {
        (first != second).then(|| Self {
            step: 0,
            draws: 0,
            what: format!("first {first}, then {second}"),
        })
    }
}

/// The first place where two sessions part.
pub fn first_divergence(first: &Simulated, second: &Simulated) -> Option<Divergence> {
    // What a draw decides is seen before what comes of it.
    let found = [
        draws(first, second),
        steps(first, second),
        requests(first, second),
        rollouts(first, second),
        events(first, second),
    ];
    let found = found.into_iter().flatten().chain(rest(first, second));
    let (step, what) = found.min_by_key(|(step, _)| *step)?;
    Some(Divergence {
        step,
        draws: first
            .draws_by_step
            .get(step - 1)
            .copied()
            .unwrap_or_default(),
        what,
    })
}

/// A step from 1, and what differs there.
type Found = Option<(usize, String)>;

/// The first place where two lists part; a list that ends parts there.
fn parts<T: PartialEq>(first: &[T], second: &[T]) -> Option<usize> {
    let equal = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    (equal < first.len().max(second.len())).then_some(equal)
}

/// The step from 1 in which something came that has a number from 0.
fn step_of(session: &Simulated, number: usize, count: impl Fn(&Mark) -> usize) -> usize {
    let behind = session.marks.iter().position(|mark| count(mark) > number);
    behind.map_or(session.marks.len().max(1), |index| index + 1)
}

fn draws(first: &Simulated, second: &Simulated) -> Found {
    let (a, b) = (&first.draws_by_step, &second.draws_by_step);
    let at = parts(a, b)?;
    let said = |list: &[u64]| list.get(at).map_or("none".to_owned(), u64::to_string);
    // The number before a step tells what the step before it took.
    let step = at.max(1);
    Some((
        step,
        format!("draws at its end: {}, then {}", said(a), said(b)),
    ))
}

fn steps(first: &Simulated, second: &Simulated) -> Found {
    let at = parts(&first.plan.steps, &second.plan.steps)?;
    Some((at + 1, "another step, or other answers to it".to_owned()))
}

fn requests(first: &Simulated, second: &Simulated) -> Found {
    let (a, b) = (&first.outcome.recording, &second.outcome.recording);
    let at = parts(&a.journal, &b.journal)?;
    let step = step_of(first, at, |mark| mark.requests);
    let what = match (a.journal.get(at), b.journal.get(at)) {
        (Some(a), Some(b)) => parts(&a.body, &b.body).map_or_else(
            || "its headers or its answer differ".to_owned(),
            |byte| format!("its body differs from byte {byte} on"),
        ),
        _ => "it is sent only once of two times".to_owned(),
    };
    Some((step, format!("request {}: {what}", at + 1)))
}

fn rollouts(first: &Simulated, second: &Simulated) -> Found {
    let (a, b) = (&first.outcome.recording, &second.outcome.recording);
    let file = parts(&a.rollouts, &b.rollouts)?;
    let (Some(a), Some(b)) = (a.rollouts.get(file), b.rollouts.get(file)) else {
        let step = step_of(first, file, |mark| mark.rollouts.len());
        return Some((
            step,
            format!("rollout file {} is written only once", file + 1),
        ));
    };
    let byte = parts(a.text.as_bytes(), b.text.as_bytes()).unwrap_or_default();
    let line = 1 + memchr::memchr_iter(b'\n', &a.text.as_bytes()[..byte]).count();
    let length = |mark: &Mark| mark.rollouts.get(file).copied().unwrap_or_default();
    let step = step_of(first, byte, length);
    Some((
        step,
        format!("rollout file {}, line {line}, byte {byte}", file + 1),
    ))
}

fn events(first: &Simulated, second: &Simulated) -> Found {
    let (a, b) = (&first.outcome.recording, &second.outcome.recording);
    let at = parts(&a.events, &b.events)?;
    let step = step_of(first, at, |mark| mark.events);
    let said = |list: &[_]| {
        list.get(at)
            .map_or("none".to_owned(), |one| format!("{one:?}"))
    };
    Some((
        step,
        format!(
            "event {}: {}, then {}",
            at + 1,
            said(&a.events),
            said(&b.events)
        ),
    ))
}

/// What has no place in a step.
fn rest(first: &Simulated, second: &Simulated) -> Found {
    let last = first.marks.len().max(1);
    let same = first.outcome == second.outcome && first.options == second.options;
    let same = same && first.draws == second.draws && first.scenario == second.scenario;
    (!same).then(|| (last, "findings, options or settings".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Engine, Played, runtime};
    use super::super::{Dice, Reach};
    use super::*;
    use crate::golden::versions::Subject;

    /// Seeds that are played twice in every run of the tests; by hand ten thousand
    /// (`turnproof simulate --twice --seeds 0..10000`).
    const SEEDS: u64 = 200;

    fn engine(name: &str) -> Engine {
        Engine::new(&Subject::parse(name).expect("a subject")).expect("an engine")
    }

    #[test]
    fn a_seed_is_the_same_session_again() {
        let (engine, runtime) = (engine("engine@0.171+fixed"), runtime().expect("a runtime"));
        for seed in 0..SEEDS {
            let trial = engine.trial(&runtime, Reach::ENGINE, seed, true);
            assert_eq!(trial.divergence, None, "seed {seed}");
        }
    }

    fn simulated(engine: &Engine, seed: u64) -> Simulated {
        match engine.play(&runtime().expect("a runtime"), Reach::ENGINE, seed) {
            Played::ToItsEnd(simulated) => *simulated,
            other => panic!("{other:?}"),
        }
    }

    /// The canary: dice that slip at a draw of the second time.
    #[test]
    fn dice_that_slip_are_seen_at_their_step() {
        let (engine, runtime) = (engine("engine@0.171+fixed"), runtime().expect("a runtime"));
        let whole = simulated(&engine, 3);
        let (step, before) = (4, whole.draws_by_step[3]);
        let seen = (before..whole.draws_by_step[4]).filter(|draw| {
            let dice = Dice::of_seed(3).slipping_at(*draw);
            let trial = engine.trial_of(&runtime, Reach::ENGINE, 3, Some(dice));
            trial.divergence.is_some_and(|found| {
                assert!(found.step >= step, "{found}");
                found.step == step && found.draws == before
            })
        });
        assert!(seen.count() > 0, "no draw of step {step} was seen to slip");
    }

    #[test]
    fn a_byte_an_event_and_a_request_that_differ_are_named() {
        let engine = engine("engine@0.171+fixed");
        let (first, mut second) = (simulated(&engine, 3), simulated(&engine, 3));
        assert_eq!(first_divergence(&first, &second), None);
        let found = |second: &Simulated| first_divergence(&first, second).expect("it differs");
        let recording = |second: &mut Simulated| second.outcome.recording.clone();
        let kept = recording(&mut second);
        let number = first.marks[1].requests;
        second.outcome.recording.journal[number].body[7] ^= 1;
        let told = found(&second).to_string();
        assert!(told.contains(&format!(
            "request {}: its body differs from byte 7",
            number + 1
        )));
        assert!(told.starts_with("step "), "{told}");
        second.outcome.recording = kept.clone();
        second.outcome.recording.events.pop();
        assert!(found(&second).what.starts_with("event "));
        second.outcome.recording = kept;
        second.outcome.recording.rollouts[0].text.push('\n');
        assert!(found(&second).what.starts_with("rollout file 1"));
    }
}
