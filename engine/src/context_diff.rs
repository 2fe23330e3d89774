//! What the model has to be told anew: the sections of the context that differ from the baseline.
//!
//! The world state decides; on 0.144 the turn context does for the permissions. What the records
//! do not say counts as different (history.md §6).

use serde_json::{Map, Value};

use crate::context::{self, Fragment};
use crate::history::History;
use crate::items::Item;
use crate::planted::Planted;
use crate::profile::Profile;
use crate::session::Baseline;
use crate::settings::{Model, Settings};

/// Says of instructions of AGENTS.md that others came before them.
const REPLACED: &str =
    "These AGENTS.md instructions replace all previously provided AGENTS.md instructions.";
/// Takes the instructions of AGENTS.md back.
const WITHDRAWN: &str = "The previously provided AGENTS.md instructions no longer apply.";

/// What a context is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told<'a> {
    /// Settings and world state that the model was told.
    pub(crate) baseline: &'a Baseline,
    /// What stands in the history.
    pub(crate) history: &'a History,
    /// The model in force, where the context was last told of another one.
    pub(crate) switched: Option<&'a Model>,
}

/// Messages of what differs. A new model is announced in a message of its own where it does not
/// repeat the permissions.
pub(crate) fn diff(told: Told<'_>, now: &Settings, profile: &Profile) -> Vec<Item> {
    if profile.plants(Planted::ChangeUntold) {
        return Vec::new();
    }
    let switch = told.switched.map(context::model_switch_fragment);
    let permissions = permissions(told, now, profile);
    let document = document(told, now);
    let environment = environment(&told.baseline.state, now, profile);
    let mut groups: [Vec<Fragment>; 2] = [switch.into_iter().collect(), Vec::new()];
    if profile.model_switch_repeats_permissions {
        groups[0].extend(permissions.into_iter().chain(document).chain(environment));
    } else {
        groups[1].extend(document.into_iter().chain(permissions).chain(environment));
    }
    groups
        .iter()
        .flat_map(|group| context::messages(group))
        .collect()
}

fn permissions(told: Told<'_>, now: &Settings, profile: &Profile) -> Option<Fragment> {
    let fragment = context::permissions_fragment(now, profile)?;
    let stale = if profile.permissions_by_turn_context {
        let repeated = told.switched.is_some() && profile.model_switch_repeats_permissions;
        repeated || told.baseline.permissions.differ(&now.permissions(profile))
    } else {
        let known = &told.baseline.state;
        let hash = known.get("permissions").map(|told| &told["instructions"]);
        let current = context::permissions_hash(&fragment);
        hash.and_then(Value::as_str) != Some(&current)
            || !told.history.items().iter().any(context::tells_permissions)
    };
    stale.then_some(fragment)
}

/// AGENTS.md, whole or taken back. Where no world state says what was told, the history does.
fn document(told: Told<'_>, now: &Settings) -> Option<Fragment> {
    let known = told.baseline.state.get("agents_md");
    let before = match known {
        Some(Value::Object(section)) => !section.is_empty(),
        Some(_) => true,
        None => told.history.items().iter().any(context::is_project_doc),
    };
    let Some((folder, text)) = &now.project_doc else {
        let title = "# AGENTS.md instructions";
        return before.then(|| context::project_doc_fragment(title, WITHDRAWN));
    };
    let same =
        known.is_some_and(|section| section["directory"] == **folder && section["text"] == **text);
    if same {
        return None;
    }
    let title = context::project_doc_title(folder);
    let body = if before {
        format!("{REPLACED}\n\n{text}")
    } else {
        text.clone()
    };
    Some(context::project_doc_fragment(&title, &body))
}

/// The environment: whole where folder or shell differ, else without them.
fn environment(known: &Map<String, Value>, now: &Settings, profile: &Profile) -> Option<Fragment> {
    let current = context::environments(now, profile);
    let before = known.get("environments").unwrap_or(&Value::Null);
    let places = |section: &Value| {
        let local = &section["environments"]["local"];
        (local["cwd"].clone(), local["shell"].clone())
    };
    let moved = places(before) != places(&current);
    let differs = |key: &str| before[key] != current[key];
    let changed = ["current_date", "timezone", "filesystem"]
        .into_iter()
        .any(differs);
    if !moved && !changed {
        return None;
    }
    context::environment_fragment(now, profile, moved)
}
