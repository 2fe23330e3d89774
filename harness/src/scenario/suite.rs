//! The scenario files of a checkout, found at run time, in order of their ids.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobSetBuilder};
use walkdir::WalkDir;

use super::error::ScenarioError;
use super::load::{Loaded, load_file, rule_ids};

/// Folder of scenarios that must fail.
const CANARY: &str = "canary/";

/// One scenario file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SuiteFile {
    /// Path below `scenarios/` without `.yaml`, with `/`.
    pub id: String,
    /// The file.
    pub path: PathBuf,
}

impl SuiteFile {
    /// Whether the scenario is one that must fail.
    pub fn is_canary(&self) -> bool {
        self.id.starts_with(CANARY)
    }

    /// Area of the scenario: its id without the last part.
    pub fn area(&self) -> &str {
        self.id.rsplit_once('/').map_or("", |(area, _)| area)
    }
}

/// The files below `scenarios/` and the rules of `docs/rules.md`.
#[derive(Debug, Clone)]
pub struct Suite {
    /// Files in order of their ids; whatever goes by the name of one, for it is named when it is read.
    pub files: Vec<SuiteFile>,
    /// Known rule ids; `None` where the checkout has no `docs/rules.md`.
    pub rules: Option<BTreeSet<String>>,
    /// Root of the checkout.
    pub root: PathBuf,
}

/// Why no suite was found, or why a selection is empty.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// No folder of scenarios.
    #[error("find a `scenarios` folder in {0} or above it")]
    NoFolder(PathBuf),
    /// A folder without a scenario: nothing passes by not running.
    #[error("find a scenario in {0}: `turnproof new NAME` writes one")]
    Empty(PathBuf),
    /// A folder that cannot be read.
    #[error("read {0}: {1}")]
    Read(PathBuf, String),
    /// A pattern that is none.
    #[error("`{0}` is no pattern: {1}")]
    Pattern(String, String),
    /// A pattern without a match.
    #[error("`{0}` selects no scenario{1}")]
    NoMatch(String, String),
}

impl SuiteError {
    /// Whether what was asked for is wrong, and not the checkout.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Pattern(..) | Self::NoMatch(..))
    }
}

impl Suite {
    /// Finds the checkout at `start` or above it.
    pub fn find(start: &Path) -> Result<Self, SuiteError> {
        let root = start
            .ancestors()
            .find(|folder| folder.join("scenarios").is_dir());
        root.map_or_else(|| Err(SuiteError::NoFolder(start.to_owned())), Self::open)
    }

    /// Reads the checkout at `root`.
    pub fn open(root: &Path) -> Result<Self, SuiteError> {
        let folder = root.join("scenarios");
        let mut files = Vec::new();
        for entry in WalkDir::new(&folder) {
            let entry =
                entry.map_err(|error| SuiteError::Read(folder.clone(), error.to_string()))?;
            let path = entry.into_path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
                && let Ok(below) = path.strip_prefix(&folder)
            {
                let id = below
                    .with_extension("")
                    .to_string_lossy()
                    .replace('\\', "/");
                files.push(SuiteFile { id, path });
            }
        }
        files.sort();
        let rules = std::fs::read_to_string(root.join("docs/rules.md")).ok();
        Ok(Self {
            files,
            rules: rules.map(|text| rule_ids(&text)),
            root: root.to_owned(),
        })
    }

    /// Files whose ids match one of the patterns (an id, a folder, a glob); all without a pattern.
    /// A pattern that selects nothing is an error.
    pub fn select(&self, patterns: &[String]) -> Result<Vec<&SuiteFile>, SuiteError> {
        if patterns.is_empty() {
            if self.files.is_empty() {
                return Err(SuiteError::Empty(self.root.join("scenarios")));
            }
            return Ok(self.files.iter().collect());
        }
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let text = pattern
                .trim_start_matches("scenarios/")
                .trim_end_matches('/');
            let text = text.strip_suffix(".yaml").unwrap_or(text);
            let mut globs = GlobSetBuilder::new();
            for form in [text.to_owned(), format!("{text}/**")] {
                let glob = Glob::new(&form)
                    .map_err(|error| SuiteError::Pattern(pattern.clone(), error.to_string()))?;
                set.add(glob.clone());
                globs.add(glob);
            }
            let globs = globs
                .build()
                .map_err(|error| SuiteError::Pattern(pattern.clone(), error.to_string()))?;
            if !self.files.iter().any(|file| globs.is_match(&file.id)) {
                let ids = self.files.iter().map(|file| file.id.as_str());
                let near = super::error::nearest(text, ids);
                let near = near
                    .map(|near| format!("; did you mean `{near}`?"))
                    .unwrap_or_default();
                return Err(SuiteError::NoMatch(pattern.clone(), near));
            }
        }
        let set = set
            .build()
            .map_err(|error| SuiteError::Pattern(String::new(), error.to_string()))?;
        Ok(self
            .files
            .iter()
            .filter(|file| set.is_match(&file.id))
            .collect())
    }

    /// Reads one file of the suite.
    pub fn load(&self, file: &SuiteFile) -> Result<Loaded, Vec<ScenarioError>> {
        load_file(&file.path, &file.id, self.rules.as_ref())
    }
}
