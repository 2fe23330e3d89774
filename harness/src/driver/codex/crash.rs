//! Kills the app-server when the n-th record stands in its rollout, and lets the client come back.
//!
//! A record is seen when its line is in the file, so the process may have written more by the time
//! it is gone: what was on disk then is what counts as acknowledged.

use std::time::Duration;

use serde_json::Value;

use super::session::Session;
use super::{CodexDriver, capture};
use crate::crash::{Crashed, Point};
use crate::driver::{CrashDriver, Driver as _, NoVerdict};
use crate::scenario::plan::{Plan, PlanStep, StepAction};

/// Time between two looks at the file.
const LOOK_EVERY: Duration = Duration::from_micros(200);

#[async_trait::async_trait(?Send)]
impl CrashDriver for CodexDriver {
    fn tears(&self) -> bool {
        false
    }

    fn tells_skipped(&self) -> bool {
        false
    }

    async fn crash(
        &self,
        plan: &Plan,
        point: Point,
        probe: &[PlanStep],
    ) -> Result<Option<Crashed>, NoVerdict> {
        tracing::debug!(subject = self.subject(), %point, "crash point");
        self.pool.own_session(plan).await?.crash(point, probe).await
    }
}

impl Session<'_> {
    /// Plays up to the crash point and then the steps of the client.
    async fn crash(
        mut self,
        point: Point,
        probe: &[PlanStep],
    ) -> Result<Option<Crashed>, NoVerdict> {
        if !self.plays_into(point).await? {
            self.end().await?;
            return Ok(None);
        }
        self.kill().await?;
        let bytes = self.newest_bytes()?;
        let mut crashed = Crashed {
            acknowledged: whole_lines(&bytes),
            torn: bytes.last().is_some_and(|last| *last != b'\n'),
            ..Crashed::default()
        };
        for step in probe {
            let before = self.case.journal().len();
            self.step(step).await?;
            if matches!(step.action, StepAction::User(_)) {
                let journal = self.case.journal();
                let body = journal.get(before).map(|entry| &entry.request);
                let body = body.and_then(|request| request.decoded().ok());
                let body = body.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
                let input = body.and_then(|body| body["input"].as_array().cloned());
                crashed.inputs.push(input.unwrap_or_default());
            }
        }
        crashed.left = whole_lines(&self.newest_bytes()?);
        crashed.failed = self
            .findings
            .drain(..)
            .map(|finding| finding.message)
            .collect();
        self.end().await?;
        Ok(Some(crashed))
    }

    /// Plays the plan until the file has the record; whether it came.
    async fn plays_into(&mut self, point: Point) -> Result<bool, NoVerdict> {
        let home = self.seat.run.home();
        let reached = async {
            loop {
                let paths = capture::all_rollouts(&home);
                let lines = paths.iter().filter_map(|path| std::fs::read(path).ok());
                let lines = lines.map(|bytes| bytes.split(|b| *b == b'\n').count() - 1);
                if lines.sum::<usize>() >= point.append {
                    return;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            biased;
            () = reached => Ok(true),
            played = self.play_steps() => played.map(|()| false),
        }
    }
}

/// Lines that are JSON.
fn whole_lines(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}
