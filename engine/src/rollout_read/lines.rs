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
    /// Its file, where the thread lies in several.
    pub file: Option<FileOf>,
    /// Its number in the file, from 1.
    pub line: usize,
    /// How long it is.
    pub bytes: usize,
    /// Why it is no record.
    pub why: String,
}

/// A file of a thread that lies in several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOf {
    /// Its number, from 1 for the oldest.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// The id that its name ends with; a file that goes by that of its thread has none.
    pub id: Option<String>,
}

impl fmt::Display for FileOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, of, id } = self;
        write!(f, "file {number} of {of}")?;
        match id {
            Some(id) => write!(f, " ({id})"),
            None if number == of => f.write_str(" (the newest)"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            bytes,
            why,
        } = self;
        if let Some(file) = file {
            write!(f, "{file}, ")?;
        }
        write!(f, "line {line} ({bytes} bytes): {why}")
    }
}

/// Reads the lines of a file.
pub fn lines(file: &[u8], profile: &Profile) -> Result<Lines, Unreadable> {
    let mut lines = Lines {
        open_end: file.last().is_some_and(|last| *last != b'\n'),
        ..Lines::default()
    };
    let mut at = 0;
    for (index, line) in file.split(|byte| *byte == b'\n').enumerate() {
        take_apart(line, at, profile, &mut |piece| match piece.record {
            Ok(record) => lines.records.push(record),
            Err(why) => lines.skipped.push(Skipped {
                file: None,
                line: index + 1,
                bytes: piece.bytes,
                why,
            }),
        })?;
        at += line.len() as u64 + 1;
    }
    Ok(lines)
}

/// A line, or a part of one.
pub(super) struct Piece {
    /// Where it begins in the file.
    pub(super) offset: u64,
    /// How long it is.
    pub(super) bytes: usize,
    /// The record that it is, or why it is none.
    pub(super) record: Result<Value, String>,
}

/// Shows the pieces of the line that begins at `offset`, in order: one, unless whole records stand on
/// a line that is none and this profile reads them. A piece taken for a line is shown as it was.
pub(super) fn take_apart(
    line: &[u8],
    offset: u64,
    profile: &Profile,
    show: &mut dyn FnMut(Piece),
) -> Result<(), Unreadable> {
    let passed_over = offset == 0 && !profile.reads_byte_order_mark;
    let mark = passed_over && line.starts_with(BYTE_ORDER_MARK);
    let line = if mark {
        &line[BYTE_ORDER_MARK.len()..]
    } else {
        line
    };
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    if profile.refuses_invalid_utf8 && std::str::from_utf8(line).is_err() {
        return Err(Unreadable::NotUtf8);
    }
    let whole = record(line, profile);
    let mut cuts = vec![0];
    if whole.is_err() && !profile.loses_glued_records {
        let starts = line.windows(RECORD_START.len()).enumerate().skip(1);
        let starts = starts.filter(|(_, text)| *text == RECORD_START.as_bytes());
        cuts.extend(starts.map(|(at, _)| at));
    }
    if cuts.len() == 1 {
        show(Piece {
            offset,
            bytes: line.len(),
            record: whole,
        });
        return Ok(());
    }
    cuts.push(line.len());
    let front = if mark { BYTE_ORDER_MARK.len() } else { 0 };
    for pair in cuts.windows(2) {
        let piece = &line[pair[0]..pair[1]];
        // The first one begins where its line does, so that the mark is passed over again.
        let at = if pair[0] == 0 { 0 } else { front + pair[0] };
        show(Piece {
            offset: offset + at as u64,
            bytes: piece.len(),
            record: record(piece, profile),
        });
    }
    Ok(())
}

/// A record as every release takes it: an object with the time it was written.
fn record(bytes: &[u8], profile: &Profile) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
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
