//! Laws that are known to be broken where the client or the provider did something, each with its rule.
//!
//! A row is a cause that is wide on purpose: a session with it says nothing about that law. What is
//! left has no known cause.

use super::super::facts::Facts;

/// A law that is known to be broken where something holds.
pub(super) struct Known {
    law: &'static str,
    /// Families on which it is, by their place in the table of versions.
    families: &'static [usize],
    /// The rule that says so.
    pub(super) rule: &'static str,
    when: fn(&Facts) -> bool,
}

const ALL: &[usize] = &[0, 1, 2];
const OLDEST: &[usize] = &[0];

/// What the client or the provider did, and what every release does.
pub(super) const KNOWN: &[Known] = &[
    Known {
        law: "checker.pairing",
        families: ALL,
        rule: "history.pairing.by_set",
        when: |facts| facts.given_twice || facts.foreign,
    },
    Known {
        law: "checker.item_ids",
        families: ALL,
        rule: "request.passthrough.items",
        when: |facts| facts.given_twice || facts.foreign || facts.websockets,
    },
    Known {
        law: "checker.calls_run_once",
        families: ALL,
        rule: "history.pairing.duplicates",
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
        rule: "request.passthrough.items",
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
        law: "checker.live_task",
        families: OLDEST,
        rule: "compaction.remote_v1.any_number",
        when: |facts| facts.odd_summary,
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
        rule: "revert.exact",
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
        law: "checker.fold",
        families: ALL,
        rule: "rollout.storage.lost_at_exit",
        when: |facts| facts.storage,
    },
    Known {
        law: "checker.fold",
        families: ALL,
        rule: "history.pairing.by_set",
        when: |facts| facts.given_twice || facts.foreign,
    },
    Known {
        law: "checker.ordinals",
        families: ALL,
        rule: "rollout.storage.torn_retry",
        when: |facts| facts.storage,
    },
    Known {
        law: "checker.user_text_kept",
        families: ALL,
        rule: "compaction.retention.contextual_dropped",
        when: |facts| facts.contextual,
    },
    Known {
        law: "checker.append_only_prefix",
        families: OLDEST,
        rule: "hooks.pre_compact.stop",
        when: |facts| facts.hooks && facts.ways_back,
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
        rule: "history.refused_items",
        when: |facts| facts.foreign || facts.storage,
    },
    Known {
        law: "checker.append_only_prefix",
        families: ALL,
        rule: "history.modality.image_replaced",
        when: |facts| facts.images && facts.switches,
    },
    Known {
        law: "checker.item_ids",
        families: ALL,
        rule: "history.modality.image_replaced",
        when: |facts| facts.images && facts.switches,
    },
    Known {
        law: "checker.context_once",
        families: OLDEST,
        rule: "resume.rollback.context",
        when: |facts| facts.ways_back,
    },
    Known {
        law: "checker.context_once",
        families: OLDEST,
        rule: "context.diff.model_switch",
        when: |facts| facts.switches,
    },
    Known {
        law: "checker.context_once",
        families: OLDEST,
        rule: "context.permissions.asked",
        when: |facts| facts.permissions,
    },
    Known {
        law: "checker.counter_in_window",
        families: OLDEST,
        rule: "compaction.limit.default_ninety_percent",
        when: |_| true,
    },
    Known {
        law: "checker.user_text_kept",
        families: OLDEST,
        rule: "compaction.failure.user_text",
        when: |facts| facts.compacts_first || facts.hooks,
    },
    Known {
        law: "checker.user_text_kept",
        families: &[1],
        rule: "compaction.interrupt.pre_turn",
        when: |facts| facts.compacts_first && facts.interrupts,
    },
];

impl Known {
    /// Whether it explains a broken law of a session.
    pub(super) fn explains(&self, law: &str, family: usize, facts: &Facts) -> bool {
        self.law == law && self.families.contains(&family) && (self.when)(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    /// A row with a misspelt law or rule explains nothing, or says what nobody can look up.
    #[test]
    fn every_row_names_a_law_and_a_rule_that_there_are() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let rules = std::fs::read_to_string(root.join("docs/rules.md")).expect("the rules");
        for known in KNOWN {
            let row = format!("| {} |", known.rule);
            assert!(rules.contains(&row), "no rule {}", known.rule);
            let checker = known.law.strip_prefix("checker.");
            let is_known = checker.is_none_or(|id| check::all().iter().any(|one| one.id == id));
            assert!(is_known, "no checker {}", known.law);
        }
    }
}
