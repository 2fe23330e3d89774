//! Events for the client: the race-free subset of the app-server notifications.

use serde_json::Value;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A turn began.
    TurnStarted {
        /// Turn id.
        turn: String,
    },
    /// A turn ended.
    TurnEnded {
        /// Turn id.
        turn: String,
        /// `completed`, `interrupted`, `failed`.
        status: &'static str,
        /// Message and `codexErrorInfo`.
        error: Option<(String, Value)>,
    },
    /// An item began.
    ItemStarted {
        /// App-server item type.
        kind: &'static str,
        /// Item id.
        id: String,
    },
    /// An item ended.
    ItemCompleted {
        /// App-server item type.
        kind: &'static str,
        /// Item id.
        id: String,
        /// What a user sees of it.
        shown: Value,
    },
    /// Token usage changed or was repeated.
    TokenUsage {
        /// Cumulative usage in app-server shape.
        total: Value,
        /// Last usage in app-server shape.
        last: Value,
        /// Effective window in tokens.
        window: Option<i64>,
    },
    /// Another model answered than the one that was asked.
    ModelRerouted {
        /// The model asked.
        from: String,
        /// The model that answered.
        to: String,
    },
    /// A hook began to run.
    HookStarted {
        /// `preCompact`, `postCompact`, `sessionStart`.
        hook: &'static str,
    },
    /// A hook ended.
    HookCompleted {
        /// `preCompact`, `postCompact`, `sessionStart`.
        hook: &'static str,
        /// `completed`, `stopped`, `failed`.
        status: &'static str,
        /// What it left for the user: a list of `{kind, text}`.
        entries: Value,
        /// What it was told.
        input: Value,
    },
    /// A warning.
    Warning {
        /// Text.
        message: String,
    },
    /// An error notification.
    Error {
        /// Text.
        message: String,
        /// Whether a retry follows.
        will_retry: bool,
        /// `codexErrorInfo`.
        code: Value,
    },
}
