//! JUnit report of a check.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::verify::{CaseResult, Verdict};

/// The report as XML: one suite per subject.
pub fn report(results: &[CaseResult]) -> Result<String, String> {
    let mut report = Report::new("turnproof");
    let mut subjects: Vec<&str> = results.iter().map(|r| r.subject.as_str()).collect();
    subjects.sort_unstable();
    subjects.dedup();
    for subject in subjects {
        let mut suite = TestSuite::new(subject);
        for result in results.iter().filter(|r| r.subject == subject) {
            let mut case = TestCase::new(result.case.as_str(), status(result));
            case.set_classname(subject);
            suite.add_test_case(case);
        }
        report.add_test_suite(suite);
    }
    report.to_string().map_err(|e| e.to_string())
}

fn status(result: &CaseResult) -> TestCaseStatus {
    match &result.verdict {
        Verdict::Passed => TestCaseStatus::success(),
        Verdict::Failed(findings) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let text: Vec<String> = findings
                .iter()
                .map(|f| format!("{}: {}", f.id, f.message))
                .collect();
            status.set_message(findings.first().map_or("", |f| f.id.as_str()));
            status.set_description(format!("{}\nrerun: {}", text.join("\n"), result.rerun()));
            status
        }
        Verdict::NotApplicable(why) | Verdict::NotRun(why) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(why.as_str());
            status
        }
    }
}
