//! Histories drawn from a seed, supplied to a new thread, and what its first request sends.
//!
//! Items of every kind that parse, paired, unpaired, repeated and out of order, with ids and
//! without; a few call ids, so that they meet. The input of the request is compared, masked, with
//! no golden between: pairing, filtering, shapes, cuts and ids at once. What does not parse is
//! refused as a whole and has its own scenarios. The same items are held to the laws of pairing
//! without a binary (`laws`).

mod items;
#[cfg(test)]
mod laws;

use arbitrary::{Arbitrary as _, Unstructured};
use semver::Version;
use serde_json::{Value, json};

use self::items::Drawn;

use crate::driver::Outcome;
use crate::mask::mask;
use crate::perturb::Draw;
use crate::scenario::plan::{Plan, ReplyBody, ResumeStep, StepAction};
use crate::scenario::{Resolved, load_bytes};

/// Bytes that the items of a seed are drawn from.
const BYTES: usize = 600;

/// Where drawn items stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Place {
    /// In the history that a new thread is resumed with; the first request is compared.
    Supplied,
    /// Injected before the first turn; requests, rollout and events are compared.
    Injected,
    /// In a response of the model; requests, rollout and events are compared.
    Response,
}

impl Place {
    fn steps(self) -> &'static str {
        match self {
            Self::Supplied => {
                "  - resume: {by: history, history: [{type: other}]}\n  \
                   - {user: New question., replies: [{say: New answer.}]}\n"
            }
            Self::Injected => {
                "  - inject: [{type: other}]\n  \
                   - {user: New question., replies: [{say: New answer.}]}\n"
            }
            Self::Response => {
                "  - {user: First question., replies: [{raw: {type: other}}, {say: Two.}, {say: Three.}]}\n  \
                   - {user: New question., replies: [{say: New answer.}]}\n"
            }
        }
    }
}

/// The scenario around a drawn history. Outputs are cut by bytes or by tokens, and images are seen
/// or not, by the seed.
fn frame(seed: u64, place: Place) -> String {
    let cut = ["bytes: 100", "tokens: 20", "bytes: 1000"][(seed % 3) as usize];
    let modalities = ["text", "text, image"][(seed / 3 % 2) as usize];
    format!(
        "description: Drawn items are put into a thread.\n\
         rules: [history.supplied_items]\n\
         models: {{main: {{truncation: {{{cut}}}, input_modalities: [{modalities}]}}}}\n\
         steps:\n{}",
        place.steps()
    )
}

/// The plan of a seed for a version; the same seed gives the same items on every version.
pub fn plan(seed: u64, version: &Version, place: Place) -> Result<Plan, String> {
    let text = frame(seed, place);
    let id = format!("fuzz_history#{seed}");
    let loaded = load_bytes("fuzz", &id, text.as_bytes(), None)
        .map_err(|errors| errors.first().map(ToString::to_string).unwrap_or_default())?;
    match loaded.plan(version).map_err(|error| error.to_string())? {
        Resolved::Applicable(mut plan) => {
            let mut items = items(seed);
            items.retain(|item| parses(item, version));
            // An empty history is refused.
            if items.is_empty() {
                items.push(json!({"type": "message", "role": "user", "content": []}));
            }
            put(&mut plan, items, place);
            Ok(*plan)
        }
        Resolved::NotApplicable(why) => Err(why),
    }
}

fn put(plan: &mut Plan, items: Vec<Value>, place: Place) {
    match place {
        Place::Supplied => plan.steps[0].action = StepAction::Resume(ResumeStep::History(items)),
        Place::Injected => plan.steps[0].action = StepAction::Inject(items),
        Place::Response => {
            let ReplyBody::Stream { events, .. } = &mut plan.steps[0].replies[0].body else {
                unreachable!("the frame's first reply is a stream");
            };
            let done = |item| json!({"type": "response.output_item.done", "item": item});
            // Between `response.created` and `response.completed`.
            let end = events.len() - 1;
            events.splice(1..end, items.into_iter().map(done));
        }
    }
}

/// Whether a version reads the item: 0.144.6 knows no output without a call id, and would refuse
/// the whole history.
pub(crate) fn parses(item: &Value, version: &Version) -> bool {
    let outside = item["type"] == "function_call_output" && item.get("call_id").is_none();
    !outside || *version >= Version::new(0, 164, 0)
}

/// The items of a seed.
pub fn items(seed: u64) -> Vec<Value> {
    let mut draw = Draw::new(seed);
    let bytes: Vec<u8> = (0..BYTES).map(|_| draw.below(256) as u8).collect();
    items_of(&bytes)
}

/// The items that bytes are read as; none where they do not suffice.
pub(crate) fn items_of(bytes: &[u8]) -> Vec<Value> {
    Drawn::arbitrary(&mut Unstructured::new(bytes)).map_or_else(|_| Vec::new(), |drawn| drawn.0)
}

/// Masked input items of the first request of a run.
pub fn input(outcome: &Outcome) -> Option<Vec<Value>> {
    let masked = mask(&outcome.recording);
    let body = &masked.wire.first()?.body;
    body["input"].as_array().cloned()
}

/// What differs between the first requests of two runs; `None` where they are equal.
pub fn difference(ours: &Outcome, real: &Outcome) -> Option<String> {
    let ids = |outcome: &Outcome| -> Vec<String> {
        let findings = outcome.findings.iter();
        findings
            .map(|finding| format!("{}: {}", finding.id, finding.message))
            .collect()
    };
    let (Some(left), Some(right)) = (input(ours), input(real)) else {
        return Some(format!(
            "no request: engine says `{}`, binary `{}`",
            ids(ours).join("; "),
            ids(real).join("; ")
        ));
    };
    let at = (0..left.len().max(right.len())).find(|at| left.get(*at) != right.get(*at))?;
    let show = |side: &[Value]| side.get(at).map_or("nothing".to_owned(), Value::to_string);
    Some(format!(
        "input item {at}:\n  engine {}\n  binary {}",
        show(&left),
        show(&right)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use crate::golden::unmodelled::UnmodelledFields;
    use crate::perturb::compare_live;

    use engine::items::parse;
    use engine::profile::{Profile, Version as Family};

    #[test]
    fn a_seed_gives_one_history_and_every_kind_is_drawn() {
        assert_eq!(items(7), items(7));
        assert_ne!(items(7), items(8));
        let kinds: BTreeSet<String> = (0..300)
            .flat_map(items)
            .map(|item| item["type"].as_str().expect("a type").to_owned())
            .collect();
        assert_eq!(kinds.len(), 18, "{kinds:?}");
    }

    /// Otherwise equal recordings would say nothing.
    #[tokio::test(flavor = "current_thread")]
    async fn what_is_drawn_is_sent_and_a_planted_fault_is_seen() {
        let version = Version::new(0, 171, 0);
        let sound = crate::driver::open("engine@0.171", &[])
            .await
            .expect("an engine");
        let broken = "engine@0.171+planted:call_left_open";
        let broken = crate::driver::open(broken, &[]).await.expect("an engine");
        let none = UnmodelledFields::parse("").expect("no field");
        for place in [Place::Supplied, Place::Injected, Place::Response] {
            let (mut sent, mut seen) = (0, 0);
            for seed in 0..20 {
                let plan = plan(seed, &version, place).expect("a plan");
                let ours = sound.run(&plan).await.expect("runs");
                let other = broken.run(&plan).await.expect("runs");
                let last = mask(&ours.recording);
                let last = last.wire.last().expect("a request");
                sent += last.body["input"].as_array().expect("an input").len();
                seen += usize::from(match place {
                    Place::Supplied => difference(&other, &ours).is_some(),
                    _ => !compare_live(&other, &ours, "0.171", &none).is_empty(),
                });
            }
            assert!(sent > 20 * 6, "{place:?}: {sent} items");
            assert!(seen > 5, "{place:?}: {seen} of 20 show the fault");
        }
    }

    #[test]
    fn whatever_is_drawn_parses_on_every_profile() {
        for family in [Family::V144, Family::V164, Family::V171] {
            let profile = Profile::of(family);
            let version = Version::parse(profile.release).expect("a version");
            for seed in 0..300 {
                for item in items(seed) {
                    let read = parse(&item, &profile).is_ok();
                    assert_eq!(read, parses(&item, &version), "seed {seed}: {item}");
                }
            }
        }
    }
}
