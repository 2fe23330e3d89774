//! Server-sent events as bytes.

use bytes::Bytes;
use serde_json::Value;

/// One event: `event: TYPE`, `data: JSON`, an empty line.
///
/// An event that is a string is sent as it stands: that is how a malformed event is scripted.
pub fn encode(event: &Value) -> Bytes {
    if let Value::String(raw) = event {
        return Bytes::from(raw.clone());
    }
    let kind = event
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or("message");
    Bytes::from(format!("event: {kind}\ndata: {event}\n\n"))
}

/// All events, one after the other.
pub fn encode_all(events: &[Value]) -> Bytes {
    let mut all = Vec::new();
    for event in events {
        all.extend_from_slice(&encode(event));
    }
    Bytes::from(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_has_its_type_its_data_and_an_empty_line() {
        let events = [
            json!({"type": "response.created", "response": {"id": "r"}}),
            json!(": x\n\n"),
        ];
        assert_eq!(
            encode_all(&events),
            "event: response.created\n\
             data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n: x\n\n"
        );
    }
}
