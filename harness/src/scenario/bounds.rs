//! Values with bounds: what parses, but no client and no server could take.

use std::borrow::Cow;
use std::path::{Component, Path};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::error::Problem;
use super::schema::Scenario;

/// Most retries of a request or of a stream that a scenario may ask for. With the binary's waits,
/// which double each time, more would take hours.
pub const RETRIES_MAX: u64 = 12;

/// Most requests in a row that one reply may answer.
pub const ATTEMPTS_MAX: usize = 10_000;

/// A number of retries, at most [`RETRIES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub struct Retries(pub u64);

impl TryFrom<u64> for Retries {
    type Error = String;
    fn try_from(retries: u64) -> Result<Self, String> {
        if retries <= RETRIES_MAX {
            return Ok(Self(retries));
        }
        Err(format!(
            "{retries} retries are more than {RETRIES_MAX}: the waits between them double each time"
        ))
    }
}

impl JsonSchema for Retries {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Retries".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": RETRIES_MAX})
    }
}

/// A reasoning summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Summary {
    /// As the model likes.
    Auto,
    /// A short one.
    Concise,
    /// A long one.
    Detailed,
    /// None at all.
    None,
}

impl Summary {
    /// The word of the format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Concise => "concise",
            Self::Detailed => "detailed",
            Self::None => "none",
        }
    }
}

/// An HTTP status that ends a request: 200 to 599, and 101 for a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u16")]
pub struct Status(pub u16);

impl TryFrom<u16> for Status {
    type Error = String;
    fn try_from(status: u16) -> Result<Self, String> {
        if status == 101 || (200..600).contains(&status) {
            return Ok(Self(status));
        }
        Err(format!(
            "{status} is no status of an answer: 200 to 599, or 101 for a handshake"
        ))
    }
}

impl JsonSchema for Status {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Status".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "integer", "minimum": 200, "maximum": 599}, {"const": 101}
        ]})
    }
}

/// A path below the workspace, with `/`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Below(pub String);

impl TryFrom<String> for Below {
    type Error = String;
    fn try_from(path: String) -> Result<Self, String> {
        match below(&path) {
            Ok(()) => Ok(Self(path)),
            Err(why) => Err(format!("`{path}` is no path below the workspace: {why}")),
        }
    }
}

impl JsonSchema for Below {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Below".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

fn below(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("it is empty");
    }
    if path.contains('\0') {
        return Err("it holds a NUL");
    }
    for part in Path::new(path).components() {
        match part {
            Component::Normal(_) => {}
            Component::CurDir => return Err("it has a `.`"),
            Component::ParentDir => return Err("it has a `..`"),
            Component::RootDir | Component::Prefix(_) => return Err("it is absolute"),
        }
    }
    Ok(())
}

/// Files that cannot all be written.
pub(super) fn files(scenario: &Scenario) -> Vec<Problem> {
    let mut found = Vec::new();
    let files = &scenario.files.0;
    for (index, (path, content)) in files.iter().enumerate() {
        if let Err(why) = below(path) {
            let what = format!("`{path}` is no path below the workspace");
            let help = "a file lies below the workspace: `docs/AGENTS.md`";
            found.push(Problem::new(content.at, what).why(why).help(help));
            continue;
        }
        let inside =
            |other: &str| Path::new(path).starts_with(other) || Path::new(other).starts_with(path);
        if let Some((other, _)) = files[..index]
            .iter()
            .find(|(other, _)| !other.is_empty() && inside(other))
        {
            let what = format!("`{path}` and `{other}` cannot both be files");
            found.push(Problem::new(content.at, what).help("rename one of the two"));
        }
    }
    found
}

/// Headers that no server could send.
pub(super) fn header(name: &str, value: &str) -> Result<(), String> {
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(format!("`{}` is no name of a header", name.escape_debug()));
    }
    if http::HeaderValue::from_str(value).is_err() {
        let shown = value.escape_debug();
        return Err(format!("header `{name}`: `{shown}` is not visible ASCII"));
    }
    let framing = [
        "connection",
        "content-length",
        "transfer-encoding",
        "upgrade",
    ];
    if framing
        .iter()
        .any(|framing| name.eq_ignore_ascii_case(framing))
    {
        return Err(format!("header `{name}` belongs to the server itself"));
    }
    Ok(())
}

/// Keys of the config that keep a real binary on this machine and asking the mock.
const OWN_KEYS: [&str; 7] = [
    "analytics",
    "check_for_update_on_startup",
    "model",
    "model_catalog_json",
    "model_provider",
    "model_providers.mock.base_url",
    "model_providers.mock.wire_api",
];

/// Keys under `config.extra` that the harness sets itself.
pub(super) fn extra(scenario: &Scenario) -> Vec<Problem> {
    let own = |key: &str| {
        OWN_KEYS.iter().any(|own| {
            let rest = key.strip_prefix(own);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let keys = scenario.config.extra.0.iter();
    keys.filter(|(key, _)| own(key))
        .map(|(key, value)| {
            let what = format!("`{key}` is set by the harness itself");
            let help = "models stand under `models:`, the provider's name is `provider_name:`";
            Problem::new(value.at, what).help(help)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_workspace() {
        assert_eq!(below("docs/AGENTS.md"), Ok(()));
        for (path, why) in [
            ("", "it is empty"),
            ("/etc/passwd", "it is absolute"),
            ("../x", "it has a `..`"),
            ("a/../../x", "it has a `..`"),
            ("./x", "it has a `.`"),
            ("a\0b", "it holds a NUL"),
        ] {
            assert_eq!(below(path), Err(why), "{path:?}");
        }
    }

    #[test]
    fn a_header_can_be_sent() {
        assert_eq!(header("x-request-id", "a b"), Ok(()));
        assert!(header("bad name", "x").is_err());
        assert!(header("x", "a\r\nb: c").is_err());
        assert!(header("Content-Length", "5").is_err());
    }
}
