//! What every simulated session is held to, and which of what is broken a rule explains.

mod bounds;
mod kept;
mod known;
mod limits;
mod told;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use self::known::KNOWN;
use self::view::View;
use crate::check;
use crate::driver::Outcome;
use crate::mask::{Masked, mask};
use crate::recording::Finding;
use crate::scenario::plan::Plan;

/// Findings of a run that say nothing of the engine: the session ended before its fault came.
const SILENT: [&str; 1] = ["storage.not_reached"];

/// A law that needs the drawn session beside its recording.
type SessionLaw = fn(&View<'_>) -> Vec<Finding>;

const SESSION: [SessionLaw; 10] = [
    told::blind_models,
    told::model_goes_on,
    told::interrupts_told,
    told::steers_kept,
    limits::limit_holds,
    limits::outputs_cut,
    limits::cuts_retried,
    kept::local_keeps,
    kept::lone_outputs,
    kept::stand_ins,
];

/// What came of holding a session to the laws.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// The first finding of each law that is broken without a known cause.
    pub unexplained: BTreeMap<String, Finding>,
    /// Broken laws, each with the rule that says so.
    pub explained: BTreeSet<(String, &'static str)>,
}

/// Holds a session to every law.
pub fn judge(plan: &Plan, outcome: &Outcome, family: usize) -> Verdict {
    let found = outcome.findings.iter();
    let own = found.filter(|finding| !SILENT.contains(&finding.id.as_str()));
    let mut found: Vec<Finding> = own.cloned().collect();
    let masked: Masked = mask(&outcome.recording);
    found.extend(check::run_all(&masked));
    found.extend(bounds::request_bytes(&outcome.recording));
    found.extend(bounds::turn_requests(&masked));
    let view = View::of(plan, &outcome.recording, &masked);
    found.extend(SESSION.iter().flat_map(|law| law(&view)));
    let mut verdict = Verdict::default();
    for finding in found {
        let mut rules = KNOWN.iter();
        match rules.find(|known| known.explains(&finding.id, family, &view.facts)) {
            Some(known) => drop(verdict.explained.insert((finding.id, known.rule))),
            None => drop(
                verdict
                    .unexplained
                    .entry(finding.id.clone())
                    .or_insert(finding),
            ),
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::super::Reach;
    use super::super::trial::{Engine, runtime};
    use crate::golden::versions::Subject;

    /// Sessions in which the client or the provider does what looks like a broken law: a steer that
    /// drops an answer, an interrupt at a gate, a budget that is spent, an answer without a summary.
    const SEEDS: [(&str, &[u64]); 3] = [
        ("0.144", &[2, 6, 30, 74, 214]),
        ("0.164", &[22, 125, 204, 269]),
        ("0.171", &[0, 18, 38, 125, 204]),
    ];

    #[test]
    fn what_a_client_or_a_provider_did_is_no_finding() {
        let runtime = runtime().expect("a runtime");
        for (family, seeds) in SEEDS {
            let subject = Subject::parse(&format!("engine@{family}+fixed")).expect("a subject");
            let engine = Engine::new(&subject).expect("an engine");
            for seed in seeds {
                let trial = engine.trial(&runtime, Reach::ENGINE, *seed, false);
                assert_eq!(trial.not_run, None, "seed {seed}");
                assert_eq!(trial.unexplained, [].into(), "{family}, seed {seed}");
            }
        }
    }
}
