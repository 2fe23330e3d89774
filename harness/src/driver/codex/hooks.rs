//! Hook commands for the real binary: scripts that do as the scenario says, and keep what they
//! were told.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::hooks::HookEvent;
use serde_json::{Value, json};

use super::home::RunDir;
use super::process::CodexProcess;
use crate::driver::NoVerdict;
use crate::scenario::plan::HookSpec;

/// The scripts of one process, by the place that the binary gives them.
#[derive(Debug, Default)]
pub(crate) struct HookScripts {
    folder: PathBuf,
    /// Script at each `displayOrder`.
    by_order: Vec<usize>,
    /// Runs of each script that were read.
    read: Vec<AtomicUsize>,
}

impl HookScripts {
    /// Writes a script for each hook.
    pub(crate) fn write(run: &RunDir, hooks: &[HookSpec]) -> Result<Self, NoVerdict> {
        let folder = run.hooks()?;
        for (number, hook) in hooks.iter().enumerate() {
            let file = |kind: &str| folder.join(format!("{number}.{kind}"));
            let shown = file("in").display().to_string();
            let script = format!(
                "{{ cat; echo; }} >>'{shown}'\ncat '{}'\ncat '{}' >&2\nexit {}\n",
                file("out").display(),
                file("err").display(),
                hook.exit
            );
            for (kind, text) in [
                ("sh", &script),
                ("out", &hook.prints),
                ("err", &hook.complains),
            ] {
                fs::write(file(kind), text).map_err(|error| {
                    NoVerdict::CouldNotRun(format!("could not write a hook: {error}"))
                })?;
            }
        }
        Ok(Self {
            folder,
            by_order: Vec::new(),
            read: hooks.iter().map(|_| AtomicUsize::new(0)).collect(),
        })
    }

    /// The `hooks` table of the config.
    pub(crate) fn config(&self, hooks: &[HookSpec]) -> Value {
        let mut table = json!({});
        for (number, hook) in hooks.iter().enumerate() {
            let script = self.folder.join(format!("{number}.sh"));
            let command = format!("/bin/sh {}", script.display());
            let mut group = json!({"hooks": [{"type": "command", "command": command}]});
            if let Some(matcher) = &hook.matcher {
                group["matcher"] = json!(matcher);
            }
            let groups = table[name(hook.event)].take();
            let mut groups = groups.as_array().cloned().unwrap_or_default();
            groups.push(group);
            table[name(hook.event)] = json!(groups);
        }
        table
    }

    /// Asks the binary how it lists the hooks, and says which of them to trust: the `state` of the
    /// `hooks` table.
    pub(crate) async fn trust(
        &mut self,
        process: &CodexProcess,
        cwd: &Path,
        hooks: &[HookSpec],
    ) -> Result<Value, NoVerdict> {
        let failed = |why: String| NoVerdict::CouldNotRun(format!("hooks/list: {why}"));
        let listed = process
            .rpc
            .request("hooks/list", json!({"cwds": [cwd]}))
            .await
            .map_err(|error| failed(error.to_string()))?;
        let rows = listed.pointer("/data/0/hooks").and_then(Value::as_array);
        // A hook that the binary does not take, such as one with a broken matcher, is warned of.
        let warnings = listed.pointer("/data/0/warnings").and_then(Value::as_array);
        let refused = warnings.map_or(0, Vec::len);
        let rows = rows.filter(|rows| rows.len() + refused == hooks.len());
        let Some(rows) = rows else {
            return Err(failed(format!("not every hook is listed: {listed}")));
        };
        let mut placed: Vec<(i64, usize)> = Vec::new();
        let mut state = json!({});
        for row in rows {
            let number = row["command"].as_str().and_then(number_of);
            let (Some(number), Some(key)) = (number, row["key"].as_str()) else {
                return Err(failed(format!("a foreign hook: {row}")));
            };
            placed.push((row["displayOrder"].as_i64().unwrap_or_default(), number));
            if hooks.get(number).is_some_and(|hook| hook.trusted) {
                state[key] = json!({"trusted_hash": row["currentHash"]});
            }
        }
        placed.sort_unstable();
        self.by_order = placed.into_iter().map(|(_, number)| number).collect();
        Ok(state)
    }

    /// What the hook at this place was told in the oldest run that was not yet read.
    ///
    /// The path of the rollout is given as `<rollout>`: it holds the time.
    pub(crate) fn next_input(&self, display_order: Option<i64>) -> Value {
        let order = display_order.and_then(|order| usize::try_from(order).ok());
        let number = order.and_then(|order| self.by_order.get(order));
        let Some(number) = number.copied() else {
            return Value::Null;
        };
        let file = self.folder.join(format!("{number}.in"));
        let text = fs::read_to_string(file).unwrap_or_default();
        let run = self.read[number].fetch_add(1, Ordering::Relaxed);
        let line = text.lines().filter(|line| !line.is_empty()).nth(run);
        let mut input: Value = line
            .and_then(|line| serde_json::from_str(line).ok())
            .unwrap_or(Value::Null);
        let thread = input["session_id"].as_str().unwrap_or_default().to_owned();
        if let Some(path) = input.get_mut("transcript_path")
            && path.as_str().is_some_and(|path| path.contains(&thread))
        {
            *path = json!("<rollout>");
        }
        input
    }
}

/// The number in `/bin/sh …/<number>.sh`.
fn number_of(command: &str) -> Option<usize> {
    Path::new(command).file_stem()?.to_str()?.parse().ok()
}

/// The event's name in the config.
fn name(event: HookEvent) -> &'static str {
    match event {
        HookEvent::PreCompact => "PreCompact",
        HookEvent::PostCompact => "PostCompact",
        HookEvent::SessionStart => "SessionStart",
    }
}
