//! What the scenarios cover: items, client events, rollout records, request fields, compaction
//! branches and faults, counted for each version from the goldens and from the scripted replies.
//!
//! A cell without a scenario needs an entry in `docs/coverage-gaps.toml` with one of three reasons.
//! An entry whose cell is not empty is a finding, too.

mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;

pub use rows::{of_golden, of_plan};

use crate::golden::versions::VERSIONS;

/// A row: what kind of thing, and which one.
pub type Row = (&'static str, String);

/// Why a cell is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The version has no such thing, or never sends it.
    CannotHappen,
    /// Seen only with a login.
    NeedsLogin,
    /// Behind a flag that no version ships.
    FlagNotShipped,
}

/// Cells that stay empty.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gap {
    /// Part of the table.
    part: String,
    /// Its rows.
    rows: Vec<String>,
    /// Version families.
    versions: Vec<String>,
    /// Why.
    reason: Reason,
    /// What shows it.
    note: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    gap: Vec<Gap>,
}

/// The counted table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    cells: BTreeMap<Row, BTreeMap<&'static str, usize>>,
}

impl Coverage {
    /// A table in which every known row stands, with nothing counted.
    pub fn new() -> Self {
        let mut cells = BTreeMap::new();
        for (part, names) in rows::KNOWN {
            for name in *names {
                cells.insert((*part, (*name).to_owned()), BTreeMap::new());
            }
        }
        Self { cells }
    }

    /// Counts one scenario on one version.
    pub fn count(&mut self, version: &'static str, rows: BTreeSet<Row>) {
        for row in rows {
            *self
                .cells
                .entry(row)
                .or_default()
                .entry(version)
                .or_default() += 1;
        }
    }

    /// The table as text, and what is wrong with it.
    pub fn render(&self, gaps: &str) -> (String, Vec<String>) {
        let mut findings = Vec::new();
        let file: File = toml::from_str(gaps).unwrap_or_else(|error| {
            findings.push(format!("docs/coverage-gaps.toml: {}", error.message()));
            File::default()
        });
        let mut text = String::new();
        let mut part = "";
        let mut met = BTreeSet::new();
        for ((of, name), counts) in &self.cells {
            if *of != part {
                part = of;
                let names: Vec<String> =
                    VERSIONS.iter().map(|v| format!("{:>7}", v.name)).collect();
                let _ = writeln!(text, "{part:<52}{}", names.concat());
            }
            let mut line = format!("  {name:<50}");
            for version in VERSIONS {
                let count = counts.get(version.name).copied().unwrap_or_default();
                let gap = file.gap.iter().position(|gap| {
                    gap.part == *of
                        && gap.rows.contains(name)
                        && gap.versions.iter().any(|known| known == version.name)
                });
                let cell = match (count, gap) {
                    (0, None) => {
                        findings.push(format!(
                            "{of} `{name}` on {}: no scenario and no reason in \
                             docs/coverage-gaps.toml",
                            version.name
                        ));
                        "?".to_owned()
                    }
                    (0, Some(gap)) => {
                        met.insert((gap, name.as_str(), version.name));
                        letter(file.gap[gap].reason).to_owned()
                    }
                    (count, Some(_)) => {
                        findings.push(format!(
                            "docs/coverage-gaps.toml: {of} `{name}` on {} has {count} scenarios",
                            version.name
                        ));
                        count.to_string()
                    }
                    (count, None) => count.to_string(),
                };
                let _ = write!(line, "{cell:>7}");
            }
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(
            text,
            "c cannot happen · l needs a login · f flag not shipped · ? unexplained"
        );
        findings.extend(unknown(&file, &self.cells));
        (text, findings)
    }
}

fn unknown(file: &File, cells: &BTreeMap<Row, BTreeMap<&'static str, usize>>) -> Vec<String> {
    let mut found = Vec::new();
    for gap in &file.gap {
        if gap.note.trim().is_empty() {
            found.push(format!(
                "docs/coverage-gaps.toml: the gap of `{}` has no note",
                gap.rows.join("`, `")
            ));
        }
        let known = |name: &String| cells.keys().any(|(of, row)| *of == gap.part && row == name);
        for name in gap.rows.iter().filter(|name| !known(name)) {
            let part = &gap.part;
            found.push(format!(
                "docs/coverage-gaps.toml: no row `{name}` of {part}"
            ));
        }
    }
    found
}

fn letter(reason: Reason) -> &'static str {
    match reason {
        Reason::CannotHappen => "c",
        Reason::NeedsLogin => "l",
        Reason::FlagNotShipped => "f",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(versions: &str) -> String {
        format!(
            "[[gap]]\npart = \"fault\"\nrows = [\"stall\"]\nversions = [{versions}]\n\
             reason = \"cannot_happen\"\nnote = \"seen\"\n"
        )
    }

    fn only_stall(counted: &[&'static str]) -> Coverage {
        let row = ("fault", "stall".to_owned());
        let mut table = Coverage::default();
        table.cells.insert(row.clone(), BTreeMap::new());
        for version in counted {
            table.count(version, [row.clone()].into());
        }
        table
    }

    #[test]
    fn an_empty_cell_needs_a_reason() {
        let table = only_stall(&["0.164", "0.171"]);
        assert_eq!(table.render("").1.len(), 1);
        let (text, findings) = table.render(&gap("\"0.144\""));
        assert_eq!(findings, [""; 0]);
        assert!(text.contains('c') && text.contains('1'), "{text}");
    }

    #[test]
    fn a_reason_for_a_full_cell_or_an_unknown_row_is_a_finding() {
        let table = only_stall(&["0.144", "0.164", "0.171"]);
        assert_eq!(table.render(&gap("\"0.144\"")).1.len(), 1);
        let typo = gap("\"0.144\"").replace("stall", "stalll");
        assert_eq!(table.render(&typo).1.len(), 1);
        let other = gap("\"0.144\"").replace("cannot_happen", "too_hard");
        assert_eq!(
            table.render(&other).1.len(),
            1,
            "the list of reasons is closed"
        );
    }
}
