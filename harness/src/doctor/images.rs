//! Images of a file: the same data URL stored more than once, and how often in checkpoints.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::rollout_file::{Line, Place};

/// Images that are told apart; further ones are counted and not compared.
const IMAGES_MAX: usize = 50_000;
/// Images that a report lists.
const LISTED_MAX: usize = 10;
/// Wasted bytes from which on it is a warning and no note.
pub const WASTED_BYTES_WARNED: u64 = 1024 * 1024;

/// Images found in one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// How many.
    pub count: u64,
    /// Bytes of their data URLs.
    pub bytes: u64,
}

#[derive(Debug)]
struct Seen {
    bytes: u64,
    stored: u64,
    in_checkpoints: u64,
    first: Place,
}

/// The images of a file.
#[derive(Debug, Default)]
pub struct Images {
    known: BTreeMap<[u8; 16], Seen>,
    stored: u64,
    bytes: u64,
}

/// What a report says of the images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImagesReport {
    /// Different images.
    pub distinct: u64,
    /// Data URLs in the file.
    pub stored: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Copies in checkpoints.
    pub in_checkpoints: u64,
    /// Bytes of copies in checkpoints that repeat what the file holds already.
    pub wasted_bytes: u64,
    /// Those that waste most.
    pub repeated: Vec<Repeated>,
}

/// An image that checkpoints repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repeated {
    /// First place.
    pub line: u64,
    /// First place.
    pub offset: u64,
    /// Bytes of one copy.
    pub bytes: u64,
    /// Copies in the file.
    pub stored: u64,
    /// Copies in checkpoints.
    pub in_checkpoints: u64,
    /// Bytes of copies that repeat.
    pub wasted_bytes: u64,
}

impl Images {
    /// Looks for data URLs in a value of this line.
    pub fn see(&mut self, value: &Value, line: &Line, in_checkpoint: bool) -> Found {
        let mut found = Found::default();
        self.walk(value, line, in_checkpoint, &mut found);
        found
    }

    fn walk(&mut self, value: &Value, line: &Line, in_checkpoint: bool, found: &mut Found) {
        match value {
            Value::String(text) if is_image(text) => {
                let (bytes, hash) = measure(text, line);
                found.count += 1;
                found.bytes += bytes;
                self.add(hash, bytes, line.place, in_checkpoint);
            }
            Value::Array(list) => {
                for value in list {
                    self.walk(value, line, in_checkpoint, found);
                }
            }
            Value::Object(map) => {
                for value in map.values() {
                    self.walk(value, line, in_checkpoint, found);
                }
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn add(&mut self, hash: [u8; 16], bytes: u64, first: Place, in_checkpoint: bool) {
        self.stored += 1;
        self.bytes += bytes;
        if self.known.len() >= IMAGES_MAX && !self.known.contains_key(&hash) {
            return;
        }
        let seen = self.known.entry(hash).or_insert(Seen {
            bytes,
            stored: 0,
            in_checkpoints: 0,
            first,
        });
        seen.stored += 1;
        seen.in_checkpoints += u64::from(in_checkpoint);
    }

    /// The report.
    pub fn finish(self) -> ImagesReport {
        let distinct = self.known.len() as u64;
        let in_checkpoints = self.known.values().map(|seen| seen.in_checkpoints).sum();
        let mut repeated: Vec<Repeated> = self
            .known
            .into_values()
            .filter(|seen| seen.in_checkpoints > 0 && seen.stored > 1)
            .map(|seen| Repeated {
                line: seen.first.line,
                offset: seen.first.offset,
                bytes: seen.bytes,
                stored: seen.stored,
                in_checkpoints: seen.in_checkpoints,
                wasted_bytes: seen.bytes * seen.in_checkpoints.min(seen.stored - 1),
            })
            .collect();
        let wasted_bytes = repeated.iter().map(|image| image.wasted_bytes).sum();
        repeated.sort_by_key(|image| (u64::MAX - image.wasted_bytes, image.line, image.offset));
        repeated.truncate(LISTED_MAX);
        ImagesReport {
            distinct,
            stored: self.stored,
            bytes: self.bytes,
            in_checkpoints,
            wasted_bytes,
            repeated,
        }
    }
}

/// Bytes before the data of a URL in which its media type stands.
const HEAD_BYTES: usize = 128;

fn is_image(text: &str) -> bool {
    let head = &text[..text.floor_char_boundary(HEAD_BYTES)];
    head.starts_with("data:image/") && head.contains(',')
}

/// Length and hash of a data URL, cut or not.
fn measure(text: &str, line: &Line) -> (u64, [u8; 16]) {
    let (bytes, whole): (u64, [u8; 32]) = match line.cut(text) {
        Some(cut) => (cut.bytes, cut.sha256),
        None => (text.len() as u64, Sha256::digest(text.as_bytes()).into()),
    };
    let mut hash = [0; 16];
    hash.copy_from_slice(&whole[..16]);
    (bytes, hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout_file::{LineReader, line::LINE_BYTES_WHOLE_MAX, record};
    use serde_json::json;

    const URL: &str = "data:image/png;base64,AAAA";

    #[test]
    fn copies_in_checkpoints_are_waste() {
        let mut images = Images::default();
        let line = Line::default();
        let item =
            json!({"content": [{"image_url": URL}, {"image_url": "data:image/png;base64,B"}]});
        assert_eq!(
            images.see(&item, &line, false),
            Found {
                count: 2,
                bytes: 49
            }
        );
        for _ in 0..3 {
            images.see(
                &json!({"replacement_history": [{"image_url": URL}]}),
                &line,
                true,
            );
        }
        images.see(
            &json!("https://example.com/data:image/png;base64,"),
            &line,
            false,
        );
        let report = images.finish();
        assert_eq!(
            (report.distinct, report.stored, report.in_checkpoints),
            (2, 5, 3)
        );
        assert_eq!(report.wasted_bytes, 3 * 26);
        assert_eq!((report.repeated.len(), report.repeated[0].stored), (1, 4));
    }

    #[test]
    fn an_image_that_only_checkpoints_hold_is_there_once() {
        let mut images = Images::default();
        for _ in 0..2 {
            images.see(&json!([URL]), &Line::default(), true);
        }
        assert_eq!(images.finish().wasted_bytes, 26);
    }

    #[test]
    fn a_cut_image_is_the_same_as_a_whole_one() {
        let url = format!("data:image/png;base64,{}", "A".repeat(10_000));
        let file = format!(
            "{{\"timestamp\":\"\",\"type\":\"x\",\"payload\":[\"{url}\",\"{}\"]}}\n",
            "x".repeat(LINE_BYTES_WHOLE_MAX)
        );
        let mut reader = LineReader::new(file.as_bytes());
        let line = reader.read().unwrap().unwrap();
        let (record, _) = record::read(line);
        let mut images = Images::default();
        images.see(&record.expect("a record").payload, line, true);
        images.see(&json!(url), &Line::default(), false);
        assert_eq!(images.finish().distinct, 1);
    }
}
