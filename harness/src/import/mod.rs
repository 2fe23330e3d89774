//! `import`: a recorded rollout as a scenario that reproduces it.
//!
//! ```text
//! path ─► read::read ─► Entry ─► read::stretches ─► Stretch
//!                                    │ replies::Reader, compactions
//!                                    ▼
//!                                   Task (input, responses, context, end)
//!                                    │ settings · tools · items · redact
//!                                    ▼
//!                                   steps::Steps ─► scenario::write ─► secrets::secrets
//! ```
//!
//! Nothing recorded is ever executed. What no step carries is listed with its place and is never
//! dropped in silence. Texts are stand-ins unless they are asked for.

mod compactions;
mod items;
#[cfg(test)]
mod random;
mod read;
pub mod redact;
mod replies;
pub mod secrets;
mod settings;
mod steps;
#[cfg(test)]
mod tests;
mod tools;

use std::fmt;
use std::path::Path;

use serde_json::{Map, Value, json};

pub use read::LeftOut;
use read::{Entry, Stretch};
use redact::Texts;
use replies::Task;
use settings::Settings;
use steps::Steps;
use tools::Tools;

use crate::rollout_file::Place;
use crate::scenario::plain::Tree;
use crate::scenario::write::write_with_comments;
use crate::scenario::{SCENARIO_BYTES_MAX, load_bytes};

/// Which part of a thread is played again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Mode {
    /// Every turn.
    #[default]
    Replay,
    /// Turns up to the last one that cannot be played again are supplied as a history.
    Supplied,
}

/// Why a file gives no scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportError {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub what: String,
    /// Why that is an error.
    pub why: String,
    /// How to mend it.
    pub help: String,
}

impl ImportError {
    fn new(place: Place, what: &str, why: &str, help: &str) -> Self {
        Self {
            place,
            what: what.to_owned(),
            why: why.to_owned(),
            help: help.to_owned(),
        }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            what,
            why,
            help,
        } = self;
        write!(f, "{place}: {what}: {why}\n  help: {help}")
    }
}

impl std::error::Error for ImportError {}

/// A scenario, and what it does not carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Text of the scenario.
    pub yaml: String,
    /// What no step carries, in the order of the file.
    pub left_out: Vec<LeftOut>,
}

/// Makes a scenario of a rollout file.
pub fn import(path: &Path, mode: Mode, texts: &Texts) -> Result<Imported, ImportError> {
    let read = read::read(path)?;
    let mut left_out = read.left_out;
    let tools = Tools::of(&read.entries, texts);
    let mut settings = Settings::default();
    settings.look(&read.entries);
    let mut entries = read.entries.into_iter();
    let Some(first) = entries.next() else {
        let start = Place { line: 1, offset: 0 };
        let help = "name a `rollout-….jsonl` of a Codex home";
        return Err(ImportError::new(
            start,
            "the file is empty",
            "it holds no record",
            help,
        ));
    };
    let meta = first.payload;
    if meta["history_base"].is_object() {
        left_out.push(LeftOut {
            place: first.place,
            what: "the beginning of the thread: it lies in another file".to_owned(),
        });
    }
    let stretches = read::stretches(entries.collect(), &mut left_out);
    let mut parts: Vec<Part> = Vec::new();
    let mut reader = replies::Reader::default();
    for stretch in stretches {
        parts.push(match stretch {
            Stretch::Between(entries) => Part::Between(entries),
            Stretch::Task(entries) => Part::Task(Box::new(reader.task(&entries)), entries),
        });
    }
    left_out.append(&mut reader.left_out);
    let history = supplied_until(mode, &mut parts);
    let tasks: Vec<Task> = parts
        .iter_mut()
        .filter_map(|part| match part {
            Part::Task(task, _) => Some(std::mem::take(&mut **task)),
            Part::Between(_) => None,
        })
        .collect();
    settings.begin(&meta, &tasks, texts);
    settings.compactions(&tasks);
    if let Some(history) = &history {
        settings.injected(&context_of(history, first.place), texts);
    }
    let mut steps = Steps {
        texts,
        tools: &tools,
        settings: &mut settings,
        items: items::Items::default(),
        rolls_back: settings::is_old(&meta),
        written: Vec::new(),
        left_out: Vec::new(),
    };
    if let Some(history) = history {
        let items: Vec<Value> = history
            .iter()
            .map(|item| items::supplied(item, texts))
            .collect();
        steps.supply(&items);
    }
    let mut tasks_left = tasks.iter();
    for part in &parts {
        match part {
            Part::Between(entries) => steps.between(entries),
            Part::Task(..) => {
                if let Some(task) = tasks_left.next() {
                    steps.task(task);
                }
            }
        }
    }
    left_out.append(&mut steps.left_out);
    let steps = steps.written;
    left_out.append(&mut settings.left_out);
    left_out.sort();
    left_out.dedup();
    if steps.is_empty() {
        let what = "no turn to play";
        let why = "no task of the file has input or a response";
        return Err(ImportError::new(
            first.place,
            what,
            why,
            "name another file",
        ));
    }
    let head = Head {
        meta: &meta,
        settings: &settings,
        tools: &tools,
        texts,
    };
    let tree = Tree::from(&Value::Object(head.scenario(steps)));
    let yaml = write_with_comments(&head.comments(&left_out), &tree);
    checked(&yaml, first.place)?;
    Ok(Imported { yaml, left_out })
}

/// The context that a supplied history holds: a thread that is given one sends it anew.
fn context_of(history: &[Value], place: Place) -> Task {
    let held = compactions::context(&json!({"replacement_history": history}));
    Task {
        injected: held.into_iter().map(|message| (place, message)).collect(),
        ..Task::default()
    }
}

/// A stretch that was looked at.
enum Part {
    Between(Vec<Entry>),
    Task(Box<Task>, Vec<Entry>),
}

/// Takes away the parts that are supplied as a history, and gives its items.
fn supplied_until(mode: Mode, parts: &mut Vec<Part>) -> Option<Vec<Value>> {
    let cannot = |part: &Part| match part {
        Part::Between(_) => false,
        Part::Task(task, _) => task.responses.iter().any(|response| {
            let mut items = response.items.iter();
            items.any(|item| steps::unplayable(response, item).is_some())
        }),
    };
    let last = parts
        .iter()
        .rposition(cannot)
        .filter(|_| mode == Mode::Supplied)?;
    // What fills the window of a turn that compacts at once is the usage before it, and a supplied
    // history has none: such a turn is supplied as well.
    let full = parts[last + 1..]
        .iter()
        .take_while(|part| match part {
            Part::Between(_) => true,
            Part::Task(task, _) => task.responses.first().is_some_and(|first| {
                let compaction = first.compaction.as_ref();
                compaction.is_some_and(|made| made.phase == Some("pre_turn"))
            }),
        })
        .filter(|part| matches!(part, Part::Task(..)))
        .count();
    let last = (last + 1..parts.len())
        .filter(|at| matches!(parts[*at], Part::Task(..)))
        .take(full)
        .last()
        .unwrap_or(last);
    let mut history = Vec::new();
    for part in parts.drain(..=last) {
        let (Part::Between(entries) | Part::Task(_, entries)) = part;
        for entry in entries {
            match entry.kind.as_str() {
                "response_item" => history.push(entry.payload),
                "compacted" => {
                    if let Some(items) = entry.payload["replacement_history"].as_array() {
                        history.clone_from(items);
                    }
                }
                _ => {}
            }
        }
    }
    Some(history)
}

/// What stands before the steps.
struct Head<'a> {
    meta: &'a Value,
    settings: &'a Settings,
    tools: &'a Tools,
    texts: &'a Texts,
}

impl Head<'_> {
    fn comments(&self, left_out: &[LeftOut]) -> Vec<String> {
        let mut lines = vec!["Written by `turnproof import`.".to_owned()];
        if !self.texts.keep {
            lines.push("Texts are stand-ins of the same length.".to_owned());
        }
        for (name, slug) in self.settings.names().filter(|(_, slug)| !slug.is_empty()) {
            lines.push(format!("Model {name}: {}", crate::doctor::shown(slug)));
        }
        for (name, other) in self.tools.renamed() {
            let name = crate::doctor::shown(name);
            lines.push(format!(
                "Tool {name} is {other}: a client may not declare the former."
            ));
        }
        if !left_out.is_empty() {
            lines.push("Not carried, by line:offset of the file:".to_owned());
        }
        lines.extend(
            left_out
                .iter()
                .map(|left| format!("  {} {}", left.place, left.what)),
        );
        lines
    }

    fn scenario(&self, steps: Vec<Value>) -> Map<String, Value> {
        let version = self.meta["cli_version"].as_str().unwrap_or_default();
        let version = crate::doctor::shown(version);
        let mut scenario = Map::new();
        let description = format!("A thread recorded with {version} is played again.");
        scenario.insert("description".to_owned(), json!(description));
        if steps.iter().any(|step| step.get("rollback").is_some()) {
            scenario.insert("versions".to_owned(), json!("<0.164"));
            let reason = "Later versions revert instead.";
            scenario.insert("reason".to_owned(), json!(reason));
        }
        for (key, map) in [
            ("models", &self.settings.models(self.meta, self.texts)),
            ("config", &self.settings.config),
            ("tools", self.tools.written()),
            ("files", &self.settings.files),
        ] {
            if !map.is_empty() {
                scenario.insert(key.to_owned(), Value::Object(map.clone()));
            }
        }
        scenario.insert("steps".to_owned(), Value::Array(steps));
        scenario
    }
}

/// What is written has to be a valid scenario.
fn checked(yaml: &str, place: Place) -> Result<(), ImportError> {
    if yaml.len() > SCENARIO_BYTES_MAX {
        let what = format!("the scenario has {} bytes", yaml.len());
        let why = format!("the limit is {SCENARIO_BYTES_MAX}");
        let help = "let go of --keep-text, or cut turns from a copy of the file";
        return Err(ImportError::new(place, &what, &why, help));
    }
    load_bytes("the scenario", "imported", yaml.as_bytes(), None)
        .map(|_| ())
        .map_err(|errors| {
            let first = errors.first().map(ToString::to_string).unwrap_or_default();
            let help = "try --mode supplied, and report the file's shape";
            ImportError::new(place, "it makes no valid scenario", &first, help)
        })
}
