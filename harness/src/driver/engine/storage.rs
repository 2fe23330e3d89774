//! The engine's rollout files in memory, the faults of their storage, and what a kill ends.
//!
//! A kill happens inside an append. The engine that called it runs on until it waits for something,
//! but a dead process does nothing: its ports answer no more, and nobody sees what it says.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use engine::ports::{Ids, ReadAt, RolloutStore, StorageFailure};
use engine::profile::Profile;
use engine::rollout_read::{Rollouts, lines};
use serde_json::Value;
use tokio::sync::Notify;

use super::ports::Counter;
use crate::recording::{Edited, RolloutFile};
use crate::rollout_edit::{self, Change, Edit};
use crate::scenario::plan::StorageFault;

/// Whether the process lives.
#[derive(Debug, Default)]
pub(super) struct Life {
    dead: Cell<bool>,
    died: Notify,
}

impl Life {
    pub(super) fn is_dead(&self) -> bool {
        self.dead.get()
    }

    /// Goes on where the process lives; a dead one never does.
    pub(super) async fn lives(&self) {
        if self.dead.get() {
            std::future::pending::<()>().await;
        }
    }

    /// Resolves when the process is killed.
    pub(super) async fn died(&self) {
        while !self.dead.get() {
            self.died.notified().await;
        }
    }

    fn end(&self) {
        self.dead.set(true);
        self.died.notify_one();
    }

    /// A new process.
    pub(super) fn begin(&self) {
        self.dead.set(false);
    }
}

/// One file.
#[derive(Debug, Default, Clone)]
struct File {
    name: String,
    bytes: Vec<u8>,
    /// Something was written to it.
    begun: bool,
}

/// What the name of a file begins with.
const STAMP: &str = "rollout-2026-01-01T00-00-00-";

impl File {
    /// The thread that it is named after.
    fn thread(&self) -> Option<&str> {
        let ids = self.name.strip_prefix(STAMP)?.strip_suffix(".jsonl")?;
        ids.split('_').next()
    }
}

/// Rollout files of the run.
pub(super) struct Files {
    all: RefCell<Vec<File>>,
    fault: RefCell<Option<StorageFault>>,
    /// A fault was set at any time.
    failed: Cell<bool>,
    /// Appends since the fault was set.
    appends: Cell<usize>,
    /// Texts that came back as written, of all files.
    acknowledged: RefCell<Vec<String>>,
    life: Rc<Life>,
}

impl Files {
    pub(super) fn new(life: Rc<Life>) -> Self {
        Self {
            all: RefCell::default(),
            fault: RefCell::default(),
            failed: Cell::default(),
            appends: Cell::default(),
            acknowledged: RefCell::default(),
            life,
        }
    }

    /// Begins a file for the next thread.
    pub(super) fn open(&self) {
        self.all.borrow_mut().push(File::default());
    }

    /// Names the newest file after its thread, if it has no name. Behind a revert a thread has
    /// several.
    pub(super) fn name(&self, thread: &str, ids: &Counter) {
        let mut files = self.all.borrow_mut();
        let again = files.iter().any(|file| file.name.contains(thread));
        if let Some(file) = files.last_mut().filter(|file| file.name.is_empty()) {
            let segment = if again {
                format!("_{}", ids.uuid())
            } else {
                String::new()
            };
            file.name = format!("{STAMP}{thread}{segment}.jsonl");
        }
    }

    /// Thread and bytes of the newest file that is there.
    pub(super) fn newest(&self) -> Option<(String, Vec<u8>)> {
        let files = self.all.borrow();
        let file = files.last()?;
        Some((file.thread()?.to_owned(), file.bytes.clone()))
    }

    /// Id of the newest file: that of a segment, or of its thread.
    pub(super) fn id(&self) -> Option<String> {
        let files = self.all.borrow();
        let stem = files.last()?.name.strip_suffix(".jsonl")?;
        let segment = stem.rsplit_once('_').map(|(_, segment)| segment);
        Some(segment.or_else(|| stem.get(STAMP.len()..))?.to_owned())
    }

    fn find(&self, wanted: impl Fn(&File) -> bool) -> Option<Rc<dyn ReadAt>> {
        let files = self.all.borrow();
        let file = files.iter().rfind(|file| wanted(file))?;
        Some(Rc::new(file.bytes.clone()))
    }

    /// Puts a file there, as another process left it.
    #[cfg(test)]
    pub(super) fn put(&self, thread: &str, bytes: Vec<u8>) {
        self.open();
        self.name(thread, &Counter::default());
        if let Some(file) = self.all.borrow_mut().last_mut() {
            file.bytes = bytes;
            file.begun = true;
        }
    }

    /// Records of the newest file.
    pub(super) fn records(&self, profile: &Profile) -> Vec<Value> {
        let bytes = self.newest().map(|(_, bytes)| bytes).unwrap_or_default();
        lines::lines(&bytes, profile).map_or_else(|_| Vec::new(), |lines| lines.records)
    }

    /// Edits the newest file, or the oldest, behind so many requests.
    pub(super) fn edit(&self, edit: &Edit, requests: usize) -> Result<Edited, String> {
        let mut files = self.all.borrow_mut();
        let last = files.len().checked_sub(1).ok_or("there is no rollout")?;
        let place = if edit.oldest { 0 } else { last };
        let bytes = rollout_edit::apply(edit, &files[place].bytes)?;
        let edited = Edited::new(requests, &files[place].name, bytes.as_deref());
        match bytes {
            Some(bytes) => files[place].bytes = bytes,
            None if edit.change == Change::RemoveFolder => files.clear(),
            None => drop(files.remove(place)),
        }
        Ok(edited)
    }

    /// Sets a fault, or takes it away; appends are counted anew.
    pub(super) fn set_fault(&self, fault: Option<StorageFault>) {
        self.failed.set(self.failed.get() || fault.is_some());
        *self.fault.borrow_mut() = fault;
        self.appends.set(0);
    }

    /// Whether a fault was set at any time.
    pub(super) fn ever_failed(&self) -> bool {
        self.failed.get()
    }

    /// A fault that waits for an append that has not come; which append.
    pub(super) fn fault_ahead(&self) -> Option<usize> {
        match &*self.fault.borrow() {
            Some(StorageFault::Fail { append, .. } | StorageFault::Kill { append, .. }) => {
                (self.appends.get() < *append).then_some(*append)
            }
            None => None,
        }
    }

    /// Texts that came back as written, oldest first.
    pub(super) fn acknowledged(&self) -> Vec<String> {
        self.acknowledged.borrow().clone()
    }

    /// Bytes of every file that was ever written to.
    pub(super) fn lengths(&self) -> Vec<usize> {
        let files = self.all.borrow();
        let written = files.iter().filter(|file| file.begun);
        written.map(|file| file.bytes.len()).collect()
    }

    /// All files that were ever written to.
    pub(super) fn take(&self) -> Vec<RolloutFile> {
        let files = std::mem::take(&mut *self.all.borrow_mut());
        let written = files.into_iter().filter(|file| file.begun);
        let file = |file: File| RolloutFile {
            name: file.name,
            text: String::from_utf8_lossy(&file.bytes).into_owned(),
        };
        written.map(file).collect()
    }

    fn write(&self, text: &str) {
        if let Some(file) = self.all.borrow_mut().last_mut() {
            file.bytes.extend(text.as_bytes());
            file.begun = true;
        }
    }

    /// The fault that this append meets.
    fn meets(&self) -> Option<StorageFault> {
        let fault = self.fault.borrow().clone()?;
        let count = self.appends.get() + 1;
        self.appends.set(count);
        let hit = match fault {
            StorageFault::Fail {
                append, for_good, ..
            } => count == append || (for_good && count > append),
            StorageFault::Kill { append, .. } => count == append,
        };
        hit.then_some(fault)
    }

    /// The first half of a text, up to a whole character; whether it is anything.
    fn write_half(&self, text: &str, half: bool) -> bool {
        let end = if half { text.len() / 2 } else { 0 };
        let kept = &text[..text.floor_char_boundary(end)];
        self.write(kept);
        !kept.is_empty()
    }
}

impl Rollouts for Files {
    fn newest(&self, thread: &str) -> Option<Rc<dyn ReadAt>> {
        self.find(|file| file.thread() == Some(thread))
    }

    fn file(&self, id: &str) -> Option<Rc<dyn ReadAt>> {
        let end = format!("{id}.jsonl");
        self.find(|file| file.name.ends_with(&end))
    }
}

impl RolloutStore for Files {
    fn append(&self, text: &str) -> Result<(), StorageFailure> {
        if self.life.is_dead() {
            return Ok(());
        }
        match self.meets() {
            None => {
                self.write(text);
                self.acknowledged.borrow_mut().push(text.to_owned());
                Ok(())
            }
            Some(StorageFault::Fail {
                append, says, half, ..
            }) => {
                // A full disk takes a part of one line and nothing of the next ones.
                let first = self.appends.get() == append;
                let torn = self.write_half(text, half && first);
                Err(StorageFailure { reason: says, torn })
            }
            Some(StorageFault::Kill { half, .. }) => {
                self.write_half(text, half);
                self.life.end();
                Ok(())
            }
        }
    }
}
