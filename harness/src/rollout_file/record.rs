//! What a line says: its record, and what is wrong with it.
//!
//! A record is read as Codex reads it (history.md §7): a repeated key counts the last time, unknown
//! keys, spaces and blank lines are accepted. Whether payloads make sense is not judged here.

use serde_json::Value;

use super::line::{Ending, Line};
use super::value::{self, TOO_MANY, VALUES_OF_A_LINE_MAX};

/// One record.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// `type`
    pub kind: String,
    /// Position in the thread; only paginated files count.
    pub ordinal: Option<u64>,
    /// `payload`, an object in every record that is known.
    pub payload: Value,
    /// `metadata`, null where there is none.
    pub metadata: Value,
}

impl Record {
    /// `type` of the payload; empty where there is none.
    pub fn inner(&self) -> &str {
        self.payload["type"].as_str().unwrap_or_default()
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Defect {
    /// Nothing stands in it.
    Blank,
    /// It begins with a byte order mark.
    ByteOrderMark,
    /// It ends with carriage return and newline.
    CarriageReturn,
    /// The file ends without a newline.
    NoFinalNewline,
    /// It holds a NUL at this offset in the line.
    Nul(u64),
    /// It is not UTF-8 from this offset in the line on.
    InvalidUtf8(u64),
    /// It stops in the middle and is the last one of the file.
    Torn,
    /// It stops in the middle, and more lines follow.
    CutOff,
    /// The beginning of a record, and another record behind it at this offset in the line.
    Glued(u64),
    /// A record, and something behind it at this offset in the line.
    Trailing(u64),
    /// It is not JSON: the parser's word, and the offset in the line.
    NotJson(String, u64),
    /// It is JSON and no record: what it lacks.
    NotARecord(&'static str),
    /// It is too long to be looked at whole.
    TooLong,
}

/// How a record begins that this or any later version writes.
const RECORD_HEAD: &[u8] = b"{\"timestamp\":";

/// The record of a line, if Codex would find one, and every defect.
pub fn read(line: &Line) -> (Option<Record>, Vec<Defect>) {
    let mut defects = Vec::new();
    match line.ending {
        Ending::Newline => {}
        Ending::CarriageReturn => defects.push(Defect::CarriageReturn),
        Ending::EndOfFile => defects.push(Defect::NoFinalNewline),
    }
    if line.is_blank() {
        defects.push(Defect::Blank);
        return (None, defects);
    }
    let mut text = line.text.as_slice();
    if let Some(rest) = text.strip_prefix(b"\xEF\xBB\xBF") {
        defects.push(Defect::ByteOrderMark);
        text = rest;
    }
    let skipped = (line.text.len() - text.len()) as u64;
    if let Some(at) = line.nul {
        defects.push(Defect::Nul(at));
        return (None, defects);
    }
    if let Err(error) = std::str::from_utf8(text) {
        // A character that the end of the line cuts is no damage of its own when the record is cut.
        let cut = error.error_len().is_none() && (line.overlong || is_last(line));
        if !cut {
            defects.push(Defect::InvalidUtf8(skipped + error.valid_up_to() as u64));
            return (None, defects);
        }
    }
    if let Some(what) = line.broken_inside {
        defects.push(Defect::NotJson(format!("it holds {what}"), skipped));
        return (None, defects);
    }
    match value::parse(text, VALUES_OF_A_LINE_MAX) {
        Ok((value, _)) => match record(value) {
            Ok(record) => (Some(record), defects),
            Err(what) => {
                defects.push(Defect::NotARecord(what));
                (None, defects)
            }
        },
        Err(error) => {
            defects.push(broken(line, text, skipped, &error));
            (None, defects)
        }
    }
}

fn is_last(line: &Line) -> bool {
    line.ending == Ending::EndOfFile
}

fn broken(line: &Line, text: &[u8], skipped: u64, error: &serde_json::Error) -> Defect {
    let looks_like_json = text.trim_ascii_start().first() == Some(&b'{');
    let said = error.to_string();
    if (line.overlong || said.starts_with(TOO_MANY)) && looks_like_json {
        return Defect::TooLong;
    }
    let column = (error.column() as u64).saturating_sub(1);
    // Columns of a condensed line are not those of the file.
    let at = if line.condensed { 0 } else { skipped + column };
    let mut heads = memchr::memmem::find_iter(text, RECORD_HEAD);
    let second = heads.find(|head| *head > 0);
    if said.starts_with("trailing characters") {
        return Defect::Trailing(at);
    }
    if let Some(second) = second.filter(|_| looks_like_json) {
        return Defect::Glued(skipped + second as u64);
    }
    if error.is_eof() && looks_like_json {
        return if is_last(line) {
            Defect::Torn
        } else {
            Defect::CutOff
        };
    }
    // The parser's word without its position, which is that of the condensed text.
    let word = said.split(" at line ").next().unwrap_or_default();
    Defect::NotJson(word.to_owned(), at)
}

fn record(value: Value) -> Result<Record, &'static str> {
    let Value::Object(mut map) = value else {
        return Err("it is no object");
    };
    let Some(Value::String(kind)) = map.shift_remove("type") else {
        return Err("it has no `type`");
    };
    if !map.get("timestamp").is_some_and(Value::is_string) {
        return Err("it has no `timestamp`");
    }
    let ordinal = match map.get("ordinal") {
        None | Some(Value::Null) => None,
        Some(number) => Some(number.as_u64().ok_or("its `ordinal` is no whole number")?),
    };
    let payload = map.shift_remove("payload").unwrap_or(Value::Null);
    if payload.is_null() {
        return Err("it has no `payload`");
    }
    Ok(Record {
        kind,
        ordinal,
        payload,
        metadata: map.shift_remove("metadata").unwrap_or(Value::Null),
    })
}

#[cfg(test)]
mod tests {
    use super::super::LineReader;
    use super::*;

    const GOOD: &str = r#"{"timestamp":"t","type":"event_msg","payload":{"type":"x"}}"#;

    /// Record found or not, and the defects, of the first line of a file.
    fn first(file: &[u8]) -> (bool, Vec<Defect>) {
        let mut reader = LineReader::new(file);
        let (record, defects) = read(reader.read().unwrap().expect("a line"));
        (record.is_some(), defects)
    }

    fn line(text: &str) -> (bool, Vec<Defect>) {
        first(format!("{text}\n").as_bytes())
    }

    #[test]
    fn a_good_line_has_no_defect() {
        assert_eq!(line(GOOD), (true, vec![]));
        let loose = r#" { "type":"a", "x":1, "payload":{}, "type":"b", "timestamp":"" } "#;
        assert_eq!(line(loose), (true, vec![]));
        assert_eq!(line("  "), (false, vec![Defect::Blank]));
    }

    #[test]
    fn endings_and_marks_are_named() {
        let crlf = format!("{GOOD}\r\n");
        assert_eq!(first(crlf.as_bytes()), (true, vec![Defect::CarriageReturn]));
        assert_eq!(first(GOOD.as_bytes()), (true, vec![Defect::NoFinalNewline]));
        let marked = line(&format!("\u{feff}{GOOD}"));
        assert_eq!(marked, (true, vec![Defect::ByteOrderMark]));
    }

    #[test]
    fn what_is_not_json_is_told_apart() {
        let cut = &GOOD[..GOOD.len() - 9];
        let torn = vec![Defect::NoFinalNewline, Defect::Torn];
        assert_eq!(first(cut.as_bytes()), (false, torn));
        assert_eq!(line(cut), (false, vec![Defect::CutOff]));
        let at = cut.len() as u64;
        assert_eq!(
            line(&format!("{cut}{GOOD}")),
            (false, vec![Defect::Glued(at)])
        );
        let at = GOOD.len() as u64;
        let two = line(&format!("{GOOD}{GOOD}"));
        assert_eq!(two, (false, vec![Defect::Trailing(at)]));
        let (found, defects) = line("{\"timestamp\":\"t\",}");
        assert!(
            !found && matches!(&defects[..], [Defect::NotJson(_, 17)]),
            "{defects:?}"
        );
        let (_, defects) = line(r#"{"type":"\ud800","timestamp":""}"#);
        assert!(matches!(&defects[..], [Defect::NotJson(..)]), "{defects:?}");
    }

    #[test]
    fn bytes_that_are_no_text_are_placed() {
        let nul = GOOD.replace("\"t\"", "\"\0\"");
        assert_eq!(line(&nul), (false, vec![Defect::Nul(14)]));
        let mut bytes = format!("{GOOD}\n").into_bytes();
        bytes[14] = 0xFF;
        assert_eq!(first(&bytes), (false, vec![Defect::InvalidUtf8(14)]));
        // A character whose end was never written belongs to the torn line.
        let torn = first("{\"timestamp\":\"汉".as_bytes().split_last().unwrap().1);
        assert_eq!(torn, (false, vec![Defect::NoFinalNewline, Defect::Torn]));
    }

    #[test]
    fn what_a_record_lacks_is_named() {
        for (text, word) in [
            ("[1]", "it is no object"),
            (r#"{"timestamp":"t","payload":{}}"#, "it has no `type`"),
            (r#"{"type":"x","payload":{}}"#, "it has no `timestamp`"),
            (r#"{"timestamp":"t","type":"x"}"#, "it has no `payload`"),
            (
                r#"{"timestamp":"t","type":"x","payload":null}"#,
                "it has no `payload`",
            ),
            (
                r#"{"timestamp":"t","type":"x","ordinal":"1","payload":{}}"#,
                "its `ordinal` is no whole number",
            ),
            (
                r#"{"timestamp":"t","type":"x","ordinal":-1,"payload":{}}"#,
                "its `ordinal` is no whole number",
            ),
        ] {
            assert_eq!(
                line(text),
                (false, vec![Defect::NotARecord(word)]),
                "{text}"
            );
        }
    }

    #[test]
    fn a_line_beyond_every_bound_is_too_long() {
        let text = format!("{{\"timestamp\":\"t\",\"x\":[{}", "1,".repeat(6_000_000));
        assert_eq!(line(&text), (false, vec![Defect::TooLong]));
        let text = format!("{{\"timestamp\":\"t\",\"x\":[{}1]}}", "1,".repeat(300_000));
        assert_eq!(
            line(&text),
            (false, vec![Defect::TooLong]),
            "too many values"
        );
        let (_, defects) = line(&"x".repeat(20_000_000));
        assert!(
            matches!(&defects[..], [Defect::NotJson(_, 0)]),
            "{defects:?}"
        );
    }
}
