//! Compaction: its phases, who is asked for the new history, and how the answer is installed.
//!
//! The phases share one body; they differ in the metadata of the request and in where the initial
//! context goes (compaction.md §3). Who is asked: the model itself with a prompt (`local.rs`), or
//! a provider that compacts (`remote.rs`).

mod checkpoint;
mod local;
mod remote;
pub(crate) mod replacement;
mod trigger;

use serde_json::Value;
use tracing::{Instrument, debug, info_span};

use crate::error::{Failure, FailureKind};
use crate::events::Event;
use crate::hooks::HookEvent;
use crate::items::Item;
use crate::ports::{EventStream, StreamStep};
use crate::request::CompactionMetadata;
use crate::session::Session;
use crate::settings::{Implementation, Settings};
use crate::turn::{Turn, TurnEnd};

/// One compaction that is to be made.
struct Due {
    metadata: CompactionMetadata,
    /// The initial context goes into the replacement.
    inject: bool,
    /// Settings of the model that is asked.
    asked: Settings,
}

/// What a compaction puts in the place of the history.
#[derive(Default)]
struct Replacement {
    /// Kept items, oldest first.
    kept: Vec<Item>,
    /// Summary or opaque item; not yet prepared.
    last: Option<Item>,
    /// `message` of the checkpoint; empty for a remote compaction.
    message: String,
    /// Response that brought it.
    response_id: Option<String>,
    /// Catalogue hash of the model that made an opaque item.
    model_hash: Option<String>,
}

impl Session {
    /// `thread/compact/start`: a turn of its own.
    pub async fn run_compaction(&mut self) -> TurnEnd {
        let turn = self.start_turn(None, false);
        let inject = self.profile.context_in_every_replacement;
        let due = self.due("manual", "user_requested", "standalone_turn", inject);
        let result = self.compact(&turn, due).await;
        self.end_turn(&turn, result)
    }

    /// What the start of a turn compacts: for another model first, then for the limit.
    pub(crate) async fn compact_pre_turn(&mut self, turn: &Turn) -> Result<(), Failure> {
        let inject = self.profile.context_in_every_replacement;
        if let Some(switch) = self.model_switch() {
            let mut due = self.due("auto", switch.reason, "pre_turn", inject);
            due.asked = self.settings.with_model(switch.model);
            self.compact(turn, due).await?;
        }
        if self.window_ends(turn) {
            let due = self.due("auto", "context_limit", "pre_turn", inject);
            self.compact(turn, due).await?;
        }
        Ok(())
    }

    pub(crate) async fn compact_mid_turn(&mut self, turn: &Turn) -> Result<(), Failure> {
        let due = self.due("auto", "context_limit", "mid_turn", true);
        self.compact(turn, due).await
    }

    /// Compacts after a finished turn that is over its threshold. A failure leaves turn and history
    /// as they are, unless a hook stops the turn.
    pub(crate) async fn compact_post_turn(&mut self, turn: &Turn) -> Result<(), Failure> {
        if !self.over_post_turn_threshold() {
            return Ok(());
        }
        let due = self.due("auto", "context_limit", "post_turn", true);
        match self.compact(turn, due).await {
            Err(failure) if failure.kind == FailureKind::HookStopped => Err(failure),
            Err(failure) => {
                debug!(message = %failure.message, "post-turn compaction failed");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn due(
        &self,
        trigger: &'static str,
        reason: &'static str,
        phase: &'static str,
        inject: bool,
    ) -> Due {
        Due {
            metadata: CompactionMetadata {
                trigger,
                reason,
                phase,
                implementation: self.settings.implementation(&self.profile),
            },
            inject,
            asked: self.turn_settings().clone(),
        }
    }

    async fn compact(&mut self, turn: &Turn, due: Due) -> Result<(), Failure> {
        let phase = due.metadata.phase;
        let span = info_span!("compaction", phase, window = self.window.number);
        let (model, trigger) = (due.asked.model.slug.clone(), due.metadata.trigger);
        self.compaction_hooks(turn, HookEvent::PreCompact, &model, trigger)?;
        let id = self.ports.ids.uuid();
        self.ports.observer.event(Event::ItemStarted {
            kind: "contextCompaction",
            id: id.clone(),
        });
        let local = due.metadata.implementation == Implementation::Local;
        let replacement = async {
            match due.metadata.implementation {
                Implementation::Local => self.replace_locally(turn, &due).await,
                Implementation::RemoteV1 => self.replace_by_endpoint(turn, &due).await,
                Implementation::RemoteV2 => self.replace_remotely(turn, &due).await,
                Implementation::NewWindow => Ok(Replacement::default()),
            }
        }
        .instrument(span)
        .await?;
        let in_budget = match due.metadata.implementation {
            Implementation::Local => self.check_budget(),
            Implementation::RemoteV1 | Implementation::RemoteV2 => {
                self.check_budget().map_err(Failure::in_remote_compaction)
            }
            Implementation::NewWindow => Ok(()),
        };
        if !self.profile.budget_stops_turns {
            in_budget.clone()?;
        }
        let new_window = due.metadata.implementation == Implementation::NewWindow;
        self.install(turn, replacement, due.inject || new_window);
        self.announce_compaction(turn, id);
        if local && self.profile.warns_after_compaction {
            self.ports.observer.event(Event::Warning {
                message: crate::texts::COMPACTION_WARNING.to_owned(),
            });
        }
        self.starts.push_back("compact");
        self.compaction_hooks(turn, HookEvent::PostCompact, &model, trigger)?;
        in_budget
    }

    /// The next event of an answer; an end, a failure and an interrupt are failures.
    async fn compaction_event(&mut self, stream: &mut dyn EventStream) -> Result<Value, Failure> {
        let inbox = self.inbox();
        loop {
            self.take_changes();
            if inbox.is_interrupted() {
                return Err(Failure::interrupted());
            }
            let step = tokio::select! {
                biased;
                () = inbox.changed() => continue,
                step = stream.next() => step,
            };
            let event = match step {
                StreamStep::Event(event) => event,
                StreamStep::End(end) => {
                    return Err(Failure::from_end(&end, &self.settings, &self.profile));
                }
            };
            return match event["type"].as_str() {
                Some("response.failed") => {
                    Err(Failure::from_failed(&event["response"], &self.profile))
                }
                Some("response.incomplete") => {
                    if self.profile.incomplete_is_final {
                        self.emit_token_count();
                    }
                    Err(Failure::from_incomplete(&event["response"], &self.profile))
                }
                _ => Ok(event),
            };
        }
    }

    fn announce_compaction(&mut self, turn: &Turn, id: String) {
        if self.recorder.paginated() {
            let item = serde_json::json!({"type": "ContextCompaction", "id": id});
            self.record_item_completed(&turn.id, &item);
        } else {
            self.recorder
                .event(serde_json::json!({"type": "context_compacted"}));
        }
        self.ports.observer.event(Event::ItemCompleted {
            kind: "contextCompaction",
            id,
            shown: Value::Null,
        });
    }
}

/// Text of an assistant message that is not blank.
fn assistant_text(item: &Item) -> Option<String> {
    if item.kind() != "message" || item.role() != "assistant" {
        return None;
    }
    Some(item.texts().concat()).filter(|text| !text.trim().is_empty())
}
