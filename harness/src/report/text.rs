//! The report a person reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Counts;
use crate::verify::{CaseResult, Verdict};

/// Every failure, every case that was not run, one line per area, the total.
pub fn report(results: &[CaseResult], problems: &[String], notes: &[String]) -> String {
    let mut out = String::new();
    for result in results {
        failure(result, &mut out);
    }
    not_run(results, &mut out);
    let mut areas: BTreeMap<(&str, &str), Vec<&CaseResult>> = BTreeMap::new();
    for result in results {
        let area = result.case.rsplit_once('/').map_or("", |(area, _)| area);
        areas
            .entry((area, &result.subject))
            .or_default()
            .push(result);
    }
    let mut lines: BTreeMap<&str, String> = BTreeMap::new();
    for ((area, subject), list) in areas {
        let counts = Counts::of(list.iter().copied());
        let line = lines.entry(area).or_default();
        let gap = if line.is_empty() { "" } else { " · " };
        let total = list.len() - counts.not_applicable;
        let _ = write!(line, "{gap}{subject} {}/{total}", counts.passed);
    }
    for (area, line) in lines {
        let _ = writeln!(out, "{area:<28} {line}");
    }
    for problem in problems {
        let _ = writeln!(out, "error: {problem}");
    }
    for note in notes {
        let _ = writeln!(out, "{note}");
    }
    let _ = writeln!(out, "{}", Counts::of(results));
    out
}

fn failure(result: &CaseResult, out: &mut String) {
    let Verdict::Failed(findings) = &result.verdict else {
        return;
    };
    let _ = writeln!(out, "FAILED {} on {}", result.case, result.subject);
    for finding in findings {
        let _ = writeln!(
            out,
            "  {}: {}",
            finding.id,
            finding.message.replace('\n', "\n  ")
        );
    }
    for pending in &result.pending {
        let _ = writeln!(
            out,
            "  pending: golden/{pending}.new (cargo turnproof review)"
        );
    }
    let _ = writeln!(out, "  rerun: {}\n", result.rerun());
}

/// Cases without a verdict, one reason once.
fn not_run(results: &[CaseResult], out: &mut String) {
    let mut reasons: BTreeMap<(&str, &str), Vec<&CaseResult>> = BTreeMap::new();
    for result in results {
        if let Verdict::NotRun(why) = &result.verdict {
            reasons
                .entry((&result.subject, why))
                .or_default()
                .push(result);
        }
    }
    for ((subject, why), list) in reasons {
        let _ = writeln!(out, "NOT RUN on {subject}: {why}");
        for result in &list {
            let _ = writeln!(out, "  {}", result.case);
        }
        let rerun = match list.as_slice() {
            [one] => one.rerun(),
            _ => format!("cargo turnproof check --subject {subject}"),
        };
        let _ = writeln!(out, "  rerun: {rerun}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Finding;

    fn result(case: &str, verdict: Verdict) -> CaseResult {
        CaseResult {
            case: case.into(),
            subject: "engine@0.144".into(),
            verdict,
            pending: vec![],
        }
    }

    #[test]
    fn names_every_failure_and_every_case_that_was_not_run() {
        let finding = Finding {
            id: "golden.difference".into(),
            message: "wire: x".into(),
        };
        let results = [
            result("turn/a", Verdict::Passed),
            result("turn/b", Verdict::Failed(vec![finding])),
            result("turn/c", Verdict::NotRun("could not run: no npm".into())),
            result("faults/d", Verdict::NotApplicable("later".into())),
        ];
        let text = report(&results, &[], &[]);
        assert!(
            text.contains("rerun: cargo turnproof check turn/b --subject engine@0.144"),
            "{text}"
        );
        assert!(text.contains("no npm\n  turn/c\n"), "{text}");
        assert!(text.contains("engine@0.144 1/3"), "{text}");
        let total = "1 passed, 1 failed, 2 skipped (not applicable 1, not run 1)\n";
        assert!(text.ends_with(total), "{text}");
    }
}
