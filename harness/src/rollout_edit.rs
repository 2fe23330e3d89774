//! Edits of a rollout file between two steps: by predicate, never by byte.
//!
//! The same edit works on the file of a real binary and on that of an engine: what it is about is
//! found by the kind of a record and by texts that the scenario knows. The drivers read and write
//! the file; here it is bytes in and bytes out.

use serde_json::Value;

use crate::golden::rollout::kind_of;

/// Stands in front of some files.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Kind that matches every line.
pub const ANY: &str = "any";

/// One edit of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The oldest file of the thread instead of the newest.
    pub oldest: bool,
    /// The line that it is about; the end of the file without one.
    pub record: Option<RecordAt>,
    /// What is done.
    pub change: Change,
}

/// How a line is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordAt {
    /// The last one that fits instead of the first.
    pub last: bool,
    /// `response_item`, `response_item/message/user`, …; [`ANY`] for each line.
    pub kind: String,
    /// A text that stands in it.
    pub holding: Option<String>,
}

/// What an edit does.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The file ends behind the line.
    CutAfter,
    /// The file ends behind the line, without its newline.
    CutNewline,
    /// The file ends inside the line, right behind this text.
    CutInside(String),
    /// The line is gone.
    Drop,
    /// The next line stands on the same line.
    DropNewline,
    /// A key of the record is gone; a JSON pointer.
    DropKey(String),
    /// A text of the line is replaced by bytes.
    Text {
        /// The text; its first place counts.
        text: String,
        /// What stands there instead.
        by: Vec<u8>,
    },
    /// The whole line is replaced.
    Line(String),
    /// A key of the record is set; a JSON pointer.
    SetKey(String, Value),
    /// A line follows.
    Append(String),
    /// A text without a newline follows.
    AppendOpen(String),
    /// The line stands twice.
    Copy,
    /// A byte order mark stands in front of the file.
    ByteOrderMark,
    /// A carriage return stands in front of the line's newline.
    CarriageReturn,
    /// Nothing is left of the file but its name.
    Empty,
    /// Nothing but a newline is left.
    OnlyNewline,
    /// No record has this key any more; a JSON pointer.
    DropKeyEverywhere(String),
    /// The file is gone.
    Remove,
    /// Every file of the home is gone with the folder that holds them.
    RemoveFolder,
}

/// Edits a file: the new bytes, `None` where it is removed.
pub fn apply(edit: &Edit, file: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut lines: Vec<Vec<u8>> = file
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    match &edit.change {
        Change::Remove | Change::RemoveFolder => return Ok(None),
        Change::Empty => return Ok(Some(Vec::new())),
        Change::OnlyNewline => return Ok(Some(b"\n".to_vec())),
        Change::ByteOrderMark => return Ok(Some([BYTE_ORDER_MARK, file].concat())),
        Change::DropKeyEverywhere(pointer) => {
            for line in &mut lines {
                // A record that has no such key stays as it is.
                let _ = change_record(line, |record| drop_key(record, pointer));
            }
            return Ok(Some(lines.concat()));
        }
        _ => {}
    }
    let place = match &edit.record {
        Some(at) => find(&lines, at)?,
        None => lines.len().saturating_sub(1),
    };
    change_line(&mut lines, place, &edit.change)?;
    Ok(Some(lines.concat()))
}

fn change_line(lines: &mut Vec<Vec<u8>>, place: usize, change: &Change) -> Result<(), String> {
    let behind = (place + 1).min(lines.len());
    match change {
        Change::Append(text) => lines.insert(behind, format!("{text}\n").into_bytes()),
        Change::AppendOpen(text) => {
            lines.truncate(behind);
            lines.push(text.clone().into_bytes());
        }
        _ if lines.is_empty() => return Err("the rollout has no line".to_owned()),
        Change::CutAfter => lines.truncate(behind),
        Change::CutNewline => {
            lines.truncate(behind);
            lines[place].pop_if(|last| *last == b'\n');
        }
        Change::CutInside(text) => {
            let at = position(&lines[place], text)?;
            lines.truncate(behind);
            lines[place].truncate(at + text.len());
        }
        Change::Drop => drop(lines.remove(place)),
        Change::DropNewline => drop(lines[place].pop_if(|last| *last == b'\n')),
        Change::Text { text, by } => {
            let at = position(&lines[place], text)?;
            lines[place].splice(at..at + text.len(), by.iter().copied());
        }
        Change::Line(text) => lines[place] = format!("{text}\n").into_bytes(),
        Change::CarriageReturn => {
            if lines[place].pop_if(|last| *last == b'\n').is_some() {
                lines[place].extend(b"\r\n");
            }
        }
        Change::Copy => lines.insert(behind, lines[place].clone()),
        Change::DropKey(pointer) => {
            change_record(&mut lines[place], |record| drop_key(record, pointer))?;
        }
        Change::SetKey(pointer, value) => change_record(&mut lines[place], |record| {
            set_key(record, pointer, value.clone())
        })?,
        Change::ByteOrderMark
        | Change::Empty
        | Change::OnlyNewline
        | Change::DropKeyEverywhere(_)
        | Change::Remove
        | Change::RemoveFolder => {}
    }
    Ok(())
}

/// Place of a text in a line.
fn position(line: &[u8], text: &str) -> Result<usize, String> {
    line.windows(text.len().max(1))
        .position(|window| window == text.as_bytes())
        .ok_or_else(|| format!("the record does not hold `{text}`"))
}

fn find(lines: &[Vec<u8>], at: &RecordAt) -> Result<usize, String> {
    let fits = |line: &Vec<u8>| {
        let holds = at.holding.as_deref();
        holds.is_none_or(|text| position(line, text).is_ok())
            && (at.kind == ANY || kind(line).is_some_and(|kind| is_a(&kind, &at.kind)))
    };
    let found = if at.last {
        lines.iter().rposition(fits)
    } else {
        lines.iter().position(fits)
    };
    found.ok_or_else(|| {
        let which = if at.last { "last" } else { "first" };
        let holding = at.holding.as_ref();
        let holding = holding.map_or(String::new(), |text| format!(" holding `{text}`"));
        format!("no record is `{which}: {}`{holding}", at.kind)
    })
}

fn kind(line: &[u8]) -> Option<String> {
    kind_of(&serde_json::from_slice(line).ok()?)
}

/// Whether a kind is the one asked for, or one below it.
fn is_a(kind: &str, asked: &str) -> bool {
    let rest = kind.strip_prefix(asked);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn change_record(
    line: &mut Vec<u8>,
    change: impl FnOnce(&mut Value) -> Result<(), String>,
) -> Result<(), String> {
    let mut record: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    change(&mut record)?;
    *line = format!("{record}\n").into_bytes();
    Ok(())
}

/// The object that holds the last key of a pointer, and that key.
fn parent<'a>(
    record: &'a mut Value,
    pointer: &str,
) -> Result<(&'a mut serde_json::Map<String, Value>, String), String> {
    let (above, key) = pointer
        .rsplit_once('/')
        .ok_or("a pointer begins with `/`")?;
    let object = record.pointer_mut(above).and_then(Value::as_object_mut);
    let object = object.ok_or_else(|| format!("the record has no object at `{above}`"))?;
    Ok((object, key.replace("~1", "/").replace("~0", "~")))
}

fn drop_key(record: &mut Value, pointer: &str) -> Result<(), String> {
    let (object, key) = parent(record, pointer)?;
    let gone = object.shift_remove(&key);
    gone.map(drop)
        .ok_or_else(|| format!("the record has no `{pointer}`"))
}

fn set_key(record: &mut Value, pointer: &str, value: Value) -> Result<(), String> {
    let (object, key) = parent(record, pointer)?;
    object.insert(key, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FILE: &str = "{\"type\":\"session_meta\",\"ordinal\":0,\"payload\":{}}\n\
        {\"type\":\"response_item\",\"ordinal\":1,\"payload\":{\"type\":\"message\",\"role\":\"user\",\"t\":\"U1\"}}\n\
        {\"type\":\"response_item\",\"ordinal\":2,\"payload\":{\"type\":\"message\",\"role\":\"assistant\",\"t\":\"A1\"}}\n";

    fn at(last: bool, kind: &str, holding: Option<&str>) -> RecordAt {
        RecordAt {
            last,
            kind: kind.to_owned(),
            holding: holding.map(str::to_owned),
        }
    }

    fn edited(record: RecordAt, change: Change) -> Result<String, String> {
        of(Some(record), change)
    }

    fn whole(change: Change) -> Result<String, String> {
        of(None, change)
    }

    fn of(record: Option<RecordAt>, change: Change) -> Result<String, String> {
        let edit = Edit {
            oldest: false,
            record,
            change,
        };
        let bytes = apply(&edit, FILE.as_bytes())?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn lines(of: Result<String, String>) -> Vec<String> {
        of.expect("edited").lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_record_is_found_by_kind_and_text() {
        let user = lines(edited(
            at(true, "response_item/message/user", None),
            Change::CutAfter,
        ));
        assert_eq!(user.len(), 2);
        let any = lines(edited(at(false, ANY, Some("A1")), Change::Drop));
        assert_eq!(any.len(), 2);
        assert!(!any.concat().contains("A1"));
        let none = edited(at(true, "compacted", Some("x")), Change::Drop).unwrap_err();
        assert_eq!(none, "no record is `last: compacted` holding `x`");
        let part = edited(at(false, "response", None), Change::Drop).unwrap_err();
        assert_eq!(part, "no record is `first: response`");
    }

    #[test]
    fn cuts_end_the_file_where_they_say() {
        let last = || at(true, "response_item", None);
        let inside = edited(last(), Change::CutInside("\"t\":\"A".to_owned())).unwrap();
        assert!(inside.ends_with("\"t\":\"A"), "{inside}");
        assert!(edited(last(), Change::CutInside("U1".to_owned())).is_err());
        let newline = edited(last(), Change::CutNewline).unwrap();
        assert_eq!(format!("{newline}\n"), FILE);
    }

    #[test]
    fn lines_are_dropped_glued_copied_and_replaced() {
        let first = || at(false, "session_meta", None);
        assert_eq!(lines(edited(first(), Change::DropNewline)).len(), 2);
        let copied = lines(edited(first(), Change::Copy));
        assert_eq!(copied[0], copied[1]);
        assert_eq!(lines(edited(first(), Change::Line("x".into())))[0], "x");
        assert_eq!(lines(whole(Change::Append("x".into())))[3], "x");
        let open = whole(Change::AppendOpen("x".into())).unwrap();
        assert_eq!(open, format!("{FILE}x"));
        let by = Change::Text {
            text: "A1".to_owned(),
            by: vec![0],
        };
        assert!(
            edited(at(true, ANY, None), by)
                .unwrap()
                .contains("\"t\":\"\0\"")
        );
    }

    #[test]
    fn keys_are_set_and_dropped() {
        let last = || at(true, "response_item", None);
        let set = Change::SetKey("/payload/id".to_owned(), json!("x"));
        assert!(lines(edited(last(), set))[2].contains("\"id\":\"x\""));
        let drop = Change::DropKey("/ordinal".to_owned());
        assert!(!lines(edited(last(), drop))[2].contains("ordinal"));
        assert!(edited(last(), Change::DropKey("/nothing".to_owned())).is_err());
        let odd = Change::SetKey("/payload/a~1b~0".to_owned(), json!(1));
        assert!(lines(edited(last(), odd))[2].contains("\"a/b~\":1"));
        let all = Change::DropKeyEverywhere("/ordinal".to_owned());
        assert!(!whole(all).unwrap().contains("ordinal"));
    }

    #[test]
    fn a_whole_file_is_marked_emptied_and_removed() {
        assert!(
            whole(Change::ByteOrderMark)
                .unwrap()
                .starts_with('\u{feff}')
        );
        let returned = edited(at(true, ANY, None), Change::CarriageReturn).unwrap();
        assert!(returned.ends_with("}\r\n"), "{returned}");
        assert_eq!(whole(Change::Empty).unwrap(), "");
        assert_eq!(whole(Change::OnlyNewline).unwrap(), "\n");
        for change in [Change::Remove, Change::RemoveFolder] {
            let edit = Edit {
                oldest: false,
                record: None,
                change,
            };
            assert_eq!(apply(&edit, FILE.as_bytes()), Ok(None));
        }
    }
}
