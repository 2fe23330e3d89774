//! What every simulated session is held to, and what is known of it.

use std::collections::BTreeMap;

use super::facts::Facts;
use crate::check;
use crate::driver::Outcome;
use crate::mask::{Masked, mask};
use crate::recording::Finding;
use crate::scenario::plan::Plan;

/// Findings of a run that say nothing of the engine: the session ended before its fault came.
const SILENT: [&str; 1] = ["storage.not_reached"];

/// A law that is known to be broken where something holds.
struct Known {
    law: &'static str,
    /// Families on which it is, by their place in the table of versions.
    families: &'static [usize],
    /// The rule that says so.
    #[expect(dead_code, reason = "it is printed by `simulate --explain`")]
    rule: &'static str,
    when: fn(&Facts) -> bool,
}

const ALL: &[usize] = &[0, 1, 2];

/// What the client or the provider did, and what every release does.
const KNOWN: &[Known] = &[
    Known {
        law: "checker.pairing",
        families: ALL,
        rule: "history.pairing.by_set",
        when: |facts| facts.given_twice || facts.foreign,
    },
    Known {
        law: "checker.item_ids",
        families: ALL,
        rule: "history.ids.as_given",
        when: |facts| facts.given_twice || facts.foreign || facts.websockets,
    },
    Known {
        law: "checker.calls_run_once",
        families: ALL,
        rule: "turn.calls.as_given",
        when: |facts| facts.given_twice,
    },
    Known {
        law: "checker.call_order",
        families: ALL,
        rule: "history.pairing.by_set",
        when: |facts| facts.given_twice || facts.foreign || facts.storage,
    },
    Known {
        law: "checker.append_only_prefix",
        families: ALL,
        rule: "history.pairing.by_set",
        when: |facts| facts.given_twice || facts.foreign || facts.storage,
    },
    Known {
        law: "checker.delta_anchor",
        families: ALL,
        rule: "history.pairing.by_set",
        when: |facts| facts.given_twice || facts.foreign || facts.websockets,
    },
    Known {
        law: "checker.counter_in_window",
        families: ALL,
        rule: "history.ids.as_given",
        when: |facts| facts.foreign,
    },
    Known {
        law: "checker.context_once",
        families: ALL,
        rule: "compaction.retention.contextual_dropped",
        when: |facts| facts.contextual || facts.storage,
    },
    Known {
        law: "checker.live_task",
        families: ALL,
        rule: "compaction.token_budget.live_task_lost",
        when: |facts| facts.token_budget,
    },
    Known {
        law: "checker.usage_sums",
        families: ALL,
        rule: "compaction.trigger.window_full_cumulative",
        when: |facts| facts.window_full,
    },
    Known {
        law: "checker.user_text_kept",
        families: ALL,
        rule: "resume.revert",
        when: |facts| facts.ways_back || facts.storage || facts.token_budget,
    },
    Known {
        law: "checker.images_gone",
        families: ALL,
        rule: "compaction.remote_v2.images",
        when: |facts| facts.images,
    },
    Known {
        law: "checker.summary_source",
        families: ALL,
        rule: "compaction.summary.falls_back",
        when: |facts| facts.odd_summary,
    },
    Known {
        law: "checker.replay",
        families: ALL,
        rule: "rollout.storage.resume_needs_room",
        when: |facts| facts.storage,
    },
    Known {
        law: "checker.own_ciphertext",
        families: ALL,
        rule: "rollout.storage.lost_at_exit",
        when: |facts| facts.storage,
    },
    Known {
        law: "client.refused",
        families: ALL,
        rule: "history.items.refused",
        when: |facts| facts.foreign || facts.storage,
    },
];

/// Everything that is broken in a session and that no rule explains: the first finding of each law.
pub fn unexplained(plan: &Plan, outcome: &Outcome, family: usize) -> BTreeMap<String, Finding> {
    let facts = Facts::of(plan);
    let found = outcome.findings.iter();
    let own = found.filter(|finding| !SILENT.contains(&finding.id.as_str()));
    let mut found: Vec<Finding> = own.cloned().collect();
    let masked: Masked = mask(&outcome.recording);
    found.extend(check::run_all(&masked));
    let mut laws = BTreeMap::new();
    for finding in found {
        let is_known = KNOWN.iter().any(|known| {
            known.law == finding.id && known.families.contains(&family) && (known.when)(&facts)
        });
        if !is_known {
            laws.entry(finding.id.clone()).or_insert(finding);
        }
    }
    laws
}
