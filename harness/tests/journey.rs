//! The way of `docs/reproduce-a-bug.md`, command by command: from the rollout of a thread that went
//! wrong to a scenario of a few lines.

use std::path::Path;
use std::process::{Command, Output};

/// Lines that the end may have.
const LINES_MAX: usize = 30;

struct Checkout(tempfile::TempDir);

impl Checkout {
    /// A checkout without scenarios.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["scenarios", "golden"] {
            std::fs::create_dir(folder.path().join(name)).expect("made");
        }
        std::fs::write(folder.path().join("golden/deviations.toml"), "").expect("written");
        Self(folder)
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_turnproof"))
            .args(args)
            .current_dir(self.0.path())
            .output()
            .expect("it runs")
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_rollout_becomes_a_scenario_of_a_few_lines() {
    let checkout = Checkout::new();
    // The rollout of the thread that went wrong.
    let thread = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/journey/thread.yaml");
    let thread = thread.to_str().expect("UTF-8");
    let recorded = checkout.run(&[
        "record",
        thread,
        "--subject",
        "engine@0.144",
        "-o",
        "sessions",
    ]);
    assert_eq!(
        recorded.status.code(),
        Some(0),
        "{}",
        text(&recorded.stderr)
    );
    let rollout = text(&recorded.stdout).trim_end();

    let imported = checkout.run(&["import", rollout, "-o", "scenarios/bug.yaml"]);
    assert_eq!(
        imported.status.code(),
        Some(0),
        "{}",
        text(&imported.stderr)
    );

    let check = |case: &str, subject: &str| {
        let output = checkout.run(&["check", case, "--subject", subject]);
        text(&output.stdout).contains("checker.context_once")
    };
    assert!(check("bug", "engine@0.144"));
    assert!(!check("bug", "engine@0.171"));

    let condition = ["--while", "check:context_once", "--subject", "engine@0.144"];
    let small = ["-o", "scenarios/small.yaml"];
    let shrunk = checkout.run(&[&["shrink", "bug"][..], &condition, &small].concat());
    assert_eq!(shrunk.status.code(), Some(0), "{}", text(&shrunk.stderr));
    assert!(text(&shrunk.stderr).contains("; 1-minimal"));
    let yaml = std::fs::read_to_string(checkout.0.path().join("scenarios/small.yaml"));
    let yaml = yaml.expect("it is there");
    assert!(yaml.lines().count() < LINES_MAX, "{yaml}");
    let lint = checkout.run(&["lint"]);
    assert!(lint.status.success(), "{}", text(&lint.stdout));
    assert!(check("small", "engine@0.144"));
    assert!(!check("small", "engine@0.171"));
}
