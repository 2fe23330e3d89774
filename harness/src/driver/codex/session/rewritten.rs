//! A thread whose rollout a test writes anew between two processes: what is asked behind each resume.
//!
//! The test sees our fixed texts, the workspace of the engine and the day of its recordings, so that
//! one expectation serves the engine and the binary.

use std::fs;

use serde_json::{Value, json};

use super::super::{CodexDriver, capture, home::slug};
use super::Session;
use crate::driver::NoVerdict;
use crate::driver::codex::rpc::RpcError;
use crate::scenario::plan::{Plan, StopKind};

/// What a test does between the processes.
pub(crate) struct Rewrite<'a> {
    /// From the records of the first step to the lines that the file shall hold.
    pub(crate) lines: &'a dyn Fn(&[Value]) -> Vec<Value>,
    /// From those lines as bytes to the file.
    pub(crate) bytes: &'a dyn Fn(Vec<u8>) -> Vec<u8>,
    /// Workspace that stands in the test's texts.
    pub(crate) workspace: &'a str,
    /// Day that stands there.
    pub(crate) date: &'a str,
    /// Number of the model that the thread is resumed with.
    pub(crate) model: usize,
    /// Parameters of every resume, beside thread, model and folder.
    pub(crate) params: Value,
    /// The project doc from then on; `None` takes it away.
    pub(crate) agents_md: Option<String>,
}

/// The first request behind a resume.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) input: Vec<Value>,
    /// Number of the window that it names.
    pub(crate) window: Option<u64>,
}

/// What came of all resumes.
#[derive(Debug)]
pub(crate) struct Resumed {
    /// One for each step behind the first; what a client was refused ends the list.
    pub(crate) asked: Vec<Result<Asked, String>>,
    /// The first record behind the first resume was glued to the last line of the file.
    pub(crate) glued: bool,
}

/// What differs between the test's texts and those of the binary.
struct Words<'a> {
    here: String,
    today: Option<String>,
    rewrite: &'a Rewrite<'a>,
}

impl Words<'_> {
    fn to_ours(&self, text: &str) -> String {
        let text = text.replace(&self.here, self.rewrite.workspace);
        match &self.today {
            Some(today) => day_replaced(&text, today, self.rewrite.date),
            None => text,
        }
    }

    fn to_real(&self, text: &str) -> String {
        let text = text.replace(self.rewrite.workspace, &self.here);
        match &self.today {
            Some(today) => day_replaced(&text, self.rewrite.date, today),
            None => text,
        }
    }
}

/// A day is replaced where a record or a text names it as the day, and nowhere else.
fn day_replaced(text: &str, day: &str, by: &str) -> String {
    ["current_date>", "\"current_date\":\""]
        .iter()
        .fold(text.to_owned(), |text, key| {
            text.replace(&format!("{key}{day}"), &format!("{key}{by}"))
        })
}

/// The day that an environment context tells.
fn day(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("<current_date>")?;
    let (day, _) = rest.split_once('<')?;
    Some(day.to_owned())
}

fn parsed(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Lines as a file holds them: the keys of a record in the order of the binary.
fn file(lines: &[Value]) -> String {
    const FIRST: [&str; 4] = ["timestamp", "ordinal", "type", "payload"];
    let mut text = String::new();
    for line in lines {
        let mut ordered = json!({});
        let rest = line.as_object().into_iter().flatten();
        let rest = rest.map(|(key, _)| key.as_str());
        for key in FIRST.into_iter().chain(rest) {
            if let Some(value) = line.get(key) {
                ordered[key] = value.clone();
            }
        }
        text.push_str(&ordered.to_string());
        text.push('\n');
    }
    text
}

impl CodexDriver {
    /// Plays the first step of a plan, rewrites the rollout, and plays each later step behind a
    /// resume in a new process.
    pub(crate) async fn rewritten(
        &self,
        plan: &Plan,
        rewrite: &Rewrite<'_>,
    ) -> Result<Resumed, NoVerdict> {
        let session = self.pool.own_session(plan).await?;
        session.rewritten(rewrite).await
    }
}

impl Session<'_> {
    async fn rewritten(mut self, rewrite: &Rewrite<'_>) -> Result<Resumed, NoVerdict> {
        let plan = self.plan;
        let Some((first, later)) = plan.steps.split_first() else {
            return Err(NoVerdict::CouldNotRun("the plan has no step".to_owned()));
        };
        self.begin_step(first);
        self.start_thread().await?;
        self.early_answered(first).await?;
        self.step(first).await?;
        self.leave().await?;
        let (words, end) = self.rewrite(rewrite)?;
        let mut resumed = Resumed {
            asked: Vec::new(),
            glued: false,
        };
        for step in later {
            if let Some(why) = self.come_back(rewrite, &words).await? {
                resumed.asked.push(Err(why));
                break;
            }
            let before = self.case.journal().len();
            self.step(step).await?;
            resumed.asked.push(self.asked(before, &words));
            let file = self.newest_bytes()?;
            let open = end.checked_sub(1).and_then(|last| file.get(last));
            let next = file.get(end);
            resumed.glued |=
                open.is_some_and(|last| *last != b'\n') && next.is_some_and(|next| *next != b'\n');
            self.leave().await?;
        }
        Ok(resumed)
    }

    async fn leave(&mut self) -> Result<(), NoVerdict> {
        self.drain().await;
        self.process().stop(StopKind::Eof).await?;
        self.stopped = true;
        Ok(())
    }

    /// Writes the file anew, and the project doc: the words, and where the file ends.
    fn rewrite<'w>(&self, rewrite: &'w Rewrite<'w>) -> Result<(Words<'w>, usize), NoVerdict> {
        let io = |error: std::io::Error| NoVerdict::CouldNotRun(error.to_string());
        let paths = capture::rollout_paths(&self.seat.run.home(), &self.threads);
        let path = paths.last();
        let path = path.ok_or_else(|| NoVerdict::CouldNotRun("there is no rollout".into()))?;
        let text = fs::read_to_string(path).map_err(io)?;
        let text = self.calibration().to_ours(&text);
        let words = Words {
            here: self.workspace.display().to_string(),
            today: day(&text),
            rewrite,
        };
        let lines = (rewrite.lines)(&parsed(&words.to_ours(&text)));
        let real = lines
            .iter()
            .map(|line| self.calibration().to_real_value(line));
        let text = words.to_real(&file(&real.collect::<Vec<Value>>()));
        let bytes = (rewrite.bytes)(text.into_bytes());
        fs::write(path, &bytes).map_err(io)?;
        let doc = self.workspace.join("AGENTS.md");
        match &rewrite.agents_md {
            Some(text) => fs::write(doc, text).map_err(io)?,
            None if doc.exists() => fs::remove_file(doc).map_err(io)?,
            None => {}
        }
        Ok((words, bytes.len()))
    }

    /// Resumes the thread in a new process: `None`, or why it is refused.
    async fn come_back(
        &mut self,
        rewrite: &Rewrite<'_>,
        words: &Words<'_>,
    ) -> Result<Option<String>, NoVerdict> {
        self.restart().await?;
        let mut params = rewrite.params.clone();
        params["threadId"] = json!(self.thread());
        params["cwd"] = json!(self.workspace);
        params["model"] = json!(self.plan.models.get(rewrite.model).map(slug));
        match self.process().rpc.request("thread/resume", params).await {
            Ok(response) => {
                self.adopt(&response)?;
                self.drain().await;
                Ok(None)
            }
            Err(error @ RpcError::Refused { .. }) => Ok(Some(words.to_ours(&error.to_string()))),
            Err(error @ (RpcError::Ended { .. } | RpcError::TimedOut { .. })) => {
                Err(NoVerdict::CouldNotDecide(error.to_string()))
            }
        }
    }

    /// The first request since there were so many.
    fn asked(&mut self, before: usize, words: &Words<'_>) -> Result<Asked, String> {
        if let Some(finding) = self.findings.pop() {
            return Err(finding.message);
        }
        let journal = self.case.journal();
        let request = journal.get(before).map(|entry| &entry.request);
        let request = request.ok_or("nothing was asked")?;
        let body = request.decoded().map_err(|error| error.to_string())?;
        let body = self.calibration().to_ours(&String::from_utf8_lossy(&body));
        let body: Value =
            serde_json::from_str(&words.to_ours(&body)).map_err(|error| error.to_string())?;
        let window = request.header("x-codex-window-id");
        let window = window.and_then(|value| value.rsplit(':').next()?.parse().ok());
        let input = body["input"].as_array().cloned();
        Ok(Asked {
            input: input.ok_or("the request has no input")?,
            window,
        })
    }
}
