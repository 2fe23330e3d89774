//! Kills the engine at an append of a plan, and lets the client come back.

use engine::rollout_read::lines;
use serde_json::Value;

use super::{EngineDriver, Run};
use crate::crash::{Crashed, Point};
use crate::driver::{CrashDriver, NoVerdict};
use crate::recording::ClientEvent;
use crate::scenario::plan::{Plan, PlanStep, StepAction, StorageFault};

#[async_trait::async_trait(?Send)]
impl CrashDriver for EngineDriver {
    fn tears(&self) -> bool {
        true
    }

    fn tells_skipped(&self) -> bool {
        !self.profile.skips_silently
    }

    async fn crash(
        &self,
        plan: &Plan,
        point: Point,
        probe: &[PlanStep],
    ) -> Result<Option<Crashed>, NoVerdict> {
        let mut run = Run::new(self.profile.clone(), plan);
        let Point { append, torn: half } = point;
        run.files
            .set_fault(Some(StorageFault::Kill { append, half }));
        for step in &plan.steps {
            Box::pin(run.step(step)).await?;
            if run.life.is_dead() {
                break;
            }
        }
        if !run.life.is_dead() {
            return Ok(None);
        }
        run.files.set_fault(None);
        run.findings.clear();
        run.seen.take();
        let acknowledged = records(&run.files.acknowledged());
        let (_, bytes) = run.files.newest().unwrap_or_default();
        let mut crashed = Crashed {
            acknowledged,
            torn: bytes.last().is_some_and(|last| *last != b'\n'),
            ..Crashed::default()
        };
        for step in probe {
            let before = run.provider.requests();
            let is_turn = matches!(step.action, StepAction::User(_));
            if run.session.is_none() && is_turn {
                // The resume was refused; that was found.
                continue;
            }
            Box::pin(run.step(step)).await?;
            if is_turn {
                let journal = run.provider.journal();
                let first = journal
                    .get(before)
                    .and_then(|entry| input(&entry.request.body));
                crashed.inputs.push(first.unwrap_or_default());
            }
        }
        let all = records(&run.files.acknowledged());
        crashed.later = all[crashed.acknowledged.len()..].to_vec();
        let findings = run.findings.drain(..);
        crashed.failed = findings.map(|finding| finding.message).collect();
        let events = run.seen.take().into_iter();
        crashed.warnings = events
            .filter_map(|event| match event {
                ClientEvent::Warning { message } => Some(message),
                _ => None,
            })
            .collect();
        // Read as strictly as the release does: a line that it loses is lost.
        let (_, bytes) = run.files.newest().unwrap_or_default();
        crashed.left =
            lines::lines(&bytes, &self.profile).map_or(Vec::new(), |lines| lines.records);
        Ok(Some(crashed))
    }
}

/// Texts that are records; a newline alone is none.
fn records(texts: &[String]) -> Vec<Value> {
    let records = texts.iter().map(|text| serde_json::from_str(text));
    records.filter_map(Result::ok).collect()
}

fn input(body: &[u8]) -> Option<Vec<Value>> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body["input"].as_array().cloned()
}
