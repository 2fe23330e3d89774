//! Writes a long rollout: what our engine writes for a small scenario, with one turn said over and
//! over again under new ids.
//!
//! The bytes depend on the size that is asked for and on nothing else.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::driver::Driver as _;
use crate::driver::engine::EngineDriver;
use crate::scenario::plan::Plan;
use crate::scenario::{Resolved, load_bytes};

/// Bytes that stand behind the checkpoint, about: the last of the file.
const BEHIND_BYTES: u64 = 700_000;
/// Bytes of an answer of the repeated turn.
const ANSWER_BYTES: usize = 6000;
/// Beginning of the ids that the engine's driver gives.
const ID: &str = "019b0000-0000-7000-8000-";

/// A long rollout.
#[derive(Debug, Clone)]
pub struct Long {
    /// The file.
    pub path: PathBuf,
    /// Id of its thread.
    pub thread: String,
    /// Bytes of it.
    pub bytes: u64,
    /// Bytes from the newest checkpoint on.
    pub behind: u64,
    /// What it was recorded with.
    pub plan: Plan,
}

/// The scenario: the turn that is repeated is the second, the checkpoint comes with the third step.
fn plan(release: &str) -> Result<Plan, String> {
    let answer = "All of it is said. ".repeat(ANSWER_BYTES / 19);
    let text = format!(
        "description: A long thread.\nrules: [rollout.append_only]\nsteps:\n  \
         - {{user: Begin., replies: [{{say: Begun.}}]}}\n  \
         - {{user: Go on., replies: [{{say: {answer}}}]}}\n  \
         - {{compact: , replies: [{{for: {{compaction: local, phase: standalone_turn}}, say: SUM}}]}}\n  \
         - {{user: End., replies: [{{say: Ended.}}]}}\n"
    );
    let loaded = load_bytes("bench", "long thread", text.as_bytes(), None)
        .map_err(|errors| errors.first().map(ToString::to_string).unwrap_or_default())?;
    let release = release
        .parse()
        .map_err(|_| format!("no version: {release}"))?;
    match loaded.plan(&release) {
        Ok(Resolved::Applicable(plan)) => Ok(*plan),
        Ok(Resolved::NotApplicable(why)) => Err(why),
        Err(error) => Err(error.to_string()),
    }
}

/// Writes a file of at least so many bytes into a folder.
pub async fn write(folder: &Path, bytes: u64, family: &str) -> Result<Long, String> {
    let driver = EngineDriver::new(family).ok_or_else(|| format!("no version: {family}"))?;
    let plan = plan(driver.release())?;
    let outcome = driver.run(&plan).await.map_err(|why| why.to_string())?;
    let recorded = outcome.recording.rollouts.first();
    let recorded = recorded.ok_or("the engine wrote no rollout")?;
    let lines: Vec<&str> = recorded.text.lines().collect();
    let ends = ends_of_turns(&lines);
    let [first, second, compacted, _] = ends[..] else {
        return Err(format!("four turns were expected, not {}", ends.len()));
    };
    let meta: Value = serde_json::from_str(lines[0]).map_err(|error| error.to_string())?;
    let thread = meta["payload"]["id"].as_str().unwrap_or_default();
    let window = meta["payload"]["context_window"]["window_id"].as_str();
    let own = [thread, window.unwrap_or_default()];

    let path = folder.join(&recorded.name);
    let mut file = Written {
        file: BufWriter::new(File::create(&path).map_err(|error| error.to_string())?),
        bytes: 0,
        lines: 0,
        repeats: 0,
        own,
    };
    let repeated = &lines[first..second];
    file.all(&lines[..first])?;
    while file.bytes + BEHIND_BYTES < bytes {
        file.again(repeated)?;
    }
    let before = file.bytes;
    file.all(&lines[second..compacted])?;
    while file.bytes < before + BEHIND_BYTES {
        file.again(repeated)?;
    }
    file.all(&lines[compacted..])?;
    file.file.flush().map_err(|error| error.to_string())?;
    Ok(Long {
        path,
        thread: thread.to_owned(),
        bytes: file.bytes,
        behind: file.bytes - before,
        plan,
    })
}

/// Lines up to the end of each turn.
fn ends_of_turns(lines: &[&str]) -> Vec<usize> {
    let ends = |line: &&str| line.contains(r#""type":"task_complete""#);
    let numbered = lines.iter().enumerate();
    numbered
        .filter_map(|(index, line)| ends(line).then_some(index + 1))
        .collect()
}

/// The file so far.
struct Written<'a> {
    file: BufWriter<File>,
    bytes: u64,
    lines: u64,
    repeats: u64,
    /// Ids that stay: those of the thread and its first window.
    own: [&'a str; 2],
}

impl Written<'_> {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let line = numbered(line, self.lines);
        self.lines += 1;
        self.bytes += line.len() as u64 + 1;
        writeln!(self.file, "{line}").map_err(|error| error.to_string())
    }

    fn all(&mut self, lines: &[&str]) -> Result<(), String> {
        lines.iter().try_for_each(|line| self.line(line))
    }

    /// The turn again, under ids that no other has.
    fn again(&mut self, lines: &[&str]) -> Result<(), String> {
        self.repeats += 1;
        let repeat = self.repeats;
        let fresh = format!(
            "019b{:04x}-{:04x}-7000-8001-",
            repeat >> 16,
            repeat & 0xffff
        );
        for line in lines {
            let mut line = line.replace(ID, &fresh);
            for own in self.own {
                line = line.replace(&own.replace(ID, &fresh), own);
            }
            self.line(&line)?;
        }
        Ok(())
    }
}

/// A line with this ordinal, if it has one.
fn numbered(line: &str, ordinal: u64) -> String {
    const KEY: &str = r#""ordinal":"#;
    let Some((head, rest)) = line.split_once(KEY) else {
        return line.to_owned();
    };
    let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    format!("{head}{KEY}{ordinal}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resume_bench::open;

    #[tokio::test(flavor = "current_thread")]
    async fn a_long_rollout_is_read_from_its_checkpoint_on() {
        let folder = tempfile::tempdir().expect("a folder");
        for family in ["0.144", "0.164", "0.171"] {
            let long = write(folder.path(), 3_000_000, family)
                .await
                .expect("written");
            assert_eq!(
                std::fs::metadata(&long.path).expect("there").len(),
                long.bytes
            );
            assert!(
                long.bytes >= 3_000_000 && long.behind < 1_000_000,
                "{long:?}"
            );
            let opened = open(&long.path, family).expect("a thread");
            assert!(opened.read_bytes < long.behind + 100_000, "{opened:?}");
            assert_eq!((opened.window, opened.whole), (1, false), "{opened:?}");
            let text = std::fs::read_to_string(&long.path).expect("read");
            let mut ids: Vec<&str> = text
                .lines()
                .filter(|line| line.contains(r#""task_started""#))
                .collect();
            let all = ids.len();
            ids.dedup();
            assert!(all > 100 && ids.len() == all);
        }
    }
}
