//! Places and settings of a run: the Codex home, the workspaces, the config and the catalogue.
//!
//! Every path has a fixed length, because token numbers count the bytes of paths. Only quiet knobs
//! are set by default: they remove text and change no behaviour.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::install::hex;
use crate::driver::NoVerdict;
use crate::scenario::plan::{ConfigSpec, ModelSpec, Plan, TruncationMode};

/// Folder of every run.
const ROOT: &str = "/tmp/turnproof";
/// Hex digits that name a run.
const RUN_HEX_DIGITS: usize = 12;
/// Length of a workspace path: `/tmp/turnproof/<12 hex>/w<3 digits>`.
pub const WORKSPACE_PATH_BYTES: usize = ROOT.len() + 1 + RUN_HEX_DIGITS + "/w000".len();
/// Length of the path of a Codex home: `/tmp/turnproof/<12 hex>/home`.
pub const HOME_PATH_BYTES: usize = ROOT.len() + 1 + RUN_HEX_DIGITS + "/home".len();
/// Workspaces that fit into one run.
pub(crate) const WORKSPACES_MAX: u64 = 1000;
/// How often the folder of a run is tried to be removed, and the pause between.
const REMOVE_TRIES_MAX: usize = 20;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);
/// File in the folder of a run that its owner holds a lock on as long as it lives, and its name
/// before it is locked. It names the owner's process, for people.
const OWNER: &str = "owner";
const OWNER_UNLOCKED: &str = "owner.new";
/// The installation id of every run.
pub const INSTALLATION_ID: &str = "11111111-1111-4111-8111-111111111111";
/// Provider id in the config.
const PROVIDER: &str = "mock";
/// A base URL where nobody listens.
pub(crate) const UNREACHABLE: &str = "http://127.0.0.1:9/none/v1";
/// File of the compaction prompt, below the Codex home.
pub(crate) const PROMPT_FILE: &str = "compact_prompt.md";
/// Bytes of project docs that are read when a scenario asks for them.
const PROJECT_DOC_BYTES: i64 = 32 * 1024;

/// The two shapes of the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Before 0.164.
    Old,
    /// 0.164 and later, local builds included.
    New,
}

impl Family {
    pub(crate) fn of(version: &str) -> Self {
        let mut parts = version
            .split('.')
            .map(|part| part.parse::<u64>().unwrap_or(0));
        match (parts.next(), parts.next()) {
            (Some(0), Some(1..164)) => Self::Old,
            _ => Self::New,
        }
    }
}

/// The folder of one process; removed when dropped.
#[derive(Debug)]
pub(crate) struct RunDir {
    root: PathBuf,
    workspaces: AtomicU64,
    /// Held, never read: the lock on it goes with this process, however it ends.
    _owner: File,
}

impl RunDir {
    /// Makes a fresh folder, after those of dead processes were removed.
    pub(crate) fn create() -> Result<Self, NoVerdict> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let base = Path::new(ROOT);
        make_dir(base)?;
        remove_left_over(base);
        let nanos = SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_nanos();
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let seed = format!("{} {count} {nanos}", std::process::id());
        let name = hex(&Sha256::digest(seed))[..RUN_HEX_DIGITS].to_owned();
        let root = base.join(name);
        make_dir(&root)?;
        let run = Self {
            _owner: own(&root)?,
            root,
            workspaces: AtomicU64::new(0),
        };
        for folder in [&run.home(), &run.user_home()] {
            make_dir(folder)?;
        }
        write(&run.home().join("installation_id"), INSTALLATION_ID)?;
        Ok(run)
    }

    /// The Codex home.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The empty folder that is `HOME`.
    pub(crate) fn user_home(&self) -> PathBuf {
        self.root.join("user")
    }

    /// Writes the file of the compaction prompt.
    pub(crate) fn prompt_file(&self, text: &str) -> Result<(), NoVerdict> {
        write(&self.home().join(PROMPT_FILE), text)
    }

    /// The folder of the hook scripts.
    pub(crate) fn hooks(&self) -> Result<PathBuf, NoVerdict> {
        let folder = self.root.join("hooks");
        make_dir(&folder)?;
        Ok(folder)
    }

    /// A fresh workspace with these files; `None` when the run has no number left.
    pub(crate) fn workspace(
        &self,
        files: &[(String, String)],
    ) -> Result<Option<PathBuf>, NoVerdict> {
        let number = self.workspaces.fetch_add(1, Ordering::Relaxed);
        if number >= WORKSPACES_MAX {
            return Ok(None);
        }
        let workspace = self.root.join(format!("w{number:03}"));
        make_dir(&workspace)?;
        for (name, content) in files {
            let path = workspace.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(|error| failed("create", parent, &error))?;
            }
            write(&path, content)?;
        }
        Ok(Some(workspace))
    }

    /// Writes the config and the catalogue.
    pub(crate) fn configure(&self, config: &toml::Table, catalog: &Value) -> Result<(), NoVerdict> {
        let home = self.home();
        let text = toml::to_string(config)
            .map_err(|error| NoVerdict::CouldNotRun(format!("config.toml: {error}")))?;
        write(&home.join("config.toml"), &text)?;
        write(&home.join("catalog.json"), &catalog.to_string())
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // A process that was just killed may still write its last file.
        for _ in 0..REMOVE_TRIES_MAX {
            match fs::remove_dir_all(&self.root) {
                Ok(()) => return,
                Err(error) if error.kind() == ErrorKind::NotFound => return,
                Err(error) => {
                    tracing::debug!(%error, root = %self.root.display(), "not removed yet");
                    std::thread::sleep(REMOVE_PAUSE);
                }
            }
        }
        tracing::warn!(root = %self.root.display(), "not removed");
    }
}

/// How often the database in which a home keeps its threads names a word. Its pages hold texts as they
/// are, and what is written goes to the end of its log first.
pub(crate) fn named_in_state(home: &Path, word: &str) -> usize {
    let files = fs::read_dir(home).into_iter().flatten();
    let state = files.filter_map(Result::ok).filter(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with("state_") && (name.ends_with(".sqlite") || name.ends_with("-wal"))
    });
    let bytes = state.filter_map(|file| fs::read(file.path()).ok());
    bytes
        .map(|bytes| memchr::memmem::find_iter(&bytes, word.as_bytes()).count())
        .sum()
}

/// Takes the folder of a run for this process.
fn own(root: &Path) -> Result<File, NoVerdict> {
    let fresh = root.join(OWNER_UNLOCKED);
    let mut file = File::create(&fresh).map_err(|error| failed("create", &fresh, &error))?;
    file.lock()
        .map_err(|error| failed("lock", &fresh, &error))?;
    writeln!(file, "{}", std::process::id()).map_err(|error| failed("write", &fresh, &error))?;
    // Under its name nobody ever sees it without a lock, unless its owner is gone.
    fs::rename(&fresh, root.join(OWNER)).map_err(|error| failed("rename", &fresh, &error))?;
    Ok(file)
}

/// Removes folders whose owner is gone, however it went. A number of a process may be given to another
/// one; a lock is not.
fn remove_left_over(base: &Path) {
    for entry in fs::read_dir(base)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
    {
        let Ok(owner) = File::open(entry.path().join(OWNER)) else {
            continue;
        };
        if owner.try_lock().is_ok() {
            // Somebody else may remove it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn make_dir(path: &Path) -> Result<(), NoVerdict> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(failed("create", path, &error)),
    }
    // The mask of this process does not count.
    fs::set_permissions(path, Permissions::from_mode(0o700))
        .map_err(|error| failed("set the mode of", path, &error))
}

fn write(path: &Path, text: &str) -> Result<(), NoVerdict> {
    fs::write(path, text).map_err(|error| failed("write", path, &error))?;
    fs::set_permissions(path, Permissions::from_mode(0o600))
        .map_err(|error| failed("set the mode of", path, &error))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> NoVerdict {
    NoVerdict::CouldNotRun(format!("could not {what} {}: {error}", path.display()))
}

/// The slug of a model: a hash of its spec, always twelve bytes.
pub fn slug(model: &ModelSpec) -> String {
    format!("m-{}", &hex(&Sha256::digest(format!("{model:?}")))[..10])
}

/// The catalogue of all models of some plans.
pub(crate) fn catalog<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Value {
    let mut entries: Vec<Value> = Vec::new();
    for model in plans.into_iter().flat_map(|plan| &plan.models) {
        let entry = catalog_entry(model);
        if !entries.iter().any(|known| known["slug"] == entry["slug"]) {
            entries.push(entry);
        }
    }
    json!({ "models": entries })
}

fn catalog_entry(model: &ModelSpec) -> Value {
    let slug = slug(model);
    let mode = match model.truncation.mode {
        TruncationMode::Bytes => "bytes",
        TruncationMode::Tokens => "tokens",
    };
    let mut entry = json!({
        "slug": slug,
        "display_name": slug,
        "description": "scenario model",
        "default_reasoning_level": model.default_reasoning_level,
        "supported_reasoning_levels": [],
        "shell_type": "shell_command",
        "visibility": "list",
        "supported_in_api": true,
        "priority": 1,
        "additional_speed_tiers": [],
        "service_tiers": [],
        "availability_nux": null,
        "upgrade": null,
        "base_instructions": model.base_instructions,
        "model_messages": null,
        "include_skills_usage_instructions": false,
        "supports_reasoning_summaries": model.supports_reasoning_summaries,
        "default_reasoning_summary": "none",
        "support_verbosity": false,
        "default_verbosity": null,
        "apply_patch_tool_type": null,
        "web_search_tool_type": "text",
        "truncation_policy": {"mode": mode, "limit": model.truncation.limit},
        "supports_parallel_tool_calls": model.supports_parallel_tool_calls,
        "supports_image_detail_original": false,
        "context_window": model.context_window,
        "max_context_window": model.max_context_window,
        "effective_context_window_percent": model.effective_context_window_percent,
        "experimental_supported_tools": [],
        "input_modalities": model.input_modalities,
        "supports_search_tool": false,
        "use_responses_lite": false,
        "auto_compact_token_limit": model.auto_compact_token_limit,
    });
    let optional = model
        .comp_hash
        .iter()
        .map(|hash| ("comp_hash".to_owned(), json!(hash)));
    for (key, value) in optional.chain(model.extra.iter().cloned()) {
        entry[key] = value;
    }
    entry
}

/// The quiet config of a process.
pub(crate) fn quiet_config(family: Family, home: &Path, model: &str) -> toml::Table {
    let mut settings = vec![
        ("model", json!(model)),
        ("model_provider", json!(PROVIDER)),
        ("approval_policy", json!("never")),
        ("sandbox_mode", json!("danger-full-access")),
        ("check_for_update_on_startup", json!(false)),
        ("include_permissions_instructions", json!(false)),
        ("include_apps_instructions", json!(false)),
        ("include_collaboration_mode_instructions", json!(false)),
        ("include_environment_context", json!(false)),
        ("project_doc_max_bytes", json!(0)),
        ("web_search", json!("disabled")),
        ("suppress_unstable_features_warning", json!(true)),
        ("allow_login_shell", json!(false)),
        ("model_catalog_json", json!(home.join("catalog.json"))),
        ("analytics.enabled", json!(false)),
        ("model_providers.mock.name", json!("mock")),
        // Never asked: every thread has a base URL of its own.
        ("model_providers.mock.base_url", json!(UNREACHABLE)),
        ("model_providers.mock.wire_api", json!("responses")),
        ("model_providers.mock.request_max_retries", json!(0)),
        ("model_providers.mock.stream_max_retries", json!(0)),
        ("model_providers.mock.supports_websockets", json!(false)),
        ("history.persistence", json!("none")),
        ("skills.include_instructions", json!(false)),
        ("skills.bundled.enabled", json!(false)),
        (
            "tools.experimental_request_user_input.enabled",
            json!(false),
        ),
    ];
    let mut features = vec![
        "goals",
        "apps",
        "plugins",
        "shell_snapshot",
        "shell_tool",
        "hooks",
        "enable_request_compression",
    ];
    match family {
        Family::Old => {
            settings.push(("orchestrator.skills.enabled", json!(false)));
            features.push("multi_agent");
        }
        Family::New => {
            settings.push(("include_environment_context_time", json!(false)));
            settings.push(("agents.enabled", json!(false)));
            features.push("view_image");
        }
    }
    let mut table = toml::Table::new();
    for (key, value) in settings {
        set(&mut table, key, &value);
    }
    for feature in features {
        set(&mut table, &format!("features.{feature}"), &json!(false));
    }
    table
}

/// Sets a dotted key; `null` sets nothing, TOML has no such value.
pub(crate) fn set(table: &mut toml::Table, key: &str, value: &Value) {
    if let Ok(value) = toml::Value::try_from(value) {
        set_value(table, key, value);
    }
}

fn set_value(table: &mut toml::Table, key: &str, value: toml::Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((head, rest)) => {
            let inner = table
                .entry(head)
                .or_insert_with(|| toml::Value::Table(toml::Table::new()));
            if let toml::Value::Table(inner) = inner {
                set_value(inner, rest, value);
            }
        }
    }
}

/// The config keys of one thread, dotted, beyond the quiet config.
///
/// The strict config refuses unknown keys, so what the older family does not know is left out;
/// without the strict config it would ignore them.
pub(crate) fn thread_config(family: Family, plan: &Plan, base_url: &str) -> Map<String, Value> {
    let config = &plan.config;
    let mut keys = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            keys.insert(key.to_owned(), value);
        }
    };
    let text =
        |value: &str, default: &str| (!value.is_empty() && value != default).then(|| json!(value));
    put("model_providers.mock.base_url", Some(json!(base_url)));
    put(
        "model_providers.mock.name",
        text(&config.provider_name, "mock"),
    );
    let count = |count: u64| (count > 0).then(|| json!(count));
    put(
        "model_providers.mock.request_max_retries",
        count(config.request_max_retries),
    );
    put(
        "model_providers.mock.stream_max_retries",
        count(config.stream_max_retries),
    );
    let idle = config.stream_idle_timeout_ms.map(|limit| json!(limit));
    put("model_providers.mock.stream_idle_timeout_ms", idle);
    let on = |flag: bool| flag.then(|| json!(true));
    put(
        "model_providers.mock.supports_websockets",
        on(config.websockets),
    );
    put(
        "include_environment_context",
        on(config.environment_context),
    );
    put(
        "include_permissions_instructions",
        on(config.permissions_instructions),
    );
    put(
        "project_doc_max_bytes",
        config.project_doc.then(|| json!(PROJECT_DOC_BYTES)),
    );
    put(
        "sandbox_mode",
        text(&config.sandbox_mode, "danger-full-access"),
    );
    put("approval_policy", text(&config.approval_policy, "never"));
    let number = |value: Option<i64>| value.map(|value| json!(value));
    put(
        "model_auto_compact_token_limit",
        number(config.auto_compact_token_limit),
    );
    let scope = config
        .auto_compact_token_limit_scope
        .as_ref()
        .map(|scope| json!(scope));
    put("model_auto_compact_token_limit_scope", scope);
    put("model_context_window", number(config.context_window));
    put(
        "compact_prompt",
        config.compact_prompt.as_ref().map(|prompt| json!(prompt)),
    );
    put(
        "tool_output_token_limit",
        config.tool_output_token_limit.map(|limit| json!(limit)),
    );
    let file = config.compact_prompt_file.as_ref();
    put(
        "experimental_compact_prompt_file",
        file.map(|_| json!(PROMPT_FILE)),
    );
    for (name, value) in &config.features {
        put(&format!("features.{name}"), Some(value.clone()));
    }
    for (key, value) in &config.extra {
        put(key, Some(value.clone()));
    }
    if family == Family::New {
        newer_keys(config, &mut keys);
    }
    keys
}

/// The keys that only the newer family knows.
fn newer_keys(config: &ConfigSpec, keys: &mut Map<String, Value>) {
    let flags = [
        ("features.instant_interrupt", config.instant_interrupt),
        (
            "features.unbounded_connection_retries",
            config.unbounded_connection_retries,
        ),
    ];
    for (key, flag) in flags {
        if let Some(flag) = flag {
            keys.insert(key.to_owned(), json!(flag));
        }
    }
    if let Some(percent) = config.post_turn_compact_threshold_percent {
        keys.insert(
            "model_post_turn_compact_threshold_percent".to_owned(),
            json!(percent),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_a_fixed_length_and_go_when_dropped() {
        let run = RunDir::create().expect("a run folder");
        let files = [("a/b.txt".to_owned(), "x".to_owned())];
        let workspace = run.workspace(&files).expect("a folder").expect("a number");
        assert_eq!(workspace.as_os_str().len(), WORKSPACE_PATH_BYTES);
        assert_eq!(run.home().as_os_str().len(), HOME_PATH_BYTES);
        assert_eq!(
            fs::read_to_string(workspace.join("a/b.txt")).expect("the file"),
            "x"
        );
        let mode = fs::metadata(run.home())
            .expect("the home")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        let root = run.root.clone();
        drop(run);
        assert!(!root.exists());
    }

    #[test]
    fn what_the_state_of_a_home_names_is_counted_over_its_files() {
        let home = tempfile::tempdir().expect("a folder");
        for (name, text) in [
            ("state_5.sqlite", "\0m-1\0"),
            ("state_5.sqlite-wal", "m-1 m-2 m-1"),
            ("logs_2.sqlite", "m-1"),
        ] {
            fs::write(home.path().join(name), text).expect("written");
        }
        assert_eq!(named_in_state(home.path(), "m-1"), 3);
        assert_eq!(named_in_state(home.path(), "m-3"), 0);
        assert_eq!(named_in_state(&home.path().join("none"), "m-1"), 0);
    }

    #[test]
    fn a_folder_stays_as_long_as_its_owner_lives() {
        let base = tempfile::tempdir().expect("a folder");
        let [living, left, foreign] = ["living", "left", "foreign"].map(|name| {
            let root = base.path().join(name);
            make_dir(&root).expect("a folder");
            root
        });
        let lock = own(&living).expect("owned");
        drop(own(&left).expect("owned"));
        remove_left_over(base.path());
        assert!(living.exists() && foreign.exists() && !left.exists());
        drop(lock);
        remove_left_over(base.path());
        assert!(!living.exists() && foreign.exists());
    }

    #[test]
    fn versions_fall_into_two_families() {
        assert_eq!(Family::of("0.144.6"), Family::Old);
        for new in ["0.164.0", "0.171.0", "0.0.0", "1.2.3"] {
            assert_eq!(Family::of(new), Family::New, "{new}");
        }
    }

    #[test]
    fn dotted_keys_become_tables() {
        let mut table = toml::Table::new();
        set(&mut table, "a.b.c", &json!(1));
        set(&mut table, "a.b.d", &json!({"e": true}));
        set(&mut table, "z", &json!("x"));
        assert_eq!(
            toml::to_string(&table).expect("serialises"),
            "z = \"x\"\n\n[a.b]\nc = 1\n\n[a.b.d]\ne = true\n"
        );
    }
}
