//! Reads a scenario file: bytes to text to tree to types, then what makes sense.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use semver::Version;

use super::decode::decode;
use super::error::{Mark, Problem, ScenarioError};
use super::resolve;
use super::schema::Scenario;
use super::tree;
use super::validate::validate;
use crate::rollout_file::regular;

/// Largest scenario file in bytes. Longer texts come from generators.
pub const SCENARIO_BYTES_MAX: usize = 1024 * 1024;

/// The versions that a scenario is looked at for.
pub static VERSIONS: [Version; 3] = [
    Version::new(0, 144, 6),
    Version::new(0, 164, 0),
    Version::new(0, 171, 0),
];

/// A scenario that was read, with what its errors need.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Path below `scenarios/` without `.yaml`.
    pub id: String,
    /// File as the caller named it.
    pub file: String,
    /// Text of the file.
    pub source: String,
    /// The scenario as written.
    pub scenario: Scenario,
}

/// Reads one file. `rules` are the known rule ids; `None` does not look at them.
pub fn load_file(
    path: &Path,
    id: &str,
    rules: Option<&BTreeSet<String>>,
) -> Result<Loaded, Vec<ScenarioError>> {
    let file = path.display().to_string();
    match regular::read(path, SCENARIO_BYTES_MAX as u64 + 1) {
        Ok(bytes) => load_bytes(&file, id, &bytes, rules),
        Err(error) => {
            let problem = Problem::new(START, format!("cannot read the file: {error}"));
            let help = match error.kind() {
                ErrorKind::IsADirectory | ErrorKind::InvalidInput => "rename or remove it",
                ErrorKind::NotFound => "see that it, or what it links to, is there",
                _ => "see that you may read it",
            };
            Err(vec![problem.help(help).in_file(&file, "")])
        }
    }
}

const START: Mark = Mark { line: 1, column: 1 };

/// Reads the bytes of a file.
pub fn load_bytes(
    file: &str,
    id: &str,
    bytes: &[u8],
    rules: Option<&BTreeSet<String>>,
) -> Result<Loaded, Vec<ScenarioError>> {
    let source = text(bytes).map_err(|problem| vec![problem.in_file(file, "")])?;
    let placed = |problems: Vec<Problem>| {
        let mut errors: Vec<ScenarioError> = problems
            .into_iter()
            .map(|problem| problem.in_file(file, source))
            .collect();
        errors.sort_by_key(|error| (error.line, error.column));
        errors.dedup();
        errors
    };
    let tree = tree::parse(source).map_err(|problem| placed(vec![problem]))?;
    let scenario: Scenario = decode(&tree).map_err(&placed)?;
    let mut problems = validate(&scenario, rules);
    if problems.is_empty() {
        let plans = VERSIONS
            .iter()
            .map(|version| resolve::plan(&scenario, id, version));
        problems.extend(plans.filter_map(Result::err));
    }
    if !problems.is_empty() {
        return Err(placed(problems));
    }
    Ok(Loaded {
        id: id.to_owned(),
        file: file.to_owned(),
        source: source.to_owned(),
        scenario,
    })
}

fn text(bytes: &[u8]) -> Result<&str, Problem> {
    if bytes.len() > SCENARIO_BYTES_MAX {
        let what = "the file is too long";
        let why = format!("the limit is {SCENARIO_BYTES_MAX} bytes");
        let help = "write long texts as `{repeat: x, bytes: 80000}`";
        return Err(Problem::new(START, what).why(why).help(help));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned();
        let line = valid.matches('\n').count() + 1;
        let column = valid
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        Problem::new(Mark { line, column }, "not valid UTF-8").help("save the file as UTF-8")
    })?;
    if text
        .lines()
        .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
    {
        let help = "`turnproof new NAME` writes a scenario to start from";
        return Err(Problem::new(START, "the file is empty").help(help));
    }
    Ok(text)
}

/// Rule ids of `docs/rules.md`: the first cell of each table row that is a dotted id.
pub fn rule_ids(rules_md: &str) -> BTreeSet<String> {
    rules_md
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.split('|').next())
        .map(|cell| cell.trim().trim_matches('`'))
        .filter(|cell| {
            let word = |part: &str| {
                !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            };
            cell.contains('.') && cell.split('.').all(word)
        })
        .map(str::to_owned)
        .collect()
}
