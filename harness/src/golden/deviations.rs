//! `golden/deviations.toml`: known differences of a subject from its golden, each with a reason.
//!
//! `ours` is a gap of our engine. `upstream` is a fault of the real binary that our engine does not
//! repeat; it is allowed only where the named checker fires on the real golden. An entry that no
//! longer differs is an error.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use serde::Deserialize;
use toml::Spanned;

use super::compare::Difference;
use super::versions::{Arm, Subject, VERSIONS};
use crate::recording::Finding;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// Scenario id.
    pub case: String,
    /// Subject that differs.
    pub subject: String,
    /// Pointer of the difference, or of a place above it.
    pub pointer: String,
    /// Why.
    pub reason: String,
    /// Whose gap it is.
    pub owner: Owner,
    /// Checker that fires on the real golden; needed for `upstream`.
    pub checker: Option<String>,
}

/// Whose gap a deviation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// Our engine.
    Ours,
    /// The real binary.
    Upstream,
}

/// A checker that real versions trip: listed with its reason, never switched off. Every case has to
/// fire on every version named here that runs it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Violation {
    /// Checker id, for instance `pairing`.
    pub checker: String,
    /// Rule that says what the versions do, from `docs/rules.md`.
    pub rule: String,
    /// Version families; their engine profiles repeat the fault.
    pub versions: Vec<String>,
    /// Scenarios that trigger it.
    pub cases: Vec<String>,
    /// What the versions do, and what would be right.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    deviation: Vec<Spanned<Deviation>>,
    #[serde(default)]
    violation: Vec<Spanned<Violation>>,
}

/// The entries with their lines, and which of them were met.
#[derive(Debug, Default)]
pub struct Deviations {
    entries: Vec<(usize, Deviation)>,
    violations: Vec<(usize, Violation)>,
    used: Mutex<BTreeSet<usize>>,
    ran: Mutex<BTreeSet<(String, String)>>,
}

/// 1-based line of a byte offset.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text[..text.floor_char_boundary(offset)]
        .matches('\n')
        .count()
        + 1
}

impl Deviations {
    /// Reads the file; errors begin with `golden/deviations.toml:LINE:`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |s| line_of(text, s.start));
            format!("golden/deviations.toml:{line}: {}", e.message())
        })?;
        let mut entries = Vec::new();
        for spanned in file.deviation {
            let line = line_of(text, spanned.span().start);
            let entry = spanned.into_inner();
            let wrong = if entry.reason.trim().is_empty() {
                Some("a deviation needs a reason")
            } else if entry.owner == Owner::Upstream && entry.checker.is_none() {
                Some("an upstream deviation names the checker that fires on the real golden")
            } else if entry.owner == Owner::Ours && entry.checker.is_some() {
                Some("`checker` belongs to upstream deviations")
            } else if !entry.pointer.starts_with('/') {
                Some("a pointer begins with `/wire`, `/rollout` or `/events`")
            } else {
                match Subject::parse(&entry.subject) {
                    Err(_) => Some("the subject is none: `engine@0.171` for instance"),
                    Ok(subject) if subject.arm != Arm::Engine => {
                        Some("a real binary has no deviation: its recording is the golden")
                    }
                    Ok(_) => None,
                }
            };
            if let Some(message) = wrong {
                return Err(format!("golden/deviations.toml:{line}: {message}"));
            }
            entries.push((line, entry));
        }
        let violations = file.violation.into_iter();
        let violations = violations.map(|v| (line_of(text, v.span().start), v.into_inner()));
        let violations: Vec<(usize, Violation)> = violations.collect();
        for (line, known) in &violations {
            if let Some(message) = wrong_violation(known) {
                return Err(format!("golden/deviations.toml:{line}: {message}"));
            }
        }
        Ok(Self {
            entries,
            violations,
            ..Self::default()
        })
    }

    /// The known violations with their lines.
    pub fn violations(&self) -> &[(usize, Violation)] {
        &self.violations
    }

    /// Takes out the findings of checkers that are known for this case and version. A listed
    /// violation that no longer fires is a finding itself.
    pub fn known_violations(
        &self,
        case: &str,
        subject: &Subject,
        mut findings: Vec<Finding>,
    ) -> Vec<Finding> {
        let version = subject.family().name;
        // An engine with the faults mended is held to the strict laws.
        let mended = subject.name.ends_with("+fixed");
        for (line, known) in &self.violations {
            let named = known.cases.iter().any(|known| known == case)
                && known.versions.iter().any(|known| known == version);
            if !named || mended {
                continue;
            }
            let id = format!("checker.{}", known.checker);
            let before = findings.len();
            findings.retain(|finding| finding.id != id);
            if findings.len() == before {
                let message =
                    format!("golden/deviations.toml:{line}: {id} no longer fires: remove it");
                findings.push(Finding {
                    id: "golden.violation".to_owned(),
                    message,
                });
            }
        }
        findings
    }

    /// Takes out the differences that are known; says which entries explained them.
    pub fn apply(
        &self,
        case: &str,
        subject: &str,
        differences: Vec<Difference>,
    ) -> (Vec<Difference>, Vec<&Deviation>) {
        self.ran
            .lock()
            .insert((case.to_owned(), subject.to_owned()));
        let mut met = Vec::new();
        let rest = differences
            .into_iter()
            .filter(|difference| {
                let hit = self.entries.iter().enumerate().find(|(_, (_, entry))| {
                    entry.case == case
                        && entry.subject == subject
                        && covers(&entry.pointer, &difference.change.pointer)
                });
                if let Some((index, (_, entry))) = hit {
                    self.used.lock().insert(index);
                    met.push(entry);
                }
                hit.is_none()
            })
            .collect();
        met.dedup();
        (rest, met)
    }

    /// Entries whose case ran and that met no difference.
    pub fn unused(&self) -> Vec<String> {
        let (used, ran) = (self.used.lock(), self.ran.lock());
        self.entries
            .iter()
            .enumerate()
            .filter(|(index, (_, entry))| {
                !used.contains(index) && ran.contains(&(entry.case.clone(), entry.subject.clone()))
            })
            .map(|(_, (line, entry))| {
                format!(
                    "golden/deviations.toml:{line}: {} on {} no longer differs at {}: remove it",
                    entry.case, entry.subject, entry.pointer
                )
            })
            .collect()
    }

    /// Entries of scenarios that are none.
    pub fn unknown_cases(&self, ids: &BTreeSet<&str>) -> Vec<String> {
        let entries = self.entries.iter();
        let entries = entries.map(|(line, entry)| (*line, entry.case.as_str()));
        let violations = self.violations.iter();
        let violations = violations
            .flat_map(|(line, known)| known.cases.iter().map(|case| (*line, case.as_str())));
        entries
            .chain(violations)
            .filter(|(_, case)| !ids.contains(case))
            .map(|(line, case)| format!("golden/deviations.toml:{line}: unknown scenario `{case}`"))
            .collect()
    }

    /// Number of entries by owner.
    pub fn count(&self, owner: Owner) -> usize {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.owner == owner)
            .count()
    }
}

/// What is wrong with a violation by itself.
fn wrong_violation(known: &Violation) -> Option<String> {
    let checkers = crate::check::all();
    if !checkers.iter().any(|checker| checker.id == known.checker) {
        return Some(format!("no checker is called `{}`", known.checker));
    }
    let families: Vec<&str> = VERSIONS.iter().map(|version| version.name).collect();
    let unknown = |name: &&String| !families.contains(&name.as_str());
    if let Some(name) = known.versions.iter().find(unknown) {
        let families = families.join(", ");
        return Some(format!("no version family `{name}`; there are {families}"));
    }
    if known.versions.is_empty() || known.cases.is_empty() {
        return Some("a violation names at least one version and one case".to_owned());
    }
    known
        .reason
        .trim()
        .is_empty()
        .then(|| "a violation needs a reason".to_owned())
}

/// Whether `pointer` is `above` or below it.
fn covers(above: &str, pointer: &str) -> bool {
    pointer
        .strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::super::diff::Change;
    use super::super::render::Stream;
    use super::*;

    const ONE: &str = "[[deviation]]\ncase = \"turn/a\"\nsubject = \"engine@0.144\"\n\
        pointer = \"/wire/1/body\"\nreason = \"because\"\nowner = \"ours\"\n";

    fn difference(pointer: &str) -> Difference {
        let change = Change {
            pointer: pointer.into(),
            expected: None,
            actual: None,
        };
        Difference {
            stream: Stream::Wire,
            place: String::new(),
            change,
        }
    }

    #[test]
    fn explains_only_its_place() {
        let known = Deviations::parse(ONE).unwrap();
        let list = vec![
            difference("/wire/1/body/input/0"),
            difference("/wire/1/bodyx"),
        ];
        let (rest, met) = known.apply("turn/a", "engine@0.144", list.clone());
        assert_eq!((rest.len(), met.len()), (1, 1));
        assert_eq!(known.unused(), [""; 0]);
        assert_eq!(known.apply("turn/a", "engine@0.164", list).0.len(), 2);
    }

    #[test]
    fn an_entry_that_no_longer_differs_is_an_error() {
        let known = Deviations::parse(ONE).unwrap();
        assert_eq!(known.unused(), [""; 0], "its case did not run");
        known.apply("turn/a", "engine@0.144", Vec::new());
        assert!(known.unused()[0].starts_with("golden/deviations.toml:1: turn/a"));
    }

    #[test]
    fn a_known_violation_must_still_fire() {
        let text = "[[violation]]\nchecker = \"pairing\"\nrule = \"x.y\"\ncases = [\"a\"]\n\
            versions = [\"0.144\"]\nreason = \"r\"\n";
        let typo = text.replace("pairing", "paring");
        assert!(Deviations::parse(&typo).unwrap_err().contains("no checker"));
        let known = Deviations::parse(text).unwrap();
        let fired = vec![Finding {
            id: "checker.pairing".into(),
            message: String::new(),
        }];
        let faithful = Subject::parse("engine@0.144").unwrap();
        assert_eq!(known.known_violations("a", &faithful, fired.clone()), []);
        assert_eq!(
            known.known_violations("a", &faithful, vec![])[0].id,
            "golden.violation"
        );
        let mended = Subject::parse("engine@0.144+fixed").unwrap();
        assert_eq!(known.known_violations("a", &mended, fired.clone()), fired);
    }

    #[test]
    fn errors_name_the_line() {
        let typo = ONE.replace("reason =", "reson =");
        assert!(
            Deviations::parse(&typo)
                .unwrap_err()
                .starts_with("golden/deviations.toml:5:")
        );
        let upstream = ONE.replace("ours", "upstream");
        assert!(
            Deviations::parse(&upstream)
                .unwrap_err()
                .contains("names the checker")
        );
    }
}
