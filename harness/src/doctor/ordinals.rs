//! Ordinals of a paginated file count up by one (`check::ordinals`, told apart by kind of fault).
//!
//! Codex needs one on the last record only; the order of the lines counts (history.md §7).

use std::collections::VecDeque;

use super::findings::Findings;
use crate::rollout_file::{Place, Record};

/// Ordinals that are remembered to tell a repeated one from one that comes late.
const REMEMBERED: usize = 4096;

/// Ordinals of a file.
#[derive(Debug, Default)]
pub struct Ordinals {
    expected: Option<u64>,
    recent: VecDeque<u64>,
    numbered: u64,
    first_numbered: Option<Place>,
    /// The last record has none.
    last_missing: Option<Place>,
}

impl Ordinals {
    /// Takes the next record. `paginated` is what the session metadata says; a file without it is
    /// judged by its first record.
    pub fn record(&mut self, record: &Record, place: Place, paginated: bool, into: &mut Findings) {
        let Some(ordinal) = record.ordinal else {
            if paginated {
                self.last_missing = Some(place);
                into.add("ordinal.missing", place, "the record has no ordinal");
                // It takes the number that it should have had.
                self.expected = self.expected.map(|next| next.saturating_add(1));
            }
            return;
        };
        self.last_missing = None;
        self.numbered += 1;
        self.first_numbered.get_or_insert(place);
        if paginated && let Some(expected) = self.expected {
            self.judge(ordinal, expected, place, into);
        }
        self.recent.push_back(ordinal);
        if self.recent.len() > REMEMBERED {
            self.recent.pop_front();
        }
        let next = ordinal.saturating_add(1);
        self.expected = Some(self.expected.map_or(next, |before| before.max(next)));
    }

    fn judge(&self, ordinal: u64, expected: u64, place: Place, into: &mut Findings) {
        if ordinal > expected {
            let what = format!("ordinal {ordinal}, expected {expected}");
            into.add("ordinal.gap", place, what);
        } else if self.recent.contains(&ordinal) {
            into.add(
                "ordinal.duplicate",
                place,
                format!("ordinal {ordinal} again"),
            );
        } else if ordinal < expected {
            let what = format!("ordinal {ordinal} behind {}", expected - 1);
            into.add("ordinal.reordered", place, what);
        }
    }

    /// What the end of the file decides.
    pub fn finish(self, paginated: bool, into: &mut Findings) {
        if let Some(place) = self.last_missing {
            into.add(
                "ordinal.last_missing",
                place,
                "the last record has no ordinal",
            );
        }
        if !paginated && let Some(place) = self.first_numbered {
            let what = format!("{} records have an ordinal", self.numbered);
            into.add("ordinal.in_legacy", place, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// `rule line` of each finding.
    fn found(ordinals: &[Option<u64>], paginated: bool) -> Vec<String> {
        let mut findings = Findings::default();
        let mut state = Ordinals::default();
        for (line, ordinal) in (1..).zip(ordinals) {
            let record = Record {
                kind: "event_msg".into(),
                ordinal: *ordinal,
                payload: json!({}),
                metadata: Value::Null,
            };
            state.record(&record, Place { line, offset: 0 }, paginated, &mut findings);
        }
        state.finish(paginated, &mut findings);
        let (kept, _) = findings.finish();
        kept.iter()
            .map(|f| format!("{} {}", f.rule, f.line))
            .collect()
    }

    #[test]
    fn counting_passes_from_any_number_on() {
        assert_eq!(found(&[Some(0), Some(1), Some(2)], true), [""; 0]);
        assert_eq!(found(&[Some(7), Some(8)], true), [""; 0]);
        assert_eq!(found(&[None, None], false), [""; 0]);
    }

    #[test]
    fn every_fault_has_its_name_once() {
        let all = |list: &[u64]| list.iter().map(|n| Some(*n)).collect::<Vec<_>>();
        assert_eq!(found(&all(&[0, 1, 5, 6]), true), ["ordinal.gap 3"]);
        assert_eq!(found(&all(&[0, 1, 1, 2]), true), ["ordinal.duplicate 3"]);
        assert_eq!(
            found(&all(&[0, 2, 1, 3]), true),
            ["ordinal.gap 2", "ordinal.reordered 3"]
        );
        assert_eq!(
            found(&[Some(0), None, Some(2)], true),
            ["ordinal.missing 2"]
        );
        assert_eq!(
            found(&[Some(0), None], true),
            ["ordinal.last_missing 2", "ordinal.missing 2"]
        );
        assert_eq!(found(&all(&[0, 5]), false), ["ordinal.in_legacy 1"]);
        assert_eq!(
            found(&all(&[u64::MAX, u64::MAX]), true),
            ["ordinal.duplicate 2"]
        );
    }
}
