//! A turn does not compact again and again with no more than one sampling between.

use std::collections::BTreeMap;

use super::turn;
use crate::mask::Masked;

/// Compactions in a row, each followed by one sampling, before they are a loop.
const IN_A_ROW_MAX: usize = 3;

#[derive(Default)]
struct Run {
    compactions: usize,
    samplings: usize,
}

/// Checks every turn.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    let mut runs: BTreeMap<&str, Run> = BTreeMap::new();
    for (number, request) in masked.wire.iter().enumerate() {
        let Some(turn) = turn(request) else { continue };
        let run = runs.entry(turn).or_default();
        // A request without a completed answer is tried again; it is no round of its own.
        let completed = masked.answers.get(number).is_none_or(Option::is_some);
        if !completed {
            continue;
        }
        match request.kind.as_str() {
            "turn" => {
                run.samplings += 1;
                if run.samplings > 1 {
                    run.compactions = 0;
                }
            }
            "compaction" => {
                run.compactions += 1;
                run.samplings = 0;
                if run.compactions == IN_A_ROW_MAX + 1 {
                    found.push(format!(
                        "request {} is compaction {} in a row of turn {turn}",
                        number + 1,
                        run.compactions
                    ));
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::requests;
    use super::*;
    use serde_json::json;

    fn recording(kinds: &[&str]) -> Masked {
        let inputs: Vec<_> = kinds.iter().map(|_| json!([])).collect();
        let mut masked = requests(&inputs);
        for (request, kind) in masked.wire.iter_mut().zip(kinds) {
            request.kind = (*kind).to_owned();
        }
        masked
    }

    #[test]
    fn work_between_compactions_passes() {
        let some = ["compaction", "turn", "turn"].repeat(5);
        assert_eq!(check(&recording(&some)), [""; 0]);
        let few = ["compaction", "turn"].repeat(3);
        assert_eq!(check(&recording(&few)), [""; 0]);
    }

    #[test]
    fn a_loop_is_named_once() {
        let many = ["compaction", "turn"].repeat(12);
        assert_eq!(check(&recording(&many)).len(), 1);
    }
}
