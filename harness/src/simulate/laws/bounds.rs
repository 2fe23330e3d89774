//! Bounds of a session: how long a request is, and how often a turn asks.
//!
//! A drawn session is small, so what passes a bound is a history that grows by itself, or a loop.

use std::collections::BTreeMap;

use crate::check;
use crate::mask::Masked;
use crate::recording::{Finding, Recording};

/// Bytes of a request body. What a drawn session is given in all is well below.
pub(super) const REQUEST_BYTES_MAX: usize = 512 * 1024;
/// Requests of one turn, compactions and retries included. Behind ten of them a drawn provider only
/// says that it is enough.
pub(super) const TURN_REQUESTS_MAX: usize = 30;

/// Requests that are too long.
pub(super) fn request_bytes(recording: &Recording) -> Vec<Finding> {
    let long = recording.journal.iter().enumerate();
    let long = long.filter(|(_, request)| request.body.len() > REQUEST_BYTES_MAX);
    long.map(|(number, request)| Finding {
        id: "law.request_bytes".to_owned(),
        message: format!(
            "request {} has {} bytes\n    law: a request has at most {REQUEST_BYTES_MAX} bytes \
             (REQUEST_BYTES_MAX)",
            number + 1,
            request.body.len()
        ),
    })
    .collect()
}

/// Turns that ask too often.
pub(super) fn turn_requests(masked: &Masked) -> Vec<Finding> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for request in &masked.wire {
        if let Some(turn) = check::turn(request) {
            *counts.entry(turn).or_default() += 1;
        }
    }
    let often = counts.into_iter();
    let often = often.filter(|(_, count)| *count > TURN_REQUESTS_MAX);
    often
        .map(|(turn, count)| Finding {
            id: "law.turn_requests".to_owned(),
            message: format!(
                "turn {turn} sends {count} requests\n    law: a turn sends at most \
                 {TURN_REQUESTS_MAX} requests (TURN_REQUESTS_MAX)"
            ),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::tests::requests;
    use crate::fixture;

    #[test]
    fn a_request_is_as_long_as_the_bound_and_no_longer() {
        let mut recording = fixture::recording(1);
        recording.journal[0].body = vec![b'x'; REQUEST_BYTES_MAX];
        assert_eq!(request_bytes(&recording), []);
        recording.journal[0].body.push(b'x');
        let found = request_bytes(&recording);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].message.contains("request 1 has 524289 bytes"),
            "{found:?}"
        );
    }

    #[test]
    fn a_turn_asks_as_often_as_the_bound_and_no_oftener() {
        let wire = |count: usize| requests(&vec![json!([]); count]);
        assert_eq!(turn_requests(&wire(TURN_REQUESTS_MAX)), []);
        let found = turn_requests(&wire(TURN_REQUESTS_MAX + 1));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("sends 31 requests"), "{found:?}");
    }
}
