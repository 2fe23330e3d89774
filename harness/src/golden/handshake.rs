//! Handshakes of WebSockets in golden form: no body, and the turn metadata as an object in a header.
//!
//! What varies is lifted and put back as for other requests (`wire.rs`), which also compares the
//! result with the request.

use serde_json::Value;

use super::wire::{Lifted, lower_names, replace_all, replacements, value_of, window_number};
use crate::mask::MaskedRequest;

const METADATA: &str = "/headers/x-codex-turn-metadata";
const WINDOW: &str = "/headers/x-codex-window-id";

/// Takes apart a handshake.
pub(super) fn lift(request: &MaskedRequest) -> Option<Lifted> {
    let mut rest = value_of(request);
    let metadata = rest.pointer_mut(METADATA)?;
    let object: Value = serde_json::from_str(metadata.as_str()?).ok()?;
    let again = object.to_string();
    if metadata.as_str() != Some(again.as_str()) {
        return None;
    }
    *metadata = object;
    let text = |at: &str| rest.pointer(at).and_then(Value::as_str).map(str::to_owned);
    let mut lifted = Lifted {
        turn: text(&format!("{METADATA}/$json/turn_id")).filter(|t| t.starts_with("<turn:")),
        model: text(&format!("{METADATA}/$json/model")).filter(|m| m.starts_with("<model:")),
        purpose: text(&format!("{METADATA}/$json/request_kind")),
        window: text(WINDOW).filter(|w| window_number(w).is_some()),
        ..Lifted::default()
    };
    replace_all(&mut rest, &replacements(&lifted));
    lifted.rest = rest;
    Some(lifted)
}

/// The inverse of [`lift`].
pub(super) fn lower(lifted: &Lifted) -> Option<Value> {
    let mut rest = lifted.rest.clone();
    lower_names(&mut rest, lifted);
    let metadata = rest.pointer_mut(METADATA)?;
    *metadata = metadata.to_string().into();
    Some(rest)
}
