//! Steers: what becomes of input that comes while a turn runs (rules `steer.*`).

use serde_json::Value;

use crate::error::Failure;
use crate::session::Session;
use crate::turn::{SAMPLINGS_MAX, Turn};

impl Session {
    /// The turn, and once more for each failure behind which a steer waits (0.144).
    pub(crate) async fn turn_bodies(
        &mut self,
        turn: &mut Turn,
        input: Vec<Value>,
    ) -> Result<(), Failure> {
        let mut result = self.turn_body(turn, input).await;
        for _ in 0..SAMPLINGS_MAX {
            let goes_on = self.profile.goes_on_for_steers && self.inbox.has_steer();
            match &result {
                Err(failure) if goes_on && failure.ends_as_failed() => {
                    self.tell_failure(failure);
                    turn.outlived = Some(failure.clone());
                }
                _ => return result,
            }
            result = self.turn_body(turn, Vec::new()).await;
        }
        // 0.144.6 itself never ends here (`steer.failed_turn`).
        let message = format!("the turn began {SAMPLINGS_MAX} times anew (SAMPLINGS_MAX)");
        Err(Failure::fatal(message))
    }

    /// Steers for the next sampling, each with its order number; a cut that asked for it is done.
    pub(crate) fn take_input(&mut self) -> Vec<(u64, Vec<Value>)> {
        self.inbox.take_cut();
        self.inbox.take_steers()
    }

    /// Whether a steer drops the response that is open.
    pub(crate) fn instant_interrupt(&self) -> bool {
        // Over a WebSocket a response is read to its end.
        self.profile.instant_interrupt
            && self.settings.instant_interrupt.unwrap_or(true)
            && !self.asks_over_websocket()
    }

    /// Steers that no sampling took: a failed turn keeps them in the history, an interrupted one
    /// drops them.
    pub(crate) fn settle_steers(&mut self, turn: &Turn, keep: bool) {
        let waiting = self.inbox.take_steers();
        let waiting = turn.untold.iter().cloned().chain(waiting).collect();
        if keep {
            self.record_steers(turn, waiting);
        }
    }

    /// Steers become messages of the user in the history and the rollout.
    pub(crate) fn record_steers(&mut self, turn: &Turn, steers: Vec<(u64, Vec<Value>)>) {
        for (order, parts) in steers {
            self.record_user(turn, &parts, order);
        }
    }
}
