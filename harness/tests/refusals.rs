//! What cannot be meant is refused with exit 2, at once and in words: commands that would do nothing,
//! names of no file, ids that no file can have.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A command that waits for a pipe would wait for ever.
const ANSWER_MAX: Duration = Duration::from_secs(20);

const SCENARIO: &str =
    "description: A turn that answers.\nsteps:\n  - {user: Hi, replies: [{say: Hi.}]}\n";

/// A checkout with one scenario.
struct Checkout(tempfile::TempDir);

impl Checkout {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["scenarios/turn", "golden"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("made");
        }
        let checkout = Self(folder);
        checkout.write("golden/deviations.toml", "");
        checkout.write("scenarios/turn/answers.yaml", SCENARIO);
        checkout
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("written");
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_turnproof"))
            .args(args)
            .env_remove("CI")
            .current_dir(self.0.path())
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it runs");
        let start = Instant::now();
        while child.try_wait().expect("its state").is_none() {
            if start.elapsed() > ANSWER_MAX {
                child.kill().expect("ended");
                panic!("{args:?} waits");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait_with_output().expect("its output")
    }

    /// It is refused, and says all of it.
    fn refuses(&self, args: &[&str], words: &[&str]) {
        let output = self.run(args);
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{args:?} does not say {word}: {said}");
        }
    }
}

#[test]
fn commands_that_would_do_nothing() {
    let checkout = Checkout::new();
    checkout.refuses(
        &["bless", "--subject", "engine"],
        &["nothing to bless", "help: `--subject codex`"],
    );
    let zero = "0 is not in 1..";
    checkout.refuses(&["perturb", "--seeds", "0"], &[zero, "--seeds"]);
    checkout.refuses(&["fuzz-history", "--seeds", "0"], &[zero, "--seeds"]);
    checkout.refuses(&["simulate", "--seeds", "5..5"], &["5..5 holds no seed"]);
    checkout.refuses(&["simulate", "--seeds", "a..b"], &["two whole numbers"]);
    let condition = ["shrink", "turn/answers", "--while", "cmd:true {}"];
    checkout.refuses(&[&condition[..], &["--budget", "0"]].concat(), &[zero]);
    checkout.refuses(
        &["review", "--accept", "nothing"],
        &["no pending golden begins with `nothing`", "help: "],
    );
    checkout.refuses(&["review", "--reject"], &["nothing is pending"]);
    checkout.write(
        "scenarios/turn/newer.yaml",
        &format!("{SCENARIO}versions: \">=0.164\"\nreason: A test.\n"),
    );
    for command in ["check", "diff"] {
        checkout.refuses(
            &[command, "turn/newer", "--subject", "engine@0.144"],
            &["no scenario ran", "help: "],
        );
    }
    checkout.refuses(
        &["check", "turn/answers", "--shard", "2/2"],
        &["no scenario ran"],
    );
    checkout.refuses(
        &["perturb", "turn/newer", "--against", "codex@0.144.6"],
        &["none of the scenarios runs on codex@0.144.6"],
    );
    checkout.refuses(
        &["crash", "turn/newer", "--subject", "engine@0.144"],
        &["no", "crash point"],
    );
}

#[test]
fn a_folder_by_the_name_of_a_scenario_hides_no_finding() {
    let checkout = Checkout::new();
    std::fs::create_dir(checkout.0.path().join("scenarios/x.yaml")).expect("made");
    checkout.write("scenarios/turn/wrong.yaml", "description: A.\nstep: []\n");
    checkout.refuses(
        &["lint", "--plain"],
        &[
            "scenarios/x.yaml:1:1: cannot read the file: it is a folder; rename or remove it",
            "scenarios/turn/wrong.yaml:2:1: unknown key `step`",
        ],
    );
    // The others are still there by their names.
    let linted = checkout.run(&["lint", "turn/answers"]);
    assert_eq!(linted.status.code(), Some(0));
}

#[test]
fn a_pipe_that_nobody_writes_into() {
    let checkout = Checkout::new();
    let made = Command::new("mkfifo")
        .args(["p.yaml", "p.jsonl", "scenarios/pipe.yaml"])
        .current_dir(checkout.0.path())
        .status();
    assert!(made.expect("mkfifo").success());
    let pipe = "it is a pipe and no regular file";
    checkout.refuses(&["doctor", "p.jsonl"], &[pipe]);
    checkout.refuses(&["import", "p.jsonl"], &[pipe]);
    checkout.refuses(&["lint"], &[pipe, "scenarios/pipe.yaml:1:1"]);
    let condition = ["--while", "cmd:true {}"];
    checkout.refuses(
        &[&["shrink", "p.yaml"][..], &condition].concat(),
        &["p.yaml"],
    );
    checkout.refuses(&["record", "p.yaml", "-o", "out"], &["p.yaml"]);
    checkout.refuses(&["check", "pipe"], &[pipe]);
    checkout.refuses(&["doctor", "/dev/zero"], &["it is a device"]);
}

#[test]
fn names_that_no_file_can_have() {
    let checkout = Checkout::new();
    let long = "a".repeat(5_000);
    let id = format!("turn/{long}");
    checkout.refuses(&["new", &id], &["an id of 5005 characters: at most"]);
    checkout.write("scenarios/file", "");
    checkout.refuses(&["new", "file/a"], &["failed to write scenarios/file"]);
    checkout.refuses(
        &["new", "turn/b", "--description", "x"],
        &["failed to use the description", "one sentence"],
    );
    let report = format!("{long}.json");
    checkout.refuses(
        &[
            "check",
            "turn/answers",
            "--subject",
            "engine@0.171",
            "--json",
            &report,
        ],
        &["failed to write aaaa"],
    );
    // What is odd and can be written is written.
    let sentence = "A turn: it answers # or not.";
    let made = checkout.run(&["new", "turn/c", "--description", sentence]);
    assert_eq!(made.status.code(), Some(0));
    let linted = checkout.run(&["lint", "turn/c"]);
    assert_eq!(linted.status.code(), Some(0));
    assert!(Path::new(&checkout.0.path().join("scenarios/turn/c.yaml")).is_file());
}
