//! From what was captured to a recording: texts swapped, rollout files in order of creation.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mock_provider::journal::Entry;
use serde_json::Value;

use crate::driver::NoVerdict;
use crate::driver::script::answer;
use crate::recording::{ClientEvent, Exchange, Finding, Recording, RolloutFile};
use crate::scenario::plan::Plan;
use crate::texts::Calibration;

/// Levels of folders below `sessions` (year, month, day).
const SESSIONS_DEPTH_MAX: usize = 6;

/// The journal of a case; a body that cannot be decoded is kept raw and reported.
pub(super) fn journal(
    entries: &[Entry],
    plan: &Plan,
    calibration: &Calibration,
) -> (Vec<Exchange>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut exchanges = Vec::new();
    for entry in entries {
        let request = &entry.request;
        let body = request.decoded().unwrap_or_else(|error| {
            let message = format!("{} {}: {error}", request.method, request.path);
            findings.push(Finding {
                id: "journal.undecodable".to_owned(),
                message,
            });
            request.body.clone()
        });
        exchanges.push(Exchange {
            method: request.method.clone(),
            path: below(&plan.config.provider_path, &request.path),
            headers: request.headers.clone(),
            body: calibration.to_ours_bytes(&body),
            reply: entry.reply.clone(),
            answer: answer(&plan.steps, entry),
        });
    }
    (exchanges, findings)
}

/// The rollout files of these threads: by thread, then by name (which begins with the time).
pub(super) fn rollouts(
    home: &Path,
    threads: &[String],
    calibration: &Calibration,
) -> Result<Vec<RolloutFile>, NoVerdict> {
    let mut files = Vec::new();
    for path in rollout_paths(home, threads) {
        let bytes = fs::read(&path).map_err(|error| {
            NoVerdict::CouldNotDecide(format!("could not read {}: {error}", path.display()))
        })?;
        let text = calibration.to_ours(&String::from_utf8_lossy(&bytes));
        let name = file_name(&path);
        files.push(RolloutFile { name, text });
    }
    Ok(files)
}

/// Paths of these rollout files, in the same order.
pub(super) fn rollout_paths(home: &Path, threads: &[String]) -> Vec<PathBuf> {
    let found = all_rollouts(home);
    let mut placed: Vec<(usize, String, PathBuf)> = Vec::new();
    for path in found {
        let name = file_name(&path);
        let place = threads
            .iter()
            .position(|thread| name.contains(thread.as_str()));
        placed.extend(place.map(|place| (place, name, path)));
    }
    placed.sort();
    placed.into_iter().map(|(_, _, path)| path).collect()
}

/// Paths of every rollout file of a home.
pub(super) fn all_rollouts(home: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&sessions(home), SESSIONS_DEPTH_MAX, &mut found);
    found
}

/// The folder of all rollouts.
pub(super) fn sessions(home: &Path) -> PathBuf {
    home.join("sessions")
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<std::path::PathBuf>) {
    // A folder that does not exist holds no rollout.
    for entry in fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
    {
        let path = entry.path();
        if path.is_dir() {
            if depth > 0 {
                collect(&path, depth - 1, found);
            }
        } else if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            found.push(path);
        }
    }
}

/// A path below the base URL of a plan.
fn below(prefix: &str, path: &str) -> String {
    path.strip_prefix(prefix).unwrap_or(path).to_owned()
}

/// An event in our words.
pub(super) fn event(event: ClientEvent, calibration: &Calibration) -> ClientEvent {
    match event {
        ClientEvent::ItemCompleted { kind, id, shown } => ClientEvent::ItemCompleted {
            kind,
            id,
            shown: calibration.to_ours_value(&shown),
        },
        ClientEvent::Warning { message } => ClientEvent::Warning {
            message: calibration.to_ours(&message),
        },
        ClientEvent::Error {
            message,
            will_retry,
            code,
        } => ClientEvent::Error {
            message: calibration.to_ours(&message),
            will_retry,
            code,
        },
        ClientEvent::TurnEnded {
            turn,
            status,
            error,
        } => {
            let error =
                error.map(|(message, code): (String, Value)| (calibration.to_ours(&message), code));
            ClientEvent::TurnEnded {
                turn,
                status,
                error,
            }
        }
        ClientEvent::TurnStarted { .. }
        | ClientEvent::ItemStarted { .. }
        | ClientEvent::TokenUsage { .. }
        | ClientEvent::ModelRerouted { .. }
        | ClientEvent::HookStarted { .. }
        | ClientEvent::HookCompleted { .. } => event,
    }
}

/// Days since 1970 in UTC.
pub(super) fn utc_day() -> u64 {
    SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |time| time.as_secs() / (24 * 60 * 60))
}

/// What an environment context tells of this machine that goldens do not allow.
///
/// The binary takes time zone and shell from the system, not from its environment.
pub(super) fn foreign_environment(recording: &Recording) -> Option<String> {
    let allowed: [(&str, &[&str]); 2] = [("timezone", &["UTC", "Etc/UTC"]), ("shell", &["bash"])];
    for exchange in &recording.journal {
        let body = String::from_utf8_lossy(&exchange.body);
        for (tag, values) in allowed {
            let found = body
                .split_once(&format!("<{tag}>"))
                .and_then(|(_, rest)| rest.split_once(&format!("</{tag}>")));
            if let Some((value, _)) = found
                && !values.contains(&value)
            {
                let one_of = values.join(" or ");
                return Some(format!(
                    "the {tag} of this machine is `{value}`, not {one_of}"
                ));
            }
        }
    }
    None
}

/// Real texts that were not swapped: nothing of them may be stored.
pub(super) fn remnants(recording: &Recording, calibration: &Calibration) -> Vec<Finding> {
    let bodies = recording
        .journal
        .iter()
        .enumerate()
        .map(|(number, exchange)| {
            (
                format!("request {}", number + 1),
                String::from_utf8_lossy(&exchange.body).into_owned(),
            )
        });
    let files = recording
        .rollouts
        .iter()
        .map(|file| (file.name.clone(), file.text.clone()));
    let events = std::iter::once(("events".to_owned(), format!("{:?}", recording.events)));
    bodies
        .chain(files)
        .chain(events)
        .filter_map(|(place, text)| {
            let id = calibration.remnant(&text)?;
            let message = format!("a line of the real text `{id}` is left in {place}");
            Some(Finding {
                id: "texts.remnant".to_owned(),
                message,
            })
        })
        .collect()
}
