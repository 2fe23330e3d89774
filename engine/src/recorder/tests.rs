//! What reaches the file when storage fails.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde_json::{Value, json};

use super::Recorder;
use crate::ports::{Clock, RolloutStore, StorageFailure};
use crate::profile::{Profile, Version};

const ALL: [Version; 3] = [Version::V144, Version::V164, Version::V171];

struct Still;

impl Clock for Still {
    fn now_ms(&self) -> u64 {
        0
    }
    fn wait(&self, _: u64) {}
}

/// A file whose appends fail while `broken`, after this many bytes.
#[derive(Default)]
struct Disk {
    text: RefCell<String>,
    broken: Cell<Option<usize>>,
}

impl RolloutStore for Disk {
    fn append(&self, text: &str) -> Result<(), StorageFailure> {
        let kept = self.broken.get().unwrap_or(text.len());
        self.text.borrow_mut().push_str(&text[..kept]);
        if self.broken.get().is_none() {
            return Ok(());
        }
        let reason = "No space left on device (os error 28)".to_owned();
        let torn = kept > 0;
        Err(StorageFailure { reason, torn })
    }
}

fn recorder(disk: &Rc<Disk>, version: Version) -> Recorder {
    Recorder::new(disk.clone(), Rc::new(Still), None, &Profile::of(version))
}

/// Words of the records that can be read, in order.
fn read(disk: &Disk) -> Vec<String> {
    let text = disk.text.borrow();
    let lines = text.lines().map(serde_json::from_str::<Value>);
    let kinds = lines.map(|line| line.map_or("torn".to_owned(), |line| line["type"].to_string()));
    kinds.collect()
}

#[test]
fn what_cannot_be_written_waits_and_comes_in_order() {
    for version in ALL {
        let disk = Rc::new(Disk::default());
        let mut recorder = recorder(&disk, version);
        recorder.line("a", json!({}), None);
        disk.broken.set(Some(0));
        recorder.line("b", json!({}), None);
        recorder.line("c", json!({}), None);
        assert_eq!(read(&disk), ["\"a\""]);
        assert!(recorder.unsaved().is_some());
        disk.broken.set(None);
        assert_eq!(recorder.unsaved(), None);
        assert_eq!(read(&disk), ["\"a\"", "\"b\"", "\"c\""]);
    }
}

#[test]
fn a_torn_record_is_written_again_and_0_144_glues_it_to_its_rest() {
    for version in ALL {
        let disk = Rc::new(Disk::default());
        let mut recorder = recorder(&disk, version);
        disk.broken.set(Some(10));
        recorder.line("a", json!({}), None);
        disk.broken.set(None);
        recorder.line("b", json!({}), None);
        let expected: &[&str] = match version {
            Version::V144 => &["torn", "\"b\""],
            Version::V164 | Version::V171 => &["torn", "\"a\"", "\"b\""],
        };
        assert_eq!(read(&disk), expected);
    }
}

#[test]
fn a_file_that_ends_inside_a_line_is_gone_on_with_on_a_new_one_from_0_164_on() {
    for version in ALL {
        let disk = Rc::new(Disk::default());
        disk.text.borrow_mut().push_str("{\"type\":");
        let mut recorder = recorder(&disk, version);
        assert_eq!(recorder.go_on(None, true), Ok(()));
        let ended = disk.text.borrow().ends_with('\n');
        assert_eq!(ended, version != Version::V144);
        recorder.line("a", json!({}), None);
        assert_eq!(read(&disk).len(), 1 + usize::from(ended));
    }
}

#[test]
fn a_disk_that_is_still_full_refuses_a_resume_that_has_to_end_a_line() {
    let disk = Rc::new(Disk::default());
    disk.broken.set(Some(0));
    assert!(recorder(&disk, Version::V164).go_on(None, true).is_err());
    assert!(recorder(&disk, Version::V164).go_on(None, false).is_ok());
    assert!(recorder(&disk, Version::V144).go_on(None, true).is_ok());
}
