//! Forks, reverts and rollbacks on the engine: what the thread was is read from its files.

use engine::rollout::HistoryBase;
use engine::rollout_read::{self, Found, Place, Unreadable};
use engine::session::{Session, Taken, rollback_marker};
use engine::settings::Model;
use engine::settings::Settings;
use serde_json::{Value, json};

use super::{Run, model};
use crate::driver::NoVerdict;
use crate::scenario::plan::{ForkPoint, PlanStep};

/// A record of the thread, and where it stands.
struct Line {
    text: String,
    record: Value,
    place: Place,
    /// Bytes of its file that are part of the thread.
    part_bytes: u64,
}

impl Run<'_> {
    /// Models that the client knows.
    pub(super) fn known(&self) -> Vec<Model> {
        self.plan.models.iter().map(model).collect()
    }

    /// What the files of a thread say.
    pub(super) fn found(&self, thread: &str) -> Result<Found, Unreadable> {
        self.found_by(thread, &self.settings)
    }

    /// The same, with outputs cut as these settings say.
    pub(super) fn found_by(&self, thread: &str, settings: &Settings) -> Result<Found, Unreadable> {
        let parts = rollout_read::lineage(thread, &*self.files, &self.profile)?;
        let policy = settings.truncation();
        let reading = rollout_read::read_thread(thread, &parts, &self.profile, policy)?;
        Ok(reading.found)
    }

    /// What the first lines say under the session record of the thread.
    fn found_in(&self, lines: &[Line], more: Option<Value>) -> Result<Found, NoVerdict> {
        let meta = self.newest_meta();
        let records = lines.iter().map(|line| line.record.clone());
        let records: Vec<Value> = meta.into_iter().chain(records).chain(more).collect();
        rollout_read::read(&records, &self.profile, self.settings.truncation())
            .map_err(|why| refused(&why))
    }

    fn newest_meta(&self) -> Option<Value> {
        self.files.records(&self.profile).into_iter().next()
    }

    /// Lines of the thread, oldest first, as its files hold them.
    fn lines(&self) -> Result<Vec<Line>, NoVerdict> {
        let parts = rollout_read::lineage(&self.thread, &*self.files, &self.profile)
            .map_err(|why| refused(&why))?;
        let mut lines = Vec::new();
        rollout_read::each_line(&parts, &self.profile, &mut |place, record| {
            lines.push(Line {
                text: record.to_string(),
                record: record.clone(),
                place,
                part_bytes: parts[place.part].bytes(),
            });
        })
        .map_err(|why| refused(&why))?;
        Ok(lines)
    }

    /// Number of the line behind the end of a turn, counted from 1.
    fn ends(&self, step: &PlanStep, lines: &[Line], turn: usize) -> Result<usize, NoVerdict> {
        let ends = ["task_complete", "turn_aborted"];
        self.event(step, lines, turn, &ends).map(|index| index + 1)
    }

    /// Number of the line that begins a turn, counted from 1.
    fn begins(&self, step: &PlanStep, lines: &[Line], turn: usize) -> Result<usize, NoVerdict> {
        self.event(step, lines, turn, &["task_started"])
    }

    fn event(
        &self,
        step: &PlanStep,
        lines: &[Line],
        turn: usize,
        kinds: &[&str],
    ) -> Result<usize, NoVerdict> {
        let unknown = || {
            NoVerdict::CouldNotRun(format!(
                "step {} (line {}): the thread has no turn {turn}, but {}",
                step.number,
                step.line,
                self.turns.len()
            ))
        };
        let id = turn.checked_sub(1).and_then(|index| self.turns.get(index));
        let id = id.ok_or_else(unknown)?;
        let starts = |line: &Line| {
            let payload = &line.record["payload"];
            let kind = payload["type"].as_str().unwrap_or_default();
            kinds.contains(&kind) && payload["turn_id"] == **id
        };
        lines.iter().position(starts).ok_or_else(unknown)
    }

    /// The records before a line as what a new file stands on: `None` where there are none but the
    /// session record, or where they have no ordinals.
    fn base(&self, lines: &[Line], cut: usize) -> Option<HistoryBase> {
        let ids = self.ids_of_files(lines);
        let last = lines[..cut].last().filter(|_| cut > 1)?;
        let same = |next: &&Line| next.place.part == last.place.part;
        let next = lines.get(cut).filter(same);
        Some(HistoryBase {
            id: ids.get(last.place.part)?.clone(),
            end_ordinal: last.record["ordinal"].as_u64()?.saturating_add(1),
            end_bytes: next.map_or(last.part_bytes, |next| next.place.offset),
        })
    }

    /// Ids of the files that the lines stand in, oldest first.
    fn ids_of_files(&self, lines: &[Line]) -> Vec<String> {
        let begins = lines.iter().filter(|line| line.place.offset == 0).skip(1);
        let older = begins.map(|line| {
            let base = &line.record["payload"]["history_base"]["thread_id"];
            base.as_str().unwrap_or_default().to_owned()
        });
        older.chain(self.files.id()).collect()
    }

    pub(super) fn fork(&mut self, step: &PlanStep, point: ForkPoint) -> Result<(), NoVerdict> {
        let lines = self.lines()?;
        let (cut, left) = match point {
            // A copy goes up to the start of the next turn on 0.144.6.
            ForkPoint::Through(turn) if turn < self.turns.len() && !self.profile.usage_records => {
                (self.begins(step, &lines, turn + 1)?, turn)
            }
            ForkPoint::Through(turn) => (self.ends(step, &lines, turn)?, turn),
            ForkPoint::Before(turn) => (self.begins(step, &lines, turn)?, turn - 1),
            ForkPoint::Whole => (lines.len(), self.turns.len()),
        };
        let found = self.found_in(&lines[..cut], None)?;
        let taken = match self.base(&lines, cut) {
            Some(base) if found.next_ordinal.is_some() => Taken::Based(base),
            None if found.next_ordinal.is_some() => Taken::Nothing,
            Some(_) | None => {
                let copied = lines[..cut].iter().map(|line| line.text.clone());
                Taken::Copied(copied.collect())
            }
        };
        self.files.open();
        let told = |line: &Line| line.record["payload"]["cwd"].as_str().map(str::to_owned);
        let contexts = lines
            .iter()
            .rev()
            .filter(|line| line.record["type"] == "turn_context");
        // 0.144.6 goes by the folder that its records say last.
        let recorded = contexts
            .filter(|_| !self.profile.wide_metadata)
            .find_map(told);
        let live = self.session.as_ref().map(|session| {
            let live = session.settings().clone();
            let cwd = recorded.unwrap_or_else(|| live.cwd.clone());
            Settings { cwd, ..live }
        });
        let session = Session::fork(
            self.profile.clone(),
            self.settings.clone(),
            self.ports(),
            found,
            &self.known(),
            taken,
            live.as_ref(),
        );
        self.turns.truncate(left);
        self.install(session);
        Ok(())
    }

    pub(super) fn revert(&mut self, step: &PlanStep, turn: usize) -> Result<(), NoVerdict> {
        let lines = self.lines()?;
        let cut = self.begins(step, &lines, turn)?;
        let found = self.found_in(&lines[..cut], None)?;
        if found.next_ordinal.is_none() {
            return Err(NoVerdict::NotSupported(format!(
                "step {}: a thread without ordinals is not reverted",
                step.number
            )));
        }
        let base = self.base(&lines, cut);
        self.files.open();
        let (profile, settings) = (self.profile.clone(), self.settings.clone());
        let live = self.session.as_ref().map(Session::in_force);
        let known = self.known();
        let session = Session::revert(profile, settings, self.ports(), found, &known, base, live);
        self.turns.truncate(turn - 1);
        self.install(session);
        Ok(())
    }

    pub(super) fn roll_back(&mut self, step: &PlanStep, turns: u64) -> Result<(), NoVerdict> {
        if self.profile.usage_records {
            return Err(NoVerdict::NotSupported(format!(
                "step {}: this version has no rollback",
                step.number
            )));
        }
        let lines = self.lines()?;
        let marker = json!({"type": "event_msg", "payload": rollback_marker(turns)});
        let found = self.found_in(&lines, Some(marker))?;
        self.session().roll_back(turns, found);
        Ok(())
    }
}

fn refused(why: &Unreadable) -> NoVerdict {
    NoVerdict::NotSupported(format!("a rollout that {why}"))
}
