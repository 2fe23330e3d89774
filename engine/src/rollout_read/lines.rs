//! From the bytes of a rollout file to its lines, damaged ones included.
//!
//! What a release leaves out it leaves out without a word; here every such line is counted with its
//! reason, and the profile decides whether a client hears of it.

use std::fmt;

use serde_json::Value;

use super::Unreadable;
use crate::profile::Profile;

/// What stands in front of some files.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// How every record begins: a text inside a record cannot hold it, since its quotes are escaped.
const RECORD_START: &str = r#"{"timestamp":""#;

/// The lines of a file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lines {
    /// Records in file order.
    pub records: Vec<Value>,
    /// The file ends inside a line.
    pub open_end: bool,
    /// What is no record.
    pub skipped: Vec<Skipped>,
}

/// A line, or a part of one, that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its number, from 1.
    pub line: usize,
    /// How long it is.
    pub bytes: usize,
    /// Why it is no record.
    pub why: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, bytes, why } = self;
        write!(f, "line {line} ({bytes} bytes): {why}")
    }
}

/// Reads the lines of a file.
pub fn lines(file: &[u8], profile: &Profile) -> Result<Lines, Unreadable> {
    let bytes = if profile.reads_byte_order_mark {
        file
    } else {
        file.strip_prefix(BYTE_ORDER_MARK).unwrap_or(file)
    };
    let mut lines = Lines {
        open_end: bytes.last().is_some_and(|last| *last != b'\n'),
        ..Lines::default()
    };
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let Ok(text) = std::str::from_utf8(line) else {
            if profile.refuses_invalid_utf8 {
                return Err(Unreadable::NotUtf8);
            }
            lines.take_pieces(index + 1, &String::from_utf8_lossy(line), profile);
            continue;
        };
        match record(text, profile) {
            Ok(record) => lines.records.push(record),
            Err(why) if profile.loses_glued_records => lines.skip(index + 1, text, why),
            Err(_) => lines.take_pieces(index + 1, text, profile),
        }
    }
    Ok(lines)
}

/// A record as every release takes it: an object with the time it was written.
fn record(text: &str, profile: &Profile) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if !value["timestamp"].is_string() {
        return Err("it has no `timestamp`".to_owned());
    }
    let ordinal = &value["ordinal"];
    if profile.reads_ordinals && !ordinal.is_null() && !ordinal.is_u64() {
        return Err("its `ordinal` is no number".to_owned());
    }
    Ok(value)
}

impl Lines {
    fn skip(&mut self, line: usize, text: &str, why: String) {
        let bytes = text.len();
        self.skipped.push(Skipped { line, bytes, why });
    }

    /// Takes a line that is no record apart: whole records that stand on it are read.
    fn take_pieces(&mut self, line: usize, text: &str, profile: &Profile) {
        let starts = text.match_indices(RECORD_START).map(|(at, _)| at);
        let mut cuts: Vec<usize> = starts.filter(|at| *at > 0).collect();
        if profile.loses_glued_records {
            cuts.clear();
        }
        cuts.insert(0, 0);
        cuts.push(text.len());
        for pair in cuts.windows(2) {
            let piece = &text[pair[0]..pair[1]];
            let readable = !piece.contains(char::REPLACEMENT_CHARACTER);
            match record(piece, profile) {
                Ok(record) if readable => self.records.push(record),
                Ok(_) => self.skip(line, piece, "it is not UTF-8".to_owned()),
                Err(_) if !readable => self.skip(line, piece, "it is not UTF-8".to_owned()),
                Err(why) => self.skip(line, piece, why),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Version;

    const A: &str = r#"{"timestamp":"t","ordinal":1,"type":"a","payload":{}}"#;
    const B: &str = r#"{"timestamp":"t","ordinal":2,"type":"b","payload":{}}"#;

    /// Types of the records that are read, and the lines that are not.
    fn read(file: &[u8], profile: &Profile) -> Result<(String, Vec<usize>), Unreadable> {
        let lines = lines(file, profile)?;
        let types = lines
            .records
            .iter()
            .filter_map(|record| record["type"].as_str());
        Ok((
            types.collect(),
            lines.skipped.iter().map(|s| s.line).collect(),
        ))
    }

    fn both() -> [Profile; 2] {
        [Profile::of(Version::V164), Profile::fixed(Version::V164)]
    }

    #[test]
    fn every_line_that_is_no_record_is_counted_with_its_place() {
        let file = format!("{A}\n\nnoise\n[1]\n{{\"type\":\"x\"}}\r\n{B}\r\n");
        for profile in both() {
            let found = read(file.as_bytes(), &profile);
            assert_eq!(found, Ok(("ab".to_owned(), vec![3, 4, 5])));
        }
        let lines = lines(file.as_bytes(), &both()[0]).expect("readable");
        let told = lines.skipped[2].to_string();
        assert_eq!(told, "line 5 (13 bytes): it has no `timestamp`");
        assert!(!lines.open_end);
    }

    #[test]
    fn glued_records_are_read_where_that_fault_is_mended() {
        let torn = &A[..30];
        let file = format!("{A}{B}\n{torn}{B}");
        let [release, fixed] = both();
        let lost = read(file.as_bytes(), &release);
        assert_eq!(lost, Ok((String::new(), vec![1, 2])));
        let found = read(file.as_bytes(), &fixed);
        assert_eq!(found, Ok(("abb".to_owned(), vec![2])));
        assert!(lines(file.as_bytes(), &fixed).expect("readable").open_end);
    }

    #[test]
    fn a_record_named_inside_a_text_is_no_record() {
        let text = A.replace("{}", &serde_json::json!({"text": B}).to_string());
        let file = format!("{text}\n{}", &text[..text.len() - 3]);
        for profile in both() {
            let found = read(file.as_bytes(), &profile);
            assert_eq!(found, Ok(("a".to_owned(), vec![2])));
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_refuse_the_file_on_0_144_and_lose_their_line_elsewhere() {
        let file = [A.as_bytes(), b"\n\"\xff\"\n", B.as_bytes(), b"\n"].concat();
        let old = Profile::of(Version::V144);
        assert_eq!(read(&file, &old), Err(Unreadable::NotUtf8));
        for profile in [both(), [Profile::fixed(Version::V144), both()[0].clone()]].concat() {
            assert_eq!(read(&file, &profile), Ok(("ab".to_owned(), vec![2])));
        }
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_where_that_fault_is_mended() {
        let file = format!("\u{feff}{A}\n");
        let [release, fixed] = both();
        assert_eq!(
            read(file.as_bytes(), &release),
            Ok((String::new(), vec![1]))
        );
        assert_eq!(read(file.as_bytes(), &fixed), Ok(("a".to_owned(), vec![])));
    }

    #[test]
    fn an_ordinal_that_is_no_number_loses_its_record_where_ordinals_are_read() {
        let file = A.replace(":1,", ":\"1\",");
        let [release, _] = both();
        assert_eq!(
            read(file.as_bytes(), &release),
            Ok((String::new(), vec![1]))
        );
        let old = Profile::of(Version::V144);
        assert_eq!(read(file.as_bytes(), &old), Ok(("a".to_owned(), vec![])));
    }
}
