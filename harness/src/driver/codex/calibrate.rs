//! Learns the real fixed texts of a binary by running it on a small plan.
//!
//! The result lives in the user's cache, never in the repository. A text of another length or
//! hash than `engine::texts::KNOWN` says is an error: token arithmetic would not agree.

use std::fs;
use std::path::PathBuf;

use engine::texts::{KNOWN, KnownText};
use semver::{Version, VersionReq};
use serde_json::Value;
use sha1::{Digest as _, Sha1};

use super::calibration_plans::{self as plans, SUMMARY};
use super::install::{Binary, cache_dir, hex};
use super::pool::Pool;
use crate::driver::NoVerdict;
use crate::recording::{ClientEvent, Recording};
use crate::texts::{Calibration, Pair};

/// The stored calibration of a binary; the first call runs the binary.
pub(super) async fn load_or_make(binary: &Binary) -> Result<Calibration, NoVerdict> {
    let path = stored_at(binary)?;
    if let Some(stored) = fs::read_to_string(&path)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .filter(|stored| is_complete(stored, &binary.version))
    {
        return Ok(refresh(stored));
    }
    calibrate(binary).await
}

/// Every calibration in the cache.
pub fn stored_calibrations() -> Vec<Calibration> {
    let Ok(folder) = cache_dir().map(|cache| cache.join("calibration")) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| serde_json::from_str(&fs::read_to_string(path).ok()?).ok())
        .collect()
}

/// Runs the binary, checks its texts and stores them in the cache.
pub async fn calibrate(binary: &Binary) -> Result<Calibration, NoVerdict> {
    let plans = plans::all();
    let pool = Pool::new(binary.clone(), Calibration::default(), &plans, 1).await?;
    let mut outcomes = Vec::new();
    for plan in &plans {
        outcomes.push(pool.run(plan).await);
    }
    pool.close().await;
    let mut recordings = Vec::new();
    for outcome in outcomes {
        let outcome = outcome?;
        if !outcome.findings.is_empty() {
            let lines = outcome.findings.iter();
            let list: Vec<&str> = lines
                .map(|finding| finding.message.lines().next().unwrap_or_default())
                .collect();
            return Err(failed(binary, &list.join("; ")));
        }
        recordings.push(outcome.recording);
    }
    let calibration = extract(&recordings, &binary.version).map_err(|why| failed(binary, &why))?;
    let path = stored_at(binary)?;
    let text = serde_json::to_string_pretty(&calibration).expect("strings serialise");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| failed(binary, &error.to_string()))?;
    }
    let fresh = path.with_extension(format!("{}.part", std::process::id()));
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, &path))
        .map_err(|error| failed(binary, &error.to_string()))?;
    Ok(calibration)
}

fn stored_at(binary: &Binary) -> Result<PathBuf, NoVerdict> {
    let name = format!("{}-{}.json", binary.version, &binary.sha256[..12]);
    Ok(cache_dir()?.join("calibration").join(name))
}

fn failed(binary: &Binary, why: &str) -> NoVerdict {
    NoVerdict::CouldNotRun(format!("could not calibrate {}: {why}", binary.version))
}

/// Whether every text that the family sends was learned: one may have been added to the list.
fn is_complete(stored: &Calibration, version: &str) -> bool {
    KNOWN
        .iter()
        .filter(|known| is_sent(known, version))
        .all(|known| stored.pairs.iter().any(|pair| pair.id == known.id))
}

/// Whether a version sends a text at all.
fn is_sent(known: &KnownText, version: &str) -> bool {
    let versions = VersionReq::parse(known.versions).expect("a test parses each requirement");
    Version::parse(version).is_ok_and(|version| versions.matches(&version))
}

/// Our wording may have changed since the texts were stored.
fn refresh(mut stored: Calibration) -> Calibration {
    for pair in &mut stored.pairs {
        if let Some(known) = KNOWN.iter().find(|known| known.id == pair.id) {
            known.ours.clone_into(&mut pair.ours);
        }
    }
    stored
}

/// Finds every known text among the strings of the requests and the warnings.
fn extract(recordings: &[Recording], version: &str) -> Result<Calibration, String> {
    let mut texts: Vec<String> = recordings
        .iter()
        .flat_map(|recording| &recording.events)
        .filter_map(|event| match event {
            ClientEvent::Warning { message } => Some(message.clone()),
            ClientEvent::TurnStarted { .. }
            | ClientEvent::TurnEnded { .. }
            | ClientEvent::ItemStarted { .. }
            | ClientEvent::ItemCompleted { .. }
            | ClientEvent::TokenUsage { .. }
            | ClientEvent::ModelRerouted { .. }
            | ClientEvent::HookStarted { .. }
            | ClientEvent::HookCompleted { .. }
            | ClientEvent::Error { .. } => None,
        })
        .collect();
    for exchange in recordings.iter().flat_map(|recording| &recording.journal) {
        let body: Value = serde_json::from_slice(&exchange.body).map_err(|e| e.to_string())?;
        strings(&body["input"], &mut texts);
        strings(&body["tools"], &mut texts);
    }
    // What stops a thread for good is in the rollout alone.
    let files = recordings.iter().flat_map(|recording| &recording.rollouts);
    for line in files.flat_map(|file| file.text.lines()) {
        let record: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        strings(&record, &mut texts);
    }
    let before_summary = |text: &str| Some(text.strip_suffix(SUMMARY)?.strip_suffix('\n')?.into());
    let of_switch = |text: &str| {
        let rest = text.strip_prefix("<model_switch>\n")?;
        Some(rest.split_once("\n\n")?.0.to_owned())
    };
    let parts: Vec<String> = texts
        .iter()
        .filter_map(|text| before_summary(text).or_else(|| of_switch(text)))
        .chain(texts.iter().flat_map(|text| around_number(text)))
        .chain(texts.iter().flat_map(|text| of_permissions(text)))
        .chain(texts.iter().flat_map(|text| between_names(text)))
        .collect();
    texts.extend(parts);
    let mut pairs = Vec::new();
    for known in KNOWN {
        let found = texts
            .iter()
            .find(|text| hex(&Sha1::digest(text)) == known.real_sha1);
        match found {
            Some(real) => pairs.push(pair(known, real)?),
            None if !is_sent(known, version) => {}
            None => {
                return Err(format!(
                    "the text `{}` is not the one that is known ({} bytes, SHA-1 {})",
                    known.id,
                    known.ours.len(),
                    known.real_sha1
                ));
            }
        }
    }
    Ok(Calibration { pairs })
}

fn pair(known: &KnownText, real: &str) -> Result<Pair, String> {
    let escaped = |text: &str| Value::String(text.to_owned()).to_string().len();
    if real.len() == known.ours.len() && escaped(real) == escaped(known.ours) {
        let (id, ours) = (known.id.to_owned(), known.ours.to_owned());
        Ok(Pair {
            id,
            real: real.to_owned(),
            ours,
        })
    } else {
        Err(format!(
            "our wording of `{}` has another length than the real text",
            known.id
        ))
    }
}

/// What the permissions text says of the sandbox, and of the approval policy.
fn of_permissions(text: &str) -> Vec<String> {
    let body = text
        .strip_prefix("<permissions instructions>\n")
        .and_then(|text| text.strip_suffix("\n</permissions instructions>"));
    let Some((sandbox, rest)) = body.and_then(|body| body.split_once('\n')) else {
        return Vec::new();
    };
    let approval = rest.split("\n The writable roots").next();
    vec![sandbox.to_owned(), approval.unwrap_or(rest).to_owned()]
}

/// What stands between the names of a warning.
fn between_names(text: &str) -> Vec<String> {
    text.split('`').step_by(2).map(str::to_owned).collect()
}

/// What stands before and behind the first number of a text.
fn around_number(text: &str) -> Vec<String> {
    let digit = |c: char| c.is_ascii_digit();
    let Some((head, rest)) = text.split_once(digit) else {
        return Vec::new();
    };
    let tail = rest.trim_start_matches(digit);
    vec![head.to_owned(), tail.to_owned()]
}

fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_names_the_versions_that_send_it() {
        for known in KNOWN {
            assert!(VersionReq::parse(known.versions).is_ok(), "{}", known.id);
        }
    }

    #[test]
    fn permissions_are_two_texts() {
        let text = |roots: &str| {
            format!(
                "<permissions instructions>\nsandbox\nfirst\n\nlast\n{roots}</permissions instructions>"
            )
        };
        for roots in ["", " The writable roots are `/tmp`.\n"] {
            assert_eq!(of_permissions(&text(roots)), ["sandbox", "first\n\nlast"]);
        }
        assert_eq!(of_permissions("another"), [""; 0]);
    }

    #[test]
    fn a_text_of_a_later_version_is_not_expected_of_an_earlier_one() {
        let stopped = KNOWN.iter().find(|known| known.id == "turn_stopped");
        let stopped = stopped.expect("it is in the list");
        assert!(!is_sent(stopped, "0.164.0"));
        assert!(is_sent(stopped, "0.171.0"));
        assert!(!is_complete(&Calibration::default(), "0.164.0"));
    }
}
