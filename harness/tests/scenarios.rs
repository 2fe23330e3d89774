//! One named test per scenario and engine profile, `turn/one_call::engine@0.144`.
//!
//! Works under `cargo test` and nextest with their filters and partitions. Cases of real binaries
//! are ignored tests here: nextest gives each test a process and they could share no pool;
//! `turnproof check --subject codex` runs them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use harness::cases::{self, Case, PlanFor};
use harness::driver;
use harness::golden::gate::Gate;
use harness::golden::versions::{Arm, Subject};
use harness::verify::{CaseResult, Verdict, plan_all, run_all};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    match trials() {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn root() -> Result<PathBuf, String> {
    let here = std::env::current_dir().map_err(|e| e.to_string())?;
    let root = here.ancestors().find(|f| f.join("scenarios").is_dir());
    root.map(Path::to_owned)
        .ok_or_else(|| "find a `scenarios` folder here or above".to_owned())
}

fn trials() -> Result<Vec<Trial>, String> {
    let root = root()?;
    let scenarios = cases::open(&root).map_err(|e| e.to_string())?;
    let list = scenarios.select(&[]).map_err(|e| e.to_string())?;
    let mut trials = Vec::new();
    for subject in [Subject::expand("engine")?, Subject::expand("codex")?].concat() {
        for case in &list {
            let plan = scenarios.plan(&case.id, subject.family().real);
            let applies = matches!(plan, Ok(PlanFor::Applicable(_)));
            let ignored = !applies || subject.arm == Arm::Codex;
            let name = format!("{}::{}", case.id, subject.name);
            let (root, case, subject) = (root.clone(), case.clone(), subject.clone());
            let trial = Trial::test(name, move || run(&root, &case, &subject));
            trials.push(trial.with_ignored_flag(ignored));
        }
    }
    Ok(trials)
}

fn run(root: &Path, case: &Case, subject: &Subject) -> Result<(), Failed> {
    let scenarios = cases::open(root).map_err(|e| e.to_string())?;
    let one = std::slice::from_ref(case);
    let planned = plan_all(&*scenarios, one, subject).map_err(|e| e.to_string())?;
    let scratch = root.join("target/turnproof");
    let mut gate = Gate::open(&root.join("golden"), &scratch, Box::new(driver::remnants))?;
    gate.write_pending = false;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut keep = |_: &_, _: &_| {};
    let job = run_all(&driver::open, subject, &planned, &gate, 1, &mut keep);
    let results = runtime.block_on(job);
    results.iter().try_for_each(verdict)
}

fn verdict(result: &CaseResult) -> Result<(), Failed> {
    let text = match &result.verdict {
        Verdict::Passed | Verdict::NotApplicable(_) => return Ok(()),
        Verdict::Failed(findings) => {
            let list: Vec<String> = findings
                .iter()
                .map(|f| format!("{}: {}", f.id, f.message))
                .collect();
            list.join("\n")
        }
        Verdict::NotRun(why) => format!("not run: {why}"),
    };
    Err(format!("{text}\nrerun: {}", result.rerun()).into())
}
