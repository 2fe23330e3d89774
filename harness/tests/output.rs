//! A command whose output cannot be written ends with exit 3 and a word, and is no panic.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

fn list() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnproof"));
    command
        .args(["lint"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_named() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = list().stdout(full).output().unwrap();
    assert_eq!(run.status.code(), Some(3));
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.starts_with("failed to write the output: "), "{said}");
}

#[test]
fn a_reader_that_left_is_no_panic() {
    let mut child = list()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let run = child.wait_with_output().unwrap();
    assert_eq!(
        (run.status.code(), run.stderr.as_slice()),
        (Some(3), &b""[..])
    );
}
