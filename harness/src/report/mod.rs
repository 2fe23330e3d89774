//! Reports of a check: lines for a person, JSON and JUnit for machines.

pub mod junit;
pub mod text;

use serde_json::{Value, json};

use crate::verify::{CaseResult, Verdict};

/// Counts of verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Left out by the scenario.
    pub not_applicable: usize,
    /// Without a verdict.
    pub not_run: usize,
}

impl Counts {
    /// Counts results.
    pub fn of<'a>(results: impl IntoIterator<Item = &'a CaseResult>) -> Self {
        let mut counts = Self::default();
        for result in results {
            *match result.verdict {
                Verdict::Passed => &mut counts.passed,
                Verdict::Failed(_) => &mut counts.failed,
                Verdict::NotApplicable(_) => &mut counts.not_applicable,
                Verdict::NotRun(_) => &mut counts.not_run,
            } += 1;
        }
        counts
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let skipped = self.not_applicable + self.not_run;
        write!(
            f,
            "{} passed, {} failed, {skipped} skipped",
            self.passed, self.failed
        )?;
        if skipped > 0 {
            write!(
                f,
                " (not applicable {}, not run {})",
                self.not_applicable, self.not_run
            )?;
        }
        Ok(())
    }
}

/// All results as JSON.
pub fn json(results: &[CaseResult], problems: &[String]) -> Value {
    let counts = Counts::of(results);
    let cases = results.iter().map(|r| {
        let (verdict, findings, reason) = match &r.verdict {
            Verdict::Passed => ("passed", &[][..], None),
            Verdict::Failed(list) => ("failed", &list[..], None),
            Verdict::NotApplicable(why) => ("not_applicable", &[][..], Some(why)),
            Verdict::NotRun(why) => ("not_run", &[][..], Some(why)),
        };
        let findings: Vec<Value> = findings
            .iter()
            .map(|f| json!({"id": f.id, "message": f.message}))
            .collect();
        json!({
            "case": r.case, "subject": r.subject, "verdict": verdict, "reason": reason,
            "findings": findings, "pending": r.pending, "rerun": r.rerun(),
        })
    });
    json!({
        "format": 1,
        "passed": counts.passed, "failed": counts.failed,
        "not_applicable": counts.not_applicable, "not_run": counts.not_run,
        "problems": problems,
        "cases": cases.collect::<Vec<_>>(),
    })
}
