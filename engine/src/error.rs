//! Failures of a sampling or compaction request, with the texts and codes a client sees, and how
//! often they are tried again.
//!
//! A failure is read once, here; nobody else looks into an answer's error. Texts of one line are
//! protocol and stand as the binary says them.

use http::StatusCode;
use serde_json::{Value, json};

use crate::plan_limit;
use crate::ports::{HttpFailure, StreamEnd};
use crate::profile::Profile;
use crate::settings::Settings;

/// Why a turn or a compaction failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// Text shown to the client.
    pub message: String,
    /// Milliseconds that the provider asks to wait before the next attempt.
    pub retry_after_ms: Option<u64>,
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
    /// There was nobody to connect to.
    ConnectionRefused,
    /// `response.incomplete`.
    Incomplete,
    /// `response.incomplete` for the content filter.
    ContentFilter,
    /// The plan has no quota, or none at all.
    UsageLimit,
    /// The usage limit of the plan is reached; the answer told the limits.
    PlanLimit,
    /// The server is overloaded.
    Overloaded,
    /// `rate_limit_exceeded`.
    RateLimited,
    /// `invalid_prompt` and the like: asking again does not help.
    Rejected,
    /// An answer broke its contract, or a bound of this engine was hit.
    Fatal,
    /// The budget of the session is used up.
    SessionBudget,
    /// A hook stopped it around a compaction.
    HookStopped,
    /// The turn was interrupted.
    Interrupted,
}

/// Path of sampling requests.
const RESPONSES: &str = "/responses";
/// Text of a full window.
const WINDOW_FULL: &str = "Codex ran out of room in the model's context window. Start a new \
                           thread or clear earlier history before retrying.";
/// Text of an overloaded server.
const OVERLOADED: &str = "Selected model is at capacity. Please try a different model.";
/// Text of a plan without usage.
const NOT_INCLUDED: &str =
    "To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.";
/// Codes of an overloaded server in an error body.
const OVERLOADED_CODES: [&str; 2] = ["server_is_overloaded", "slow_down"];

impl Failure {
    fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after_ms: None,
        }
    }

    /// The failure of an interrupted turn.
    pub(crate) fn interrupted() -> Self {
        Self::new(FailureKind::Interrupted, "")
    }

    /// A hook stopped the turn.
    pub(crate) fn stopped() -> Self {
        Self::new(FailureKind::HookStopped, "")
    }

    /// The budget of the session is used up.
    pub(crate) fn budget(message: &str) -> Self {
        Self::new(FailureKind::SessionBudget, message)
    }

    /// An answer broke its contract.
    pub(crate) fn fatal(message: String) -> Self {
        Self::new(FailureKind::Fatal, message)
    }

    /// The stream ended early.
    pub(crate) fn disconnected(detail: &str) -> Self {
        let message = format!("stream disconnected before completion: {detail}");
        Self::new(FailureKind::StreamDisconnected, message)
    }

    /// From a stream that ended before `response.completed`.
    pub(crate) fn from_end(end: &StreamEnd, settings: &Settings, profile: &Profile) -> Self {
        Self::disconnected(match end {
            StreamEnd::Closed => "stream closed before response.completed",
            StreamEnd::Broken => "Transport error: network error: error decoding response body",
            StreamEnd::Idle => "idle timeout waiting for SSE",
            StreamEnd::SocketClosed => "websocket closed by server before response.completed",
            StreamEnd::SocketBroken => {
                "WebSocket protocol error: Connection reset without closing handshake"
            }
            StreamEnd::SocketIdle => "idle timeout waiting for websocket",
            StreamEnd::Refused(failure) => {
                return Self::from_frame(failure, settings, profile);
            }
        })
    }

    /// From an error frame of a WebSocket.
    fn from_frame(failure: &HttpFailure, settings: &Settings, profile: &Profile) -> Self {
        let error = match failure {
            HttpFailure::Status { body, .. } => error_object(body),
            HttpFailure::Dropped | HttpFailure::Refused => Value::Null,
        };
        let again = match error["code"].as_str() {
            Some("previous_response_not_found") => profile.retries_lost_anchor,
            Some("websocket_connection_limit_reached") => true,
            Some(_) | None => false,
        };
        if again {
            return Self::disconnected(error["message"].as_str().unwrap_or_default());
        }
        Self::from_http(failure, settings, profile, RESPONSES)
    }

    /// From an answer that opened no stream.
    pub(crate) fn from_http(
        failure: &HttpFailure,
        settings: &Settings,
        profile: &Profile,
        path: &str,
    ) -> Self {
        match failure {
            HttpFailure::Refused if profile.connection_failed_code => Self::new(
                FailureKind::ConnectionRefused,
                "Connection failed: error sending request",
            ),
            HttpFailure::Dropped | HttpFailure::Refused => {
                let url = if profile.url_in_transport_errors {
                    format!(" for url ({}{path})", settings.base_url)
                } else {
                    String::new()
                };
                Self {
                    kind: FailureKind::ConnectionFailed,
                    ..Self::disconnected(&format!("error sending request{url}"))
                }
            }
            HttpFailure::Status {
                status,
                headers,
                body,
            } => {
                let answer = Answer {
                    status: *status,
                    headers,
                    error: error_object(body),
                    body,
                    over_websocket: false,
                };
                answer.failure(settings, profile, path)
            }
        }
    }

    /// From a handshake that was refused.
    pub(crate) fn from_handshake(
        failure: &HttpFailure,
        settings: &Settings,
        profile: &Profile,
    ) -> Self {
        match failure {
            HttpFailure::Dropped | HttpFailure::Refused => {
                Self::from_http(failure, settings, profile, RESPONSES)
            }
            HttpFailure::Status {
                status,
                headers,
                body,
            } => {
                let answer = Answer {
                    status: *status,
                    headers,
                    error: error_object(body),
                    body,
                    over_websocket: true,
                };
                answer.failure(settings, profile, RESPONSES)
            }
        }
    }

    /// From a `response.failed` event.
    pub(crate) fn from_failed(response: &Value, profile: &Profile) -> Self {
        let error = &response["error"];
        if !error.is_object() {
            return Self::disconnected("response.failed event received");
        }
        let text = error["message"].as_str().unwrap_or_default();
        match error["code"].as_str() {
            Some("context_length_exceeded") => {
                Self::new(FailureKind::ContextWindowExceeded, WINDOW_FULL)
            }
            Some("insufficient_quota") => Self::new(
                FailureKind::UsageLimit,
                "Quota exceeded. Check your plan and billing details.",
            ),
            Some("usage_not_included") => Self::new(FailureKind::UsageLimit, NOT_INCLUDED),
            Some("slow_down") if profile.rate_limit_errors => Self::rate_limited(text, true),
            Some(code) if OVERLOADED_CODES.contains(&code) => {
                Self::new(FailureKind::Overloaded, OVERLOADED)
            }
            Some("invalid_prompt") => Self::new(FailureKind::Rejected, text),
            Some("rate_limit_exceeded") => Self::rate_limited(text, profile.rate_limit_errors),
            Some(_) | None => Self::disconnected(text),
        }
    }

    /// `named`: the version has a code of its own for it.
    fn rate_limited(text: &str, named: bool) -> Self {
        let failure = if named {
            Self::new(
                FailureKind::RateLimited,
                format!("rate limit exceeded: {text}"),
            )
        } else {
            Self::disconnected(text)
        };
        Self {
            retry_after_ms: named_wait(text),
            ..failure
        }
    }

    /// From a `response.incomplete` event.
    pub(crate) fn from_incomplete(response: &Value, profile: &Profile) -> Self {
        let reason = response["incomplete_details"]["reason"]
            .as_str()
            .unwrap_or("unknown");
        let text = format!("Incomplete response returned, reason: {reason}");
        let kind = if reason == "content_filter" {
            FailureKind::ContentFilter
        } else if profile.incomplete_is_final {
            return Self::new(FailureKind::Incomplete, text);
        } else {
            FailureKind::StreamDisconnected
        };
        Self {
            kind,
            ..Self::disconnected(&text)
        }
    }

    /// Whether the request is sent again before the stream counts as failed.
    pub(crate) fn repeats_request(&self) -> bool {
        match self.kind {
            FailureKind::InternalServerError
            | FailureKind::Overloaded
            | FailureKind::ConnectionFailed
            | FailureKind::ConnectionRefused => true,
            FailureKind::UnexpectedStatus(status) => status >= 500,
            FailureKind::ContextWindowExceeded
            | FailureKind::InvalidRequest
            | FailureKind::TooManyRequests
            | FailureKind::StreamDisconnected
            | FailureKind::Incomplete
            | FailureKind::ContentFilter
            | FailureKind::UsageLimit
            | FailureKind::PlanLimit
            | FailureKind::RateLimited
            | FailureKind::Rejected
            | FailureKind::Fatal
            | FailureKind::SessionBudget
            | FailureKind::HookStopped
            | FailureKind::Interrupted => false,
        }
    }

    /// Whether the turn ends as a failed one.
    pub(crate) fn ends_as_failed(&self) -> bool {
        !matches!(
            self.kind,
            FailureKind::Interrupted | FailureKind::HookStopped
        )
    }

    /// Whether a stream is opened again after this failure of an ordinary turn.
    pub(crate) fn repeats_stream(&self) -> bool {
        match self.kind {
            FailureKind::StreamDisconnected
            | FailureKind::ConnectionFailed
            | FailureKind::ConnectionRefused
            | FailureKind::InternalServerError
            | FailureKind::UnexpectedStatus(_)
            | FailureKind::ContentFilter
            | FailureKind::RateLimited => true,
            FailureKind::TooManyRequests => self.retry_after_ms.is_some(),
            FailureKind::ContextWindowExceeded
            | FailureKind::InvalidRequest
            | FailureKind::Incomplete
            | FailureKind::UsageLimit
            | FailureKind::PlanLimit
            | FailureKind::Overloaded
            | FailureKind::Rejected
            | FailureKind::Fatal
            | FailureKind::SessionBudget
            | FailureKind::HookStopped
            | FailureKind::Interrupted => false,
        }
    }

    /// `codexErrorInfo` of the announcement of a retry.
    pub(crate) fn retry_code(&self) -> Value {
        let status = match self.kind {
            FailureKind::UnexpectedStatus(status) => Some(status),
            FailureKind::TooManyRequests => Some(429),
            FailureKind::ContextWindowExceeded
            | FailureKind::InternalServerError
            | FailureKind::InvalidRequest
            | FailureKind::StreamDisconnected
            | FailureKind::ConnectionFailed
            | FailureKind::ConnectionRefused
            | FailureKind::Incomplete
            | FailureKind::ContentFilter
            | FailureKind::UsageLimit
            | FailureKind::PlanLimit
            | FailureKind::Overloaded
            | FailureKind::RateLimited
            | FailureKind::Rejected
            | FailureKind::Fatal
            | FailureKind::SessionBudget
            | FailureKind::HookStopped
            | FailureKind::Interrupted => None,
        };
        json!({"responseStreamDisconnected": {"httpStatusCode": status}})
    }

    /// `codexErrorInfo` of the app-server (camel case).
    pub fn client_code(&self, profile: &Profile) -> Value {
        match self.kind {
            FailureKind::ContextWindowExceeded => json!("contextWindowExceeded"),
            FailureKind::InternalServerError => json!("internalServerError"),
            FailureKind::TooManyRequests => {
                json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}})
            }
            FailureKind::UsageLimit | FailureKind::PlanLimit => json!("usageLimitExceeded"),
            FailureKind::Overloaded => json!("serverOverloaded"),
            FailureKind::SessionBudget => json!("sessionBudgetExceeded"),
            FailureKind::RateLimited => json!("rateLimitExceeded"),
            FailureKind::ConnectionRefused => {
                json!({"httpConnectionFailed": {"httpStatusCode": null}})
            }
            FailureKind::UnexpectedStatus(status) if profile.connection_failed_code => {
                json!({"httpConnectionFailed": {"httpStatusCode": status}})
            }
            FailureKind::UnexpectedStatus(_)
            | FailureKind::StreamDisconnected
            | FailureKind::Incomplete
            | FailureKind::ContentFilter
            | FailureKind::ConnectionFailed
            | FailureKind::InvalidRequest
            | FailureKind::Rejected
            | FailureKind::Fatal
            | FailureKind::HookStopped
            | FailureKind::Interrupted => json!("other"),
        }
    }

    /// `codex_error_info` of the rollout (snake case).
    pub fn rollout_code(&self, profile: &Profile) -> Value {
        if self.kind == FailureKind::Rejected {
            return json!("invalid_prompt");
        }
        snake(&self.client_code(profile))
    }
}

/// An answer with another status than 200.
struct Answer<'a> {
    status: u16,
    headers: &'a [(String, String)],
    /// `error` of the body; null where the body is no JSON.
    error: Value,
    body: &'a str,
    /// It answered a handshake.
    over_websocket: bool,
}

impl Answer<'_> {
    fn failure(&self, settings: &Settings, profile: &Profile, path: &str) -> Failure {
        let code = self.error["code"].as_str();
        match self.status {
            _ if code.is_some_and(|code| OVERLOADED_CODES.contains(&code)) => {
                Failure::new(FailureKind::Overloaded, OVERLOADED)
            }
            400 if profile.reads_full_window_of_400 && code == Some("context_length_exceeded") => {
                Failure::new(FailureKind::ContextWindowExceeded, WINDOW_FULL)
            }
            400 => Failure::new(FailureKind::InvalidRequest, self.body),
            429 => self.too_many(profile),
            500 => {
                let mark = profile.apostrophe;
                let text = format!(
                    "We{mark}re currently experiencing high demand, which may cause temporary \
                     errors."
                );
                Failure::new(FailureKind::InternalServerError, text)
            }
            status => Failure::new(
                FailureKind::UnexpectedStatus(status),
                self.unexpected(settings, path),
            ),
        }
    }

    fn too_many(&self, profile: &Profile) -> Failure {
        match self.error["type"].as_str() {
            Some("usage_limit_reached") => {
                let plan = self.error["plan_type"].as_str();
                Failure::new(
                    FailureKind::PlanLimit,
                    plan_limit::text(plan, self.error["resets_at"].as_u64(), profile),
                )
            }
            Some("usage_not_included") => Failure::new(FailureKind::UsageLimit, NOT_INCLUDED),
            Some(_) | None => Failure {
                retry_after_ms: self
                    .header("retry-after")
                    .filter(|_| profile.honours_retry_after)
                    .and_then(|seconds| seconds.parse::<u64>().ok())
                    .map(|seconds| seconds.saturating_mul(1000)),
                ..Failure::new(
                    FailureKind::TooManyRequests,
                    "exceeded retry limit, last status: 429 Too Many Requests",
                )
            },
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn unexpected(&self, settings: &Settings, path: &str) -> String {
        let said = match self.error["message"].as_str() {
            Some(message) => message,
            None if self.body.trim().is_empty() => "Unknown error",
            None => self.body,
        };
        let status = StatusCode::from_u16(self.status)
            .map_or_else(|_| self.status.to_string(), |status| status.to_string());
        let request = self
            .header("x-request-id")
            .map_or_else(String::new, |id| format!(", request id: {id}"));
        let url = format!("{}{path}", settings.base_url);
        let url = match (self.over_websocket, url.strip_prefix("http")) {
            (true, Some(rest)) => format!("ws{rest}"),
            (true, None) | (false, _) => url,
        };
        format!("unexpected status {status}: {said}, url: {url}{request}")
    }
}

/// `error` of a body; null where there is none.
fn error_object(body: &str) -> Value {
    serde_json::from_str::<Value>(body)
        .ok()
        .and_then(|mut body| Some(body.get_mut("error")?.take()))
        .unwrap_or(Value::Null)
}

/// The wait in `… try again in 1.5s` or `… try again in 20ms`, in milliseconds.
fn named_wait(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (_, rest) = lower.split_once("try again in")?;
    let rest = rest.trim_start();
    let digits = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let number: f64 = rest[..digits].parse().ok()?;
    let unit = rest[digits..].trim_start();
    if unit.starts_with("ms") {
        Some(number as u64)
    } else if unit.starts_with('s') {
        Some((number * 1000.0) as u64)
    } else {
        None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_in_its_unit() {
        assert_eq!(named_wait("Please try again in 0.3s."), Some(300));
        assert_eq!(named_wait("Try again in 20ms."), Some(20));
        assert_eq!(named_wait("try again in 2 seconds"), Some(2000));
        assert_eq!(named_wait("try again in a while"), None);
        assert_eq!(named_wait("slow down"), None);
    }
}
