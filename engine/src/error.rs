//! Failures of a sampling or compaction request, with the texts and codes a client sees.

use serde_json::{Value, json};

use crate::ports::HttpFailure;

/// Why a turn or a compaction failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// Text shown to the client.
    pub message: String,
}

/// Kinds of failure, as far as retries and codes tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The prompt is larger than the window.
    ContextWindowExceeded,
    /// The provider answered 500.
    InternalServerError,
    /// Another unexpected status.
    UnexpectedStatus(u16),
    /// HTTP 400.
    InvalidRequest,
    /// HTTP 429.
    TooManyRequests,
    /// The stream ended before `response.completed`.
    StreamDisconnected,
    /// The connection ended before an answer.
    ConnectionFailed,
    /// `response.incomplete`.
    Incomplete,
    /// Quota or usage limit.
    UsageLimit,
    /// The server is overloaded.
    Overloaded,
    /// `rate_limit_exceeded`.
    RateLimited,
    /// `invalid_prompt` and the like: asking again does not help.
    Rejected,
    /// The turn was interrupted.
    Interrupted,
}

impl Failure {
    /// The failure of an interrupted turn.
    pub(crate) fn interrupted() -> Self {
        Self {
            kind: FailureKind::Interrupted,
            message: String::new(),
        }
    }

    /// The stream ended early.
    pub(crate) fn disconnected(detail: &str) -> Self {
        Self {
            kind: FailureKind::StreamDisconnected,
            message: format!("stream disconnected before completion: {detail}"),
        }
    }

    /// From an answer that opened no stream.
    pub(crate) fn from_http(failure: &HttpFailure) -> Self {
        match failure {
            HttpFailure::Dropped => Self {
                kind: FailureKind::ConnectionFailed,
                message: "stream disconnected before completion: error sending request".to_owned(),
            },
            HttpFailure::Status { status: 500, .. } => Self {
                kind: FailureKind::InternalServerError,
                message: "We\u{2019}re currently experiencing high demand, which may cause \
                          temporary errors."
                    .to_owned(),
            },
            HttpFailure::Status { status: 400, body } => Self {
                kind: FailureKind::InvalidRequest,
                message: body.clone(),
            },
            HttpFailure::Status { status: 429, .. } => Self {
                kind: FailureKind::TooManyRequests,
                message: "exceeded retry limit, last status: 429 Too Many Requests".to_owned(),
            },
            HttpFailure::Status { status, body } => Self {
                kind: FailureKind::UnexpectedStatus(*status),
                message: format!("unexpected status {status}: {body}"),
            },
        }
    }

    /// From a `response.failed` event.
    pub(crate) fn from_failed(response: &Value) -> Self {
        let error = &response["error"];
        let text = error["message"].as_str().unwrap_or_default().to_owned();
        let (kind, message) = match error["code"].as_str() {
            Some("context_length_exceeded") => (
                FailureKind::ContextWindowExceeded,
                "Codex ran out of room in the model's context window. Start a new thread or \
                 clear earlier history before retrying."
                    .to_owned(),
            ),
            Some("insufficient_quota" | "usage_not_included") => (
                FailureKind::UsageLimit,
                "Quota exceeded. Check your plan and billing details.".to_owned(),
            ),
            Some("server_is_overloaded" | "slow_down") => (
                FailureKind::Overloaded,
                "Selected model is at capacity. Please try a different model.".to_owned(),
            ),
            Some("invalid_prompt") => (FailureKind::Rejected, text),
            Some("rate_limit_exceeded") => (
                FailureKind::RateLimited,
                format!("stream disconnected before completion: {text}"),
            ),
            _ => (
                FailureKind::StreamDisconnected,
                format!("stream disconnected before completion: {text}"),
            ),
        };
        Self { kind, message }
    }

    /// From a `response.incomplete` event.
    pub(crate) fn from_incomplete(response: &Value) -> Self {
        let reason = response["incomplete_details"]["reason"]
            .as_str()
            .unwrap_or("unknown");
        Self {
            kind: FailureKind::Incomplete,
            message: format!(
                "stream disconnected before completion: Incomplete response returned, reason: \
                 {reason}"
            ),
        }
    }

    /// `codexErrorInfo` of the app-server (camel case).
    pub fn client_code(&self) -> Value {
        match self.kind {
            FailureKind::ContextWindowExceeded => json!("contextWindowExceeded"),
            FailureKind::InternalServerError => json!("internalServerError"),
            FailureKind::TooManyRequests => {
                json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}})
            }
            FailureKind::UsageLimit => json!("usageLimitExceeded"),
            FailureKind::Overloaded => json!("serverOverloaded"),
            FailureKind::UnexpectedStatus(status) => {
                json!({"httpConnectionFailed": {"httpStatusCode": status}})
            }
            FailureKind::StreamDisconnected
            | FailureKind::Incomplete
            | FailureKind::ConnectionFailed
            | FailureKind::InvalidRequest
            | FailureKind::Rejected
            | FailureKind::RateLimited
            | FailureKind::Interrupted => json!("other"),
        }
    }

    /// `codex_error_info` of the rollout (snake case).
    pub fn rollout_code(&self) -> Value {
        snake(&self.client_code())
    }
}

/// The same value with every string and key in snake case.
fn snake(value: &Value) -> Value {
    let convert = |text: &str| {
        let mut out = String::with_capacity(text.len() + 4);
        for c in text.chars() {
            if c.is_ascii_uppercase() {
                out.push('_');
            }
            out.push(c.to_ascii_lowercase());
        }
        out
    };
    match value {
        Value::String(text) => Value::String(convert(text)),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (convert(k), snake(v))).collect())
        }
        other => other.clone(),
    }
}
