//! A rollout read back gives the history of the last turn request: same items, same order.
//!
//! Not compared: what a request shortens or adds for itself (cut outputs, replaced images, outputs
//! made up for calls without one). A file that builds on another one is left to that file's reader,
//! and one that the scenario edited to the goldens: what is read of it is what they are about.

use serde_json::Value;

use super::{input, thread, window_number, word};
use crate::mask::{Masked, MaskedRollout};

/// Checks every file against the last turn request of its thread.
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
        let of_thread = |r: &&crate::mask::MaskedRequest| r.kind == "turn" && thread(r) == Some(id);
        let Some(last) = masked.wire.iter().rfind(of_thread) else {
            continue;
        };
        let windows = histories(rollout);
        let Some((history, before)) = windows.split_last() else {
            continue;
        };
        if window_number(last) != Some(before.len() as u64) {
            // A checkpoint came behind the last turn request.
            continue;
        }
        let sent = input(last).iter().filter(|item| !is_base(item, base));
        let sent: Vec<&Value> = sent.collect();
        if let Some(what) = compare(&sent, history) {
            found.push(format!("file {}, last turn request: {what}", file + 1));
        }
    }
    found
}

/// Thread and base instructions of a file that stands for itself.
pub(super) fn session(rollout: &MaskedRollout) -> Option<(&str, &str)> {
    let metas = rollout
        .records
        .iter()
        .filter(|r| r["type"] == "session_meta");
    let [meta] = metas.collect::<Vec<_>>()[..] else {
        return None;
    };
    let payload = &meta["payload"];
    let whole = ["history_base", "forked_from_id"]
        .iter()
        .all(|key| payload.get(*key).is_none_or(Value::is_null));
    let rolled_back = rollout
        .records
        .iter()
        .any(|r| r["payload"]["type"] == "thread_rolled_back");
    let base = payload.pointer("/base_instructions/text");
    Some((word(payload, "id")?, base.and_then(Value::as_str)?)).filter(|_| whole && !rolled_back)
}

/// Files of a thread.
pub(super) fn files_of(masked: &Masked, id: &str) -> usize {
    let own = |rollout: &&MaskedRollout| {
        let meta = rollout.records.first();
        meta.is_some_and(|meta| meta["payload"]["id"] == id)
    };
    masked.rollouts.iter().filter(own).count()
}

/// Base instructions, and the tools of a lite model: in the history of some versions only.
pub(super) fn is_base(item: &Value, base: &str) -> bool {
    item["type"] == "additional_tools"
        || (item["role"] == "developer" && super::texts(item).eq([base]))
}

/// Items of the file's history in each of its windows, as it was when the window ended.
pub(super) fn histories(rollout: &MaskedRollout) -> Vec<Vec<&Value>> {
    let mut windows: Vec<Vec<&Value>> = vec![Vec::new()];
    for record in &rollout.records {
        let payload = &record["payload"];
        match word(record, "type") {
            Some("response_item") => windows.last_mut().into_iter().for_each(|w| w.push(payload)),
            Some("compacted") => {
                let kept = payload["replacement_history"].as_array();
                windows.push(kept.into_iter().flatten().collect());
            }
            _ => {}
        }
    }
    let base = rollout.records.first().map(|meta| {
        let text = meta.pointer("/payload/base_instructions/text");
        text.and_then(Value::as_str).unwrap_or_default()
    });
    for history in &mut windows {
        // A message of the role `system` is recorded and never sent.
        history.retain(|item| item["role"] != "system");
        history.retain(|item| !is_base(item, base.unwrap_or_default()));
    }
    windows
}

/// Whether both are the same item. A text of the rollout has to be there; what stands in the place
/// of an image or of a cut output is not compared.
fn same(sent: &Value, kept: &Value) -> bool {
    let parts = |item: &'_ Value| item["content"].as_array().cloned().unwrap_or_default();
    let (new, old) = (parts(sent), parts(kept));
    let texts_kept = old.iter().zip(&new).all(|(old, new)| {
        let text = word(old, "text");
        text.is_none() || text == word(new, "text")
    });
    ["type", "role", "call_id"]
        .iter()
        .all(|key| sent.get(*key) == kept.get(*key))
        && new.len() == old.len()
        && texts_kept
}

fn is_output(item: &Value) -> bool {
    word(item, "type").is_some_and(|kind| kind.ends_with("_output"))
}

pub(super) fn compare(sent: &[&Value], kept: &[&Value]) -> Option<String> {
    let mut rest = kept.iter().peekable();
    for item in sent {
        // Outputs without their call are not sent, and made-up ones are not recorded.
        while rest
            .peek()
            .is_some_and(|next| !same(item, next) && is_output(next))
        {
            rest.next();
        }
        if rest.peek().is_some_and(|next| same(item, next)) {
            rest.next();
        } else if !is_output(item) {
            let next = rest
                .peek()
                .map_or("its end".to_owned(), ToString::to_string);
            return Some(format!(
                "it sends `{}` where the rollout has `{}`",
                head(&item.to_string()),
                head(&next)
            ));
        }
    }
    None
}

fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(120)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{said, told};
    use super::*;
    use serde_json::json;

    fn recording(sent: &[Value], items: &[Value]) -> Masked {
        told(&[json!(sent)], items)
    }

    #[test]
    fn equal_histories_pass() {
        let call = json!({"type": "function_call", "call_id": "c"});
        let made_up = json!({"type": "function_call_output", "call_id": "c"});
        let orphan = json!({"type": "function_call_output", "call_id": "z"});
        let sent = [said("a"), call.clone(), made_up, said("b")];
        let kept = [said("a"), call, orphan, said("b"), said("answer")];
        assert_eq!(check(&recording(&sent, &kept)), [""; 0]);
    }

    #[test]
    fn a_lost_and_a_moved_item_are_named() {
        let [a, b] = [said("a"), said("b")];
        assert_eq!(
            check(&recording(
                &[a.clone(), b.clone()],
                std::slice::from_ref(&b)
            ))
            .len(),
            1
        );
        let both = [a.clone(), b.clone()];
        assert_eq!(check(&recording(&both, &[b, a])).len(), 1);
    }
}
