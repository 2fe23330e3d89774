//! Puts records into the rollout: one line each, in order, none rewritten.
//!
//! A record that cannot be written waits, with all that follow it, and is tried again with the next
//! record and when a turn ends. So the file always holds the beginning of what the thread did, and a
//! process that ends loses what waits and nothing else (`rollout.storage.waits`).

use std::collections::VecDeque;
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::items::Item;
use crate::ports::{Clock, RolloutStore, StorageFailure};
use crate::profile::Profile;
use crate::rollout::{item_metadata, timestamp};

/// Writes the lines of one thread.
pub struct Recorder {
    store: Rc<dyn RolloutStore>,
    clock: Rc<dyn Clock>,
    /// Next ordinal of a paginated file.
    ordinal: Option<u64>,
    /// Lines that are not in the file yet, oldest first.
    waiting: VecDeque<String>,
    /// Why the oldest of them is not.
    failure: Option<StorageFailure>,
    /// The file ends inside a line.
    open_end: bool,
    /// Such a line is ended before the next one is written.
    ends_open_lines: bool,
}

impl Recorder {
    /// A recorder at the end of a new file; `ordinal` is `None` for a legacy one.
    pub fn new(
        store: Rc<dyn RolloutStore>,
        clock: Rc<dyn Clock>,
        ordinal: Option<u64>,
        profile: &Profile,
    ) -> Self {
        Self {
            store,
            clock,
            ordinal,
            waiting: VecDeque::new(),
            failure: None,
            open_end: false,
            ends_open_lines: profile.ends_open_lines,
        }
    }

    /// Goes on in a file that has records; `open_end` says that it ends inside a line.
    pub fn go_on(&mut self, ordinal: Option<u64>, open_end: bool) -> Result<(), StorageFailure> {
        self.ordinal = ordinal;
        self.open_end = open_end;
        self.end_line()
    }

    /// Whether the file is paginated.
    pub fn paginated(&self) -> bool {
        self.ordinal.is_some()
    }

    /// Appends one record.
    pub fn line(&mut self, kind: &str, payload: Value, metadata: Option<Value>) {
        let mut map = Map::new();
        map.insert(
            "timestamp".to_owned(),
            json!(timestamp(self.clock.now_ms())),
        );
        if let Some(ordinal) = &mut self.ordinal {
            map.insert("ordinal".to_owned(), json!(*ordinal));
            *ordinal = ordinal.saturating_add(1);
        }
        map.insert("type".to_owned(), json!(kind));
        map.insert("payload".to_owned(), payload);
        if let Some(metadata) = metadata {
            map.insert("metadata".to_owned(), metadata);
        }
        self.waiting.push_back(format!("{}\n", Value::Object(map)));
        self.write();
    }

    /// Appends a record of another file as it is.
    pub fn copy(&mut self, record: &str) {
        self.waiting.push_back(format!("{record}\n"));
        self.write();
    }

    /// Appends an `event_msg`.
    pub fn event(&mut self, payload: Value) {
        self.line("event_msg", payload, None);
    }

    /// Appends a `response_item`.
    pub fn item(&mut self, item: &Item, profile: &Profile) {
        let metadata = profile
            .usage_records
            .then(|| item_metadata(&item.meta, profile))
            // Metadata that says nothing is left out (0.164.0; 0.171.0 always has its sequences).
            .filter(|metadata| metadata.as_object().is_some_and(|map| map.len() > 1));
        self.line("response_item", item.stored(), metadata);
    }

    /// Tries what waits once more; why there is still something.
    pub fn unsaved(&mut self) -> Option<&StorageFailure> {
        if self.failure.is_some() {
            self.write();
        }
        self.failure.as_ref()
    }

    fn write(&mut self) {
        while let Some(line) = self.waiting.front() {
            let written = if self.open_end && self.ends_open_lines {
                self.store.append("\n")
            } else {
                self.store.append(line)
            };
            if let Err(failure) = written {
                self.open_end |= failure.torn;
                self.failure = Some(failure);
                return;
            }
            if !(std::mem::take(&mut self.open_end) && self.ends_open_lines) {
                self.waiting.pop_front();
            }
        }
        self.failure = None;
    }

    /// Ends a line that was left open, where the release does that.
    fn end_line(&mut self) -> Result<(), StorageFailure> {
        if self.open_end && self.ends_open_lines {
            self.store.append("\n")?;
            self.open_end = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
