//! `turnproof shrink` as a user calls it: exit codes, the same bytes twice, files that are there.

use std::path::Path;
use std::process::{Command, Output};

/// Trips `context_once` on 0.144 in two of its seven steps.
const SCENARIO: &str = "compaction/local/drops_typed_context_and_keeps_other_tags";

fn shrink(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a root");
    Command::new(env!("CARGO_BIN_EXE_turnproof"))
        .arg("shrink")
        .args(args)
        .current_dir(root)
        .output()
        .expect("it runs")
}

fn shrunk(more: &[&str]) -> Output {
    let condition = ["--while", "check:context_once", "--subject", "engine@0.144"];
    shrink(&[&[SCENARIO][..], &condition, more].concat())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_result_is_small_and_the_same_every_time() {
    let (first, second) = (shrunk(&[]), shrunk(&[]));
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(first.stderr, second.stderr);
    let yaml = text(&first.stdout);
    assert!(
        yaml.starts_with("description: Shrunk from compaction/local/"),
        "{yaml}"
    );
    assert!(yaml.lines().count() < 10, "{yaml}");
    assert!(text(&first.stderr).contains("1-minimal"));
}

#[test]
fn a_budget_that_is_used_up_is_told() {
    let few = shrunk(&["--budget", "3"]);
    assert_eq!(few.status.code(), Some(0));
    assert!(
        text(&few.stderr).contains("not 1-minimal"),
        "{}",
        text(&few.stderr)
    );
}

#[test]
fn a_file_is_overwritten_only_when_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("small.yaml");
    std::fs::write(&out, "mine").expect("written");
    let path = out.to_str().expect("UTF-8");
    let refused = shrunk(&["-o", path]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&out).expect("it is there"), "mine");
    assert_eq!(shrunk(&["-o", path, "--force"]).status.code(), Some(0));
    let small = std::fs::read_to_string(&out).expect("it is there");
    assert!(small.starts_with("description: Shrunk"), "{small}");
    // The result shows it by itself.
    let again = shrink(&[
        path,
        "--while",
        "check:context_once",
        "--subject",
        "engine@0.144",
    ]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
}

#[test]
fn what_is_not_shown_is_a_finding_and_what_is_unknown_wrong_usage() {
    let condition = |condition: &str| shrink(&[SCENARIO, "--while", condition]);
    let unseen = condition("check:pairing");
    assert_eq!(unseen.status.code(), Some(1));
    assert!(text(&unseen.stderr).contains("does not show it"));
    let unknown = condition("check:pairng");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("pairing"),
        "{}",
        text(&unknown.stderr)
    );
    assert_eq!(condition("differs:engine@0.171").status.code(), Some(2));
    let absent = shrink(&["no/such", "--while", "check:pairing"]);
    assert_eq!(absent.status.code(), Some(2));
}

#[test]
fn a_command_decides_as_well() {
    let shown = shrink(&[SCENARIO, "--while", "cmd:grep -q environment_context {}"]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    assert!(text(&shown.stdout).contains("environment_context"));
    let unseen = shrink(&[SCENARIO, "--while", "cmd:echo seen {}; false"]);
    assert_eq!(unseen.status.code(), Some(1));
    assert!(
        text(&unseen.stderr).contains("seen"),
        "{}",
        text(&unseen.stderr)
    );
}

/// A scenario of sixty steps, and the faults that `cargo xtask bench shrink` plants.
const LONG_DAY: &str = "harness/tests/data/shrink/long_day.yaml";
const FAULTS: &str = include_str!("data/shrink/faults.txt");

/// One fault of each kind; the bench looks at all.
#[test]
fn a_planted_fault_is_left_in_few_steps() {
    for (fault, steps) in [
        ("call_left_open", "steps 60 → 2"),
        ("steer_lost", "steps 60 → 1"),
        ("model_forgotten", "steps 60 → 4"),
        // The wait ends at a bound, and the search goes on.
        ("waits_for_ever", "steps 60 → 2"),
    ] {
        assert!(FAULTS.lines().any(|listed| listed == fault), "{fault}");
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("small.yaml");
        let path = out.to_str().expect("UTF-8");
        let condition = format!("differs:engine@0.171,engine@0.171+planted:{fault}");
        let output = shrink(&[LONG_DAY, "--while", &condition, "-o", path]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{fault}: {said}");
        assert!(said.contains(steps), "{fault}: {said}");
        assert!(said.contains("; 1-minimal"), "{fault}: {said}");
        let lint = Command::new(env!("CARGO_BIN_EXE_turnproof"))
            .args(["lint", path])
            .output()
            .expect("it runs");
        let found = text(&lint.stdout);
        assert!(lint.status.success(), "{fault}: {found}");
    }
}

#[test]
fn a_wait_without_end_is_a_finding() {
    let waits = "engine@0.171+planted:waits_for_ever";
    let condition = ["--while", "check:step.waits", "--subject", waits];
    let output = shrink(&[&[LONG_DAY][..], &condition].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let yaml = text(&output.stdout);
    assert!(yaml.contains("interrupt"), "{yaml}");
}
