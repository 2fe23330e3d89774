//! `docs/rules-index.md`: which scenarios prove a rule, written from the scenarios.
//!
//! A rule without a scenario needs a reason in `docs/unproven-rules.toml`; a reason whose rule has a
//! scenario is out of date. Both are findings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;

const HEAD: &str = "\
# Rules and the scenarios that prove them

Generated from the `rules:` of the scenarios by `turnproof schema --write`; do not edit. The rules
themselves stand in [rules.md](rules.md), the reasons below in `unproven-rules.toml`.

| rule | scenarios |
| --- | --- |
";

/// A rule that no scenario proves.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unproven {
    /// Its id.
    id: String,
    /// Why there is no scenario.
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Unproven>,
}

/// The index and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesIndex {
    /// Text of `docs/rules-index.md`.
    pub text: String,
    /// One fragment for each finding.
    pub findings: Vec<String>,
}

/// Builds the index from the known rules, each scenario's rules, and `unproven-rules.toml`.
pub fn rules_index(
    rules: &BTreeSet<String>,
    scenarios: &[(String, Vec<String>)],
    unproven: &str,
) -> RulesIndex {
    let mut findings = Vec::new();
    let file: File = toml::from_str(unproven).unwrap_or_else(|error| {
        findings.push(format!("docs/unproven-rules.toml: {}", error.message()));
        File::default()
    });
    let reasons: BTreeMap<&str, &str> = file
        .rule
        .iter()
        .map(|rule| (rule.id.as_str(), rule.reason.trim()))
        .collect();
    let mut text = HEAD.to_owned();
    for rule in rules {
        let proofs = scenarios.iter().filter(|(_, cited)| cited.contains(rule));
        let proofs: Vec<String> = proofs.map(|(id, _)| format!("`{id}`")).collect();
        let cell = match (proofs.is_empty(), reasons.get(rule.as_str())) {
            (false, None) => proofs.join(" · "),
            (false, Some(_)) => {
                findings.push(format!(
                    "docs/unproven-rules.toml: `{rule}` has a scenario: remove its reason"
                ));
                proofs.join(" · ")
            }
            (true, Some(reason)) if !reason.is_empty() => format!("none: {reason}"),
            (true, _) => {
                findings.push(format!(
                    "docs/rules.md: `{rule}` has no scenario; cite it in one, or state the reason \
                     in docs/unproven-rules.toml"
                ));
                "none".to_owned()
            }
        };
        let _ = writeln!(text, "| {rule} | {cell} |");
    }
    let unknown = reasons.keys().filter(|id| !rules.contains(**id));
    findings.extend(unknown.map(|id| format!("docs/unproven-rules.toml: no rule `{id}`")));
    RulesIndex { text, findings }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(unproven: &str) -> RulesIndex {
        let rules = ["a.b".to_owned(), "c.d".to_owned()].into();
        let scenarios = [("turn/x".to_owned(), vec!["a.b".to_owned()])];
        rules_index(&rules, &scenarios, unproven)
    }

    #[test]
    fn a_rule_has_a_scenario_or_a_reason() {
        let bare = index("");
        assert_eq!(bare.findings.len(), 1, "{:?}", bare.findings);
        assert!(bare.text.contains("| a.b | `turn/x` |"));
        let stated = index("[[rule]]\nid = \"c.d\"\nreason = \"needs a login\"\n");
        assert_eq!(stated.findings, [""; 0]);
        assert!(stated.text.contains("| c.d | none: needs a login |"));
    }

    #[test]
    fn reasons_that_are_out_of_date_are_findings() {
        let reasons = "[[rule]]\nid = \"a.b\"\nreason = \"x\"\n[[rule]]\nid = \"c.d\"\n\
            reason = \" \"\n[[rule]]\nid = \"e.f\"\nreason = \"x\"\n";
        assert_eq!(index(reasons).findings.len(), 3, "proven, blank, unknown");
        assert_eq!(
            index("[[rule]]\nidd = 1").findings.len(),
            2,
            "no TOML of ours"
        );
    }
}
