//! Every turn request of a window is the fold of its rollout: the items of the window's history, from
//! the first one on.
//!
//! `replay` holds the last turn request of a thread to it, this one those before.

use super::replay::{compare, files_of, histories, is_base, session};
use super::{input, thread, window_number};
use crate::mask::Masked;

/// Checks every turn request but the last against the file of its thread.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let mut found = Vec::new();
    for (file, rollout) in masked.rollouts.iter().enumerate() {
        if masked.edits.iter().any(|edit| edit.file == Some(file)) {
            continue;
        }
        let Some((id, base)) = session(rollout) else {
            continue;
        };
        if files_of(masked, id) > 1 {
            // A revert went back: each file is a part of the thread.
            continue;
        }
        let windows = histories(rollout);
        for (number, request) in masked.wire.iter().enumerate() {
            if request.kind != "turn" || thread(request) != Some(id) {
                continue;
            }
            let window = window_number(request).and_then(|window| usize::try_from(window).ok());
            let Some(history) = window.and_then(|window| windows.get(window)) else {
                continue;
            };
            let sent = input(request).iter().filter(|item| !is_base(item, base));
            let sent: Vec<_> = sent.collect();
            if let Some(what) = compare(&sent, history) {
                found.push(format!("request {}: {what}", number + 1));
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{said, told};
    use super::*;
    use serde_json::json;

    #[test]
    fn requests_that_grow_as_their_file_does_pass() {
        let [a, b] = [said("a"), said("b")];
        let sent = [json!([a]), json!([a, b])];
        assert_eq!(check(&told(&sent, &[a, b])), [""; 0]);
    }

    #[test]
    fn an_earlier_request_that_is_no_fold_is_named() {
        let [a, b] = [said("a"), said("b")];
        let sent = [json!([b]), json!([a, b])];
        let found = check(&told(&sent, &[a, b]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("request 1: "), "{found:?}");
    }
}
