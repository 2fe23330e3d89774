//! What the session metadata say of the thread, and whether they stand where they have to.

use engine::profile::Version;
use serde::Serialize;
use serde_json::Value;

use super::findings::{Findings, Severity};
use super::shown;
use crate::golden::versions::VERSIONS;
use crate::rollout_file::{Line, Place, Record};

/// Models that are named.
const MODELS_MAX: usize = 16;

/// Facts of the thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Session {
    /// Thread id.
    pub thread: Option<String>,
    /// Version that began the file.
    pub cli_version: Option<String>,
    /// Profile that it is read with.
    pub profile: Option<&'static str>,
    /// `paginated` or `legacy`.
    pub history_mode: Option<String>,
    /// Thread that it was forked from.
    pub forked_from: Option<String>,
    /// Thread whose file the history begins in, and the ordinal up to which.
    pub history_base: Option<(String, Option<u64>)>,
    /// Models of its turns in order of appearance.
    pub models: Vec<String>,
    /// Estimated tokens of the base instructions.
    pub base_instructions_tokens: i64,
}

impl Session {
    /// Whether records have ordinals.
    pub fn paginated(&self) -> bool {
        self.history_mode.as_deref() == Some("paginated")
    }

    /// A turn ran with this model.
    pub fn model(&mut self, model: &str) {
        let model = shown(model);
        if self.models.len() < MODELS_MAX && !self.models.contains(&model) {
            self.models.push(model);
        }
    }

    /// Reads a `session_meta` record.
    pub fn meta(&mut self, record: &Record, line: &Line, file_name: &str, into: &mut Findings) {
        let payload = &record.payload;
        let text = |key: &str| payload[key].as_str().map(shown);
        if self.thread.is_some() {
            let id = text("id").unwrap_or_default();
            if self.forked_from.as_ref() == Some(&id) {
                into.add(
                    "session.parent_meta",
                    line.place,
                    "session metadata of the parent",
                );
            } else {
                let what = format!("session metadata again, of thread {id}");
                into.add("session.second_meta", line.place, what);
            }
            return;
        }
        self.thread = Some(text("id").unwrap_or_default());
        self.cli_version = text("cli_version");
        self.history_mode = Some(text("history_mode").unwrap_or_else(|| "legacy".to_owned()));
        self.forked_from = text("forked_from_id");
        let base = &payload["history_base"];
        self.history_base = base["thread_id"]
            .as_str()
            .map(|id| (shown(id), base["end_ordinal_exclusive"].as_u64()));
        let instructions = payload["base_instructions"]["text"]
            .as_str()
            .unwrap_or_default();
        self.base_instructions_tokens = line.text_bytes(instructions).div_ceil(4) as i64;
        self.judge(payload, line.place, file_name, into);
    }

    fn judge(&mut self, payload: &Value, place: Place, file_name: &str, into: &mut Findings) {
        for key in ["id", "cwd"] {
            if !payload[key].is_string() {
                let what = format!("the session metadata have no `{key}`");
                into.add("session.broken_meta", place, what);
            }
        }
        let mode = self.history_mode.as_deref().unwrap_or_default();
        if !["paginated", "legacy"].contains(&mode) {
            let what = format!("unknown `history_mode` {mode}");
            into.add("session.broken_meta", place, what);
        }
        let (version, known) = family(self.cli_version.as_deref());
        self.profile = Some(name(version));
        if !known {
            let said = self.cli_version.as_deref().unwrap_or("none");
            let what = format!("cli version {said}, read as {}", name(version));
            into.add("session.unknown_version", place, what);
        }
        let id = self.thread.as_deref().unwrap_or_default();
        if let Some(named) = thread_of(file_name).filter(|named| *named != id) {
            let severity = match version {
                Version::V171 => Severity::Error,
                Version::V144 | Version::V164 => Severity::Warning,
            };
            let what = format!(
                "the file is named by thread {}, its metadata say {id}",
                shown(named)
            );
            into.add_as(severity, "session.file_name", place, what);
        }
        if let Some((thread, _)) = &self.history_base {
            let what = format!("the history begins in the file of thread {thread}");
            into.add("session.base", place, what);
        }
    }
}

/// Thread id in `rollout-<date>T<time>-<thread id>[_<segment>].jsonl`, if it is named so.
fn thread_of(file_name: &str) -> Option<&str> {
    const ID: usize = 36;
    let stem = file_name.strip_prefix("rollout-")?.split('.').next()?;
    let stem = stem.split('_').next()?;
    let id = stem.get(stem.len().checked_sub(ID)?..)?;
    let hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    (id.matches('-').count() == 4 && id.chars().all(hex)).then_some(id)
}

/// The family of a version, and whether exactly that version is known.
pub fn family(cli_version: Option<&str>) -> (Version, bool) {
    const FAMILIES: [Version; 3] = [Version::V144, Version::V164, Version::V171];
    let newest = (Version::V171, false);
    let Some(said) = cli_version.and_then(|text| semver::Version::parse(text).ok()) else {
        return newest;
    };
    // A build from source calls itself 0.0.0.
    if said == semver::Version::new(0, 0, 0) {
        return newest;
    }
    let rows = FAMILIES.into_iter().zip(VERSIONS);
    let mut rows = rows.filter_map(|(family, row)| {
        let real = semver::Version::parse(row.real).ok()?;
        // A later patch of the same family is of that family: only the minor number decides.
        ((real.major, real.minor) <= (said.major, said.minor)).then_some((family, real == said))
    });
    let first = (Version::V144, false);
    rows.next_back().unwrap_or(first)
}

/// Name of a family, as in `engine@0.171`.
pub fn name(version: Version) -> &'static str {
    match version {
        Version::V144 => "0.144",
        Version::V164 => "0.164",
        Version::V171 => "0.171",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_with_the_nearest_profile_before_it() {
        for (said, version, known) in [
            ("0.144.6", Version::V144, true),
            ("0.144.9", Version::V144, false),
            ("0.50.0", Version::V144, false),
            ("0.163.9", Version::V144, false),
            ("0.164.0", Version::V164, true),
            ("0.171.0", Version::V171, true),
            ("0.200.0-alpha.3", Version::V171, false),
            ("0.0.0", Version::V171, false),
            ("x", Version::V171, false),
        ] {
            assert_eq!(family(Some(said)), (version, known), "{said}");
        }
        assert_eq!(family(None), (Version::V171, false));
        for version in [Version::V144, Version::V164, Version::V171] {
            assert!(VERSIONS.iter().any(|row| row.name == name(version)));
        }
    }

    #[test]
    fn a_file_name_holds_the_thread() {
        let id = "0199a213-81c0-7800-8aa1-bbab2a035a53";
        for name in [
            format!("rollout-2026-01-01T00-00-00-{id}.jsonl"),
            format!("rollout-2026-01-01T00-00-00-{id}.jsonl.zst"),
            format!("rollout-2026-01-01T00-00-00-{id}_0199a213-81c0-7800-8aa1-bbab2a035a54.jsonl"),
        ] {
            assert_eq!(thread_of(&name), Some(id), "{name}");
        }
        for name in [
            "bug.jsonl",
            "rollout-x.jsonl",
            "rollout-汉汉汉汉汉汉汉汉汉汉汉汉汉.jsonl",
        ] {
            assert_eq!(thread_of(name), None, "{name}");
        }
    }
}
