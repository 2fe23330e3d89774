//! After every step the live history is what the rollout written so far gives when it is read again.
//!
//! It looks at the engine itself, where `check/replay.rs` only has requests to go by. Not compared is
//! what has a reason to differ: a file that a step edited or that the storage failed; outputs where
//! models cut them in other ways, since a reading cuts by the policy in force; and a thread of 0.144
//! that was rolled back and has a checkpoint, which the binary itself reads otherwise once another
//! turn stands behind the marker (a drawn session, equal on engine and binary in all it sent).

use engine::items::Item;
use engine::session::Session;
use serde_json::Value;

use super::Run;
use crate::recording::Finding;
use crate::scenario::plan::PlanStep;

/// What a difference is called.
pub(crate) const READ_BACK: &str = "rollout.read_back";
/// Longest part of an item that is told.
const TOLD_BYTES_MAX: usize = 160;

impl Run<'_> {
    /// Compares the two behind a step.
    pub(super) fn read_again(&mut self, step: &PlanStep) {
        let unlike = !self.edits.is_empty() || self.files.ever_failed();
        if !self.rereads || unlike || self.rolled_back_with_checkpoint() {
            return;
        }
        let Some(session) = &self.session else {
            return;
        };
        if let Some(what) = self.differs(session) {
            self.findings.push(Finding {
                id: READ_BACK.to_owned(),
                message: format!("step {} (line {}): {what}", step.number, step.line),
            });
        }
    }

    fn differs(&self, session: &Session) -> Option<String> {
        let live: Vec<&Item> = session.history().items().iter().collect();
        let live: Vec<&Item> = live
            .into_iter()
            .filter(|item| item.kind() != "additional_tools" || self.profile.records_tool_items)
            .collect();
        let found = match self.found_by(&self.thread, session.settings()) {
            Ok(found) => found,
            // A thread that nothing was recorded of yet.
            Err(_) if live.is_empty() => return None,
            Err(why) => return Some(format!("the rollout {why}")),
        };
        let read = found.history.items();
        let recut = self.cuts_differ();
        for (at, (live, read)) in live.iter().zip(read).enumerate() {
            if !same(live, read, recut) {
                return Some(format!(
                    "item {} of the history is {} live, and {} from the rollout",
                    at + 1,
                    told(live),
                    told(read)
                ));
            }
        }
        (live.len() != read.len()).then(|| {
            format!(
                "the history has {} items live, and {} from the rollout",
                live.len(),
                read.len()
            )
        })
    }

    fn rolled_back_with_checkpoint(&self) -> bool {
        if self.profile.usage_records {
            return false;
        }
        let records = self.files.records(&self.profile);
        let has = |wanted: &str| {
            let mut records = records.iter();
            records.any(|line| line["type"] == wanted || line["payload"]["type"] == wanted)
        };
        has("thread_rolled_back") && has("compacted")
    }

    /// Whether outputs may have been cut by another policy than the one in force.
    fn cuts_differ(&self) -> bool {
        let policies = self.plan.models.iter().map(|model| &model.truncation);
        let mut policies = policies.map(|policy| format!("{policy:?}"));
        let first = policies.next();
        policies.any(|policy| Some(policy) != first)
    }
}

fn same(live: &Item, read: &Item, recut: bool) -> bool {
    if recut && live.kind().ends_with("_output") {
        return live.kind() == read.kind() && live.call_id() == read.call_id();
    }
    live.passthrough == read.passthrough
        && (live.payload == read.payload || lost_its_content(live, read))
}

/// Reasoning whose content is no reasoning text: the record has no key for it, and a reader takes
/// what has none for content that was never given (history.md §1).
fn lost_its_content(live: &Item, read: &Item) -> bool {
    let mut read = read.payload.clone();
    let null = read.shift_remove("content") == Some(Value::Null);
    null && live.kind() == "reasoning" && live.payload == read
}

fn told(item: &Item) -> String {
    let text = Value::Object(item.payload.clone()).to_string();
    format!("`{}`", &text[..text.floor_char_boundary(TOLD_BYTES_MAX)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::engine::{Profile, Version};
    use crate::rollout_edit::{Change, Edit, RecordAt};
    use crate::scenario::plan::Plan;
    use crate::scenario::{Resolved, load_bytes};

    const PLAN: &str = "description: A thread of two turns.\nrules: [rollout.append_only]\nsteps:\n  \
        - {user: U1, replies: [{say: A1}]}\n  - {user: U2, replies: [{say: A2}]}\n";

    fn plan() -> Plan {
        let loaded = load_bytes("case", "reread", PLAN.as_bytes(), None).expect("a scenario");
        match loaded
            .plan(&semver::Version::new(0, 171, 0))
            .expect("resolves")
        {
            Resolved::Applicable(plan) => *plan,
            Resolved::NotApplicable(why) => panic!("{why}"),
        }
    }

    /// Findings of both turns, with an edit between them that nobody is told of.
    async fn findings(change: Option<Change>) -> Vec<Finding> {
        let plan = plan();
        let mut run = Run::new(Profile::of(Version::V171), &plan);
        run.step(&plan.steps[0]).await.expect("the first turn");
        if let Some(change) = change {
            let edit = Edit {
                oldest: false,
                record: Some(RecordAt {
                    last: true,
                    kind: "response_item".to_owned(),
                    holding: None,
                }),
                change,
            };
            run.files.edit(&edit, 0).expect("an edit");
        }
        run.step(&plan.steps[1]).await.expect("the second turn");
        run.findings
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_thread_that_is_written_down_is_read_as_it_is() {
        assert_eq!(Box::pin(findings(None)).await, []);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_item_that_is_lost_or_changed_is_named() {
        let lost = Box::pin(findings(Some(Change::Drop))).await;
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].id, READ_BACK);
        let changed = Change::Text {
            text: "A1".to_owned(),
            by: b"A7".to_vec(),
        };
        let changed = Box::pin(findings(Some(changed))).await;
        assert!(
            changed[0].message.contains("item 2 of the history"),
            "{changed:?}"
        );
        assert!(changed[0].message.contains("A7"), "{changed:?}");
    }
}
