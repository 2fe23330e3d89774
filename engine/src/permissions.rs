//! What a thread may do: the text for the model, the element of the environment, the records.
//!
//! Seen on the three versions with every sandbox and approval policy (rules `context.permissions.*`).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::profile::Profile;
use crate::settings::Settings;
use crate::texts::permissions as texts;

/// Folders of the working directory that stay closed to writing.
const CLOSED: [&str; 3] = [".git", ".agents", ".codex"];
/// One more of them, from 0.164 on.
const CLOSED_LATER: &str = ".aws";

/// `<permissions instructions>`: the sandbox, the approval policy, and what may be written.
pub(crate) fn text(settings: &Settings, profile: &Profile) -> String {
    let sandbox = match settings.sandbox.as_str() {
        "read-only" => texts::SANDBOX_READ_ONLY,
        "workspace-write" => texts::SANDBOX_WORKSPACE_WRITE,
        _ => texts::SANDBOX_DANGER,
    };
    let approval = match settings.approval.as_str() {
        "on-request" => texts::APPROVAL_ON_REQUEST,
        "untrusted" if profile.wide_permissions => texts::APPROVAL_UNLESS_TRUSTED,
        "untrusted" => texts::APPROVAL_UNTRUSTED,
        _ => texts::APPROVAL_NEVER,
    };
    let mut text = format!("<permissions instructions>\n{sandbox}\n{approval}\n");
    if writes_workspace(settings) {
        let _ = writeln!(text, " The writable roots are `/tmp`, `{}`.", settings.cwd);
    }
    text.push_str("</permissions instructions>");
    text
}

/// `<permission_profile>` of the environment context.
pub(crate) fn element(settings: &Settings, profile: &Profile) -> String {
    let Some(entries) = entries(settings, profile) else {
        return "<permission_profile type=\"disabled\"><file_system type=\"unrestricted\" />\
                </permission_profile>"
            .to_owned();
    };
    // A folder that is closed twice is told once.
    let mut told = BTreeSet::new();
    let mut element =
        "<permission_profile type=\"managed\"><file_system type=\"restricted\">".to_owned();
    for Entry { access, place } in entries {
        let place = match place {
            Place::Special(kind) => format!("<special>:{kind}</special>"),
            Place::Path(path) | Place::Closed(path) => format!("<path>{path}</path>"),
        };
        if told.insert(place.clone()) {
            let _ = write!(element, "<entry access=\"{access}\">{place}</entry>");
        }
    }
    element.push_str("</file_system></permission_profile>");
    element
}

/// `permission_profile` of the records.
pub(crate) fn record(settings: &Settings, profile: &Profile) -> Value {
    match entry_records(settings, profile) {
        None => json!({"type": "disabled"}),
        Some(entries) => json!({
            "type": "managed",
            "file_system": {"type": "restricted", "entries": entries},
            "network": "restricted",
        }),
    }
}

/// `sandbox_policy` of a turn context.
pub(crate) fn sandbox_policy(settings: &Settings) -> Value {
    if writes_workspace(settings) {
        json!({
            "type": settings.sandbox,
            "network_access": false,
            "exclude_tmpdir_env_var": false,
            "exclude_slash_tmp": false,
        })
    } else {
        json!({"type": settings.sandbox})
    }
}

/// `file_system_sandbox_policy` of a turn context, where the sandbox policy does not say it all.
pub(crate) fn file_system_policy(settings: &Settings, profile: &Profile) -> Option<Value> {
    let entries = entry_records(settings, profile).filter(|_| writes_workspace(settings))?;
    Some(json!({"kind": "restricted", "entries": entries}))
}

/// `sandbox` of the turn metadata.
pub(crate) fn sandbox_kind(settings: &Settings) -> &'static str {
    match settings.sandbox.as_str() {
        "read-only" | "workspace-write" => "seccomp",
        _ => "none",
    }
}

/// What `Settings::closed_for_good` becomes where a client asks for the sandbox.
pub(crate) fn closed_for_good(settings: &Settings) -> Option<String> {
    writes_workspace(settings).then(|| format!("{}/.codex", settings.cwd))
}

/// Sandbox mode of a recorded `permission_profile`; `None` for one that may write.
pub(crate) fn recorded_sandbox(profile: &Value) -> Option<&'static str> {
    match profile["type"].as_str()? {
        "disabled" => Some("danger-full-access"),
        "managed" => {
            let entries = profile["file_system"]["entries"].as_array();
            let mut entries = entries.into_iter().flatten();
            let reads = entries.all(|entry| entry["access"] == "read");
            reads.then_some("read-only")
        }
        _ => None,
    }
}

fn writes_workspace(settings: &Settings) -> bool {
    settings.sandbox == "workspace-write"
}

/// What may be read or written.
struct Entry {
    access: &'static str,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Special(&'static str),
    Path(String),
    /// A path that need not exist.
    Closed(String),
}

/// The rules of a sandbox; `None` where there is none.
fn entries(settings: &Settings, profile: &Profile) -> Option<Vec<Entry>> {
    let read = |place| Entry {
        access: "read",
        place,
    };
    let write = |place| Entry {
        access: "write",
        place,
    };
    let cwd = &settings.cwd;
    match settings.sandbox.as_str() {
        "read-only" => Some(vec![read(Place::Special("root"))]),
        "workspace-write" => {
            let mut entries = vec![
                read(Place::Special("root")),
                write(Place::Path(cwd.clone())),
                write(Place::Special("slash_tmp")),
                write(Place::Special("tmpdir")),
            ];
            let later = profile.wide_permissions.then_some(CLOSED_LATER);
            let closed = CLOSED.into_iter().chain(later);
            entries.extend(closed.map(|name| read(Place::Closed(format!("{cwd}/{name}")))));
            entries.extend(
                settings
                    .closed_for_good
                    .clone()
                    .map(Place::Closed)
                    .map(read),
            );
            Some(entries)
        }
        _ => None,
    }
}

fn entry_records(settings: &Settings, profile: &Profile) -> Option<Vec<Value>> {
    let record = |Entry { access, place }| {
        let skips = profile.wide_permissions && matches!(place, Place::Closed(_));
        let path = match place {
            Place::Special(kind) => json!({"type": "special", "value": {"kind": kind}}),
            Place::Path(path) | Place::Closed(path) => json!({"type": "path", "path": path}),
        };
        let mut map = Map::new();
        map.insert("path".to_owned(), path);
        map.insert("access".to_owned(), json!(access));
        if skips {
            map.insert("missing_path_behavior".to_owned(), json!("skip"));
        }
        Value::Object(map)
    };
    Some(
        entries(settings, profile)?
            .into_iter()
            .map(record)
            .collect(),
    )
}
