//! Delta and anchor make the full request: what a frame leaves out is what the provider keeps.
//!
//! A frame with `previous_response_id` stands on a response of its own connection. With what that
//! response was asked, its items and its own input it has to be the whole history: each turn
//! request of a window begins with all of the one before and its answer, but for the first behind a
//! rollback or a revert. [`whole`] gives the other checkers the requests as they would be without
//! deltas.

use std::collections::BTreeMap;

use mock_provider::script::{FRAME_HEADER, FRAME_METHOD};
use serde_json::{Map, Value};

use super::{at, input, turn, turns_that_go_back, word};
use crate::mask::{Masked, MaskedRequest};

const PREVIOUS: &str = "previous_response_id";
/// What the client tells about an item.
const TOLD: &str = "internal_chat_message_metadata_passthrough";
const WINDOW: &str = "x-codex-window-id";

/// Checks every turn request against the one before it.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let framed = masked.wire.iter().any(|r| r.method == FRAME_METHOD);
    if !framed {
        return Vec::new();
    }
    let (inputs, mut found) = rebuild(masked);
    let mut before: BTreeMap<String, (usize, Vec<Value>)> = BTreeMap::new();
    let mut goes_back = turns_that_go_back(masked);
    for (number, (request, full)) in masked.wire.iter().zip(&inputs).enumerate() {
        if masked.edits.iter().any(|edit| edit.requests == number) {
            // The scenario changed what the thread holds.
            before.clear();
        }
        let (Some(full), Some(window)) = (full, window(request)) else {
            continue;
        };
        if request.kind != "turn" {
            continue;
        }
        if turn(request).is_some_and(|turn| goes_back.remove(turn)) {
            // The windows behind that point are opened anew, too.
            let thread = |window: &str| window.rsplit_once(':').map(|it| it.0.to_owned());
            let own = thread(&window);
            before.retain(|window, _| thread(window) != own);
        }
        if let Some((earlier, kept)) = before.get(&window) {
            let broken = kept
                .iter()
                .enumerate()
                .find(|(i, kept)| full.get(*i).is_none_or(|sent| !stands_for(sent, kept)));
            if let Some((index, _)) = broken {
                let place = at(number, index);
                let earlier = earlier + 1;
                found.push(format!(
                    "{place}, rebuilt, is not what request {earlier} and its answer left"
                ));
            }
        }
        let mut kept = full.clone();
        kept.extend(answered(masked, number));
        before.insert(window, (number, kept));
    }
    found
}

/// The recording with every delta replaced by the full input, with the headers of a plain request
/// on every frame, and nowhere with what the client tells about items: the provider's have none.
pub(super) fn whole(masked: &Masked) -> Masked {
    let (inputs, _) = rebuild(masked);
    let mut whole = masked.clone();
    for (request, full) in whole.wire.iter_mut().zip(inputs) {
        let input = request.body.get_mut("input");
        if let (Some(mut full), Some(input)) = (full, input) {
            for item in full.iter_mut().filter_map(Value::as_object_mut) {
                item.shift_remove(TOLD);
            }
            *input = Value::Array(full);
        }
        if request.method != FRAME_METHOD {
            continue;
        }
        for (header, key) in [(WINDOW, WINDOW), ("thread-id", "thread_id")] {
            if let Some(value) = client(request, key) {
                request.headers.push((header.to_owned(), value));
            }
        }
    }
    whole
}

/// Full input of every request; `None` where its anchor is not known, which is a violation.
fn rebuild(masked: &Masked) -> (Vec<Option<Vec<Value>>>, Vec<String>) {
    let mut anchors: BTreeMap<(&str, String), Vec<Value>> = BTreeMap::new();
    let mut found = Vec::new();
    let with_ids = masked
        .wire
        .iter()
        .any(|request| input(request).iter().any(|item| item.get("id").is_some()));
    let mut inputs = Vec::new();
    for (number, request) in masked.wire.iter().enumerate() {
        // The provider keeps a response as long as its connection.
        let connection = request
            .headers
            .iter()
            .find(|(name, _)| name == FRAME_HEADER);
        let connection = connection.map_or("", |(_, number)| number.as_str());
        let full = match word(&request.body, PREVIOUS) {
            None => Some(input(request).to_vec()),
            Some(id) => anchors
                .get(&(connection, id.to_owned()))
                .map(|kept| [kept, input(request)].concat()),
        };
        if full.is_none() {
            let id = word(&request.body, PREVIOUS).unwrap_or_default();
            let number = number + 1;
            found.push(format!(
                "request {number} stands on {id}, which its connection has not completed"
            ));
        }
        let answer = masked.answers.get(number).and_then(Option::as_ref);
        if let (Some(answer), Some(full)) = (answer, &full) {
            let items = answer.items.iter().map(|item| client_form(item, with_ids));
            let kept = full.iter().cloned().chain(items).collect();
            anchors.insert((connection, answer.response_id.clone()), kept);
        }
        inputs.push(full);
    }
    (inputs, found)
}

/// Items of the answer to a request.
fn answered(masked: &Masked, number: usize) -> impl Iterator<Item = Value> {
    let answer = masked.answers.get(number).and_then(Option::as_ref);
    answer.into_iter().flat_map(|answer| answer.items.clone())
}

/// An item of the provider in the key order in which a client sends it.
fn client_form(item: &Value, with_ids: bool) -> Value {
    const ORDER: &[&str] = &[
        "type",
        "id",
        "role",
        "content",
        "name",
        "namespace",
        "arguments",
    ];
    let Some(fields) = item.as_object() else {
        return item.clone();
    };
    let first = ORDER.iter().filter(|key| with_ids || **key != "id");
    let first = first.filter_map(|key| Some(((*key).to_owned(), fields.get(*key)?.clone())));
    let rest = fields
        .iter()
        .filter(|(key, _)| !ORDER.contains(&key.as_str()));
    let rest = rest.map(|(key, value)| (key.clone(), value.clone()));
    Value::Object(first.chain(rest).collect::<Map<_, _>>())
}

/// Whether an item of a request is the one that was kept. An id that one of them lacks says
/// nothing: 0.144 sends none, and the client gives one to an item that came without.
fn stands_for(sent: &Value, kept: &Value) -> bool {
    let (Some(sent), Some(kept)) = (sent.as_object(), kept.as_object()) else {
        return sent == kept;
    };
    sent.iter()
        .filter(|(key, _)| *key != "id" && (*key != TOLD || kept.contains_key(TOLD)))
        .all(|(key, value)| kept.get(key).is_some_and(|known| known == value))
        && match (sent.get("id"), kept.get("id")) {
            (Some(sent), Some(kept)) => sent == kept,
            (_, None) | (None, _) => true,
        }
}

fn client(request: &MaskedRequest, key: &str) -> Option<String> {
    let value = request.body.get("client_metadata")?.get(key)?;
    value.as_str().map(str::to_owned)
}

fn window(request: &MaskedRequest) -> Option<String> {
    let header = request.headers.iter().find(|(name, _)| name == WINDOW);
    header
        .map(|(_, value)| value.clone())
        .or_else(|| client(request, WINDOW))
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_records;
    use super::*;
    use crate::recording::Answer;
    use serde_json::json;

    /// Frames with their anchor, input and the items of their answer `r1`, `r2`, ….
    fn frames(list: &[(Option<&str>, Value, Value)]) -> Masked {
        let mut masked = Masked::default();
        for (number, (previous, input, items)) in list.iter().enumerate() {
            let mut body = json!({
                "input": input, "client_metadata": {WINDOW: "<thread:1>:0", "thread_id": "<thread:1>"},
            });
            if let Some(previous) = previous {
                body[PREVIOUS] = json!(previous);
            }
            masked.wire.push(MaskedRequest {
                kind: "turn".into(),
                method: FRAME_METHOD.into(),
                path: "/responses".into(),
                headers: vec![(FRAME_HEADER.into(), "1".into())],
                body,
            });
            masked.answers.push(items.as_array().map(|items| Answer {
                response_id: format!("r{}", number + 1),
                items: items.clone(),
            }));
        }
        masked
    }

    fn message(text: &str) -> Value {
        json!({"type": "message", "id": text, "content": text})
    }

    #[test]
    fn a_delta_on_the_newest_response_passes_and_is_rebuilt() {
        let (a, b, c) = (message("a"), message("b"), message("c"));
        let masked = frames(&[
            (None, json!([a]), json!([b])),
            (Some("r1"), json!([c]), json!([])),
            (None, json!([a, b, c]), Value::Null),
        ]);
        assert_eq!(check(&masked), [""; 0]);
        assert_eq!(input(&whole(&masked).wire[1]), [a, b, c]);
    }

    #[test]
    fn a_delta_that_leaves_out_an_item_is_found() {
        let (a, b, c) = (message("a"), message("b"), message("c"));
        let lost = frames(&[
            (None, json!([a]), json!([b])),
            (Some("r1"), json!([c]), json!([])),
            (Some("r1"), json!([]), Value::Null),
        ]);
        assert_eq!(
            check(&lost),
            ["request 3 input item 2, rebuilt, is not what request 2 and its answer left"]
        );
        let changed = frames(&[
            (None, json!([a]), json!([b])),
            (None, json!([a, c]), Value::Null),
        ]);
        assert_eq!(
            check(&changed),
            ["request 2 input item 1, rebuilt, is not what request 1 and its answer left"]
        );
    }

    /// A rollback goes back once; what follows it has to grow again.
    #[test]
    fn only_the_first_request_behind_a_rollback_goes_back() {
        let (a, b) = (message("a"), message("b"));
        let mut back = frames(&[
            (None, json!([a, b]), json!([])),
            (None, json!([a]), json!([])),
            (None, json!([b]), Value::Null),
        ]);
        back.wire[1].body["client_metadata"]["x-codex-turn-metadata"]["$json"]["turn_id"] =
            json!("<turn:2>");
        let records = vec![
            json!({"payload": {"type": "thread_rolled_back"}}),
            json!({"payload": {"type": "task_started", "turn_id": "<turn:2>"}}),
        ];
        assert_eq!(
            check(&with_records(back, records)),
            ["request 3 input item 0, rebuilt, is not what request 2 and its answer left"]
        );
    }

    #[test]
    fn an_anchor_of_another_connection_is_found() {
        let mut masked = frames(&[
            (None, json!([message("a")]), json!([])),
            (Some("r1"), json!([message("b")]), Value::Null),
        ]);
        masked.wire[1].headers[0].1 = "2".into();
        assert_eq!(
            check(&masked),
            ["request 2 stands on r1, which its connection has not completed"]
        );
    }
}
