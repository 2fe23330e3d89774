//! Waits for what a real binary does behind its answers, so that no verdict hangs on the load.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};

use super::Session;
use crate::driver::codex::events::client_event;
use crate::driver::codex::home::{named_in_state, slug};
use crate::driver::codex::rpc::Incoming;
use crate::recording::ClientEvent;
use crate::scenario::plan::Overrides;

/// Longest wait for the usage of a resumed thread; one that has none to tell is played on then.
const USAGE_MAX: Duration = Duration::from_millis(500);
/// Longest wait until the home holds a model, and the pause between two looks.
const STORED_MAX: Duration = Duration::from_secs(2);
const STORED_POLL: Duration = Duration::from_millis(5);

impl Session<'_> {
    /// Takes the events that came so far; a round trip makes sure that they were read.
    pub(super) async fn drain(&mut self) {
        if !self.stopped
            && let Err(error) = self
                .process()
                .rpc
                .request("thread/loaded/list", json!({}))
                .await
        {
            tracing::debug!(%error, "no round trip");
        }
        while let Ok(incoming) = self.inbox.try_recv() {
            if let Incoming::Notification { method, params } = incoming {
                self.events.extend(client_event(&method, &params));
            }
        }
    }

    /// Waits for what a resumed thread has used: it is told behind the response to the resume, and so
    /// may come behind the answers to later requests (seen on 0.144.6 under load).
    pub(super) async fn usage_told(&mut self) {
        let is_usage = |event: &ClientEvent| matches!(event, ClientEvent::TokenUsage { .. });
        let Some(last) = self.events.iter().rposition(is_usage) else {
            return;
        };
        // What came behind the last turn belongs to the resume.
        let ended = |event: &ClientEvent| matches!(event, ClientEvent::TurnEnded { .. });
        if !self.events[last..].iter().any(ended) {
            return;
        }
        let deadline = Instant::now() + USAGE_MAX;
        while let Ok(Some(incoming)) = timeout_at(deadline, self.inbox.recv()).await {
            let Incoming::Notification { method, params } = incoming else {
                continue;
            };
            let event = client_event(&method, &params);
            let is_told = event.as_ref().is_some_and(is_usage);
            self.events.extend(event);
            if is_told {
                return;
            }
        }
        tracing::debug!(id = self.plan.id, "a resume that tells no usage");
    }

    /// The model that a change of settings asks for, and how often the home names it already.
    pub(super) fn model_to_store(&self, overrides: &Overrides) -> Option<(String, usize)> {
        let name = overrides.model.as_ref().filter(|_| self.own)?;
        let model = self.plan.models.iter().find(|model| model.name == *name)?;
        let slug = slug(model);
        let named = named_in_state(&self.seat.run.home(), &slug);
        Some((slug, named))
    }

    /// Waits until the home holds the model that the settings were changed to: a process that ends
    /// earlier may have it in the rollout alone, and a resume goes by what the home holds (seen on
    /// 0.144.6 under load, three times in 80).
    pub(super) async fn model_stored(&mut self) {
        let Some((slug, before)) = self.unstored.take() else {
            return;
        };
        let home = self.seat.run.home();
        let deadline = Instant::now() + STORED_MAX;
        while named_in_state(&home, &slug) <= before {
            if Instant::now() >= deadline {
                tracing::debug!(id = self.plan.id, "a model that the home does not hold");
                return;
            }
            sleep(STORED_POLL).await;
        }
    }
}
