//! A command whose output cannot be written ends with exit 3 and a word; one whose reader left ends as
//! the system ends others, without a word.

use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

const SIGPIPE: i32 = 13;

fn turnproof(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnproof"));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_named() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = turnproof(&["lint"]).stdout(full).output().unwrap();
    assert_eq!(run.status.code(), Some(3));
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.starts_with("failed to write the output: "), "{said}");
}

#[test]
fn a_reader_that_left_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let rollout = folder.path().join("rollout.jsonl");
    std::fs::write(&rollout, "no record\n").unwrap();
    let rollout = rollout.to_str().unwrap();
    for args in [
        &["lint"][..],
        &["list", "--long"],
        &["list", "--coverage"],
        &["list", "--faults"],
        &["schema"],
        &["schema", "--markdown"],
        &["show", "turn/sends_the_output_of_a_call"],
        &["check", "turn/sends_the_output_of_a_call"],
        &["review", "--list"],
        &["doctor", rollout],
        &["crash", "turn/sends_the_output_of_a_call"],
    ] {
        let mut child = turnproof(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let run = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(
            (run.status.signal(), &*said),
            (Some(SIGPIPE), ""),
            "{args:?}: {:?}",
            run.status
        );
    }
}
