//! The steps `edit_rollout` and `storage`: their YAML, and what a driver gets of them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::plan::{StorageFault, StorageStep};
use super::texts::text;
use super::values::{Nothing, Text};
use crate::rollout_edit::{Change, Edit, RecordAt};

/// What a full disk says.
const DISK_FULL: &str = "No space left on device (os error 28)";

/// A change of the rollout file, found by predicate. With `record` one of `cut`, `drop`, `replace`,
/// `append`; without it `append` at the end of the file, or `bytes` for the whole of it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditRollout {
    /// Which file of the thread: `newest` (the default) or `oldest`.
    pub segment: Option<Segment>,
    /// Which record: `{last: response_item}`, `{first: event_msg/task_started}`, `{last: any}`.
    pub record: Option<RecordPredicate>,
    /// Ends the file: behind the record, or inside it.
    pub cut: Option<Cut>,
    /// Drops the record, its newline, or a key of it.
    pub drop: Option<DropPart>,
    /// Replaces the record, a text in it, or a key of it.
    pub replace: Option<Replace>,
    /// Appends behind the record.
    pub append: Option<Append>,
    /// Changes the whole file: `byte_order_mark`, `empty`, `only_newline`,
    /// `no_ordinals`, `removed`, `folder_removed`.
    pub bytes: Option<WholeFile>,
}

/// A file of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Segment {
    /// The one that is written to.
    Newest,
    /// The first one.
    Oldest,
}

/// A record by its kind: `type`, or `type/payload type`, with a message's role behind it. Exactly one
/// of `first` and `last`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordPredicate {
    /// The first record of this kind; `any` is every line.
    pub first: Option<String>,
    /// The last record of this kind; `any` is every line.
    pub last: Option<String>,
    /// Only lines that hold this text.
    pub holding: Option<String>,
}

/// Where the file ends; exactly one.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Behind the record.
    pub after: Option<Nothing>,
    /// Behind the record, and without its newline.
    pub newline: Option<Nothing>,
    /// Inside the record, right behind this text.
    pub inside: Option<Text>,
}

/// What is dropped; exactly one.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropPart {
    /// The record.
    pub record: Option<Nothing>,
    /// Its newline: the next record stands on the same line.
    pub newline: Option<Nothing>,
    /// A key of it, as a JSON pointer.
    pub key: Option<String>,
}

/// What is replaced: `line`, or `text` with `by` or `hex`, or `key` with `value`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    /// The whole line.
    pub line: Option<Text>,
    /// A text of the line; its first place counts.
    pub text: Option<Text>,
    /// What stands there instead.
    pub by: Option<Text>,
    /// The bytes that stand there instead, in hexadecimal (`00`, `ff`).
    pub hex: Option<String>,
    /// A key of the record, as a JSON pointer.
    pub key: Option<String>,
    /// Its value.
    pub value: Option<Value>,
}

/// What is appended; exactly one.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Append {
    /// A line.
    pub line: Option<Text>,
    /// A text without a newline; the file ends with it.
    pub open: Option<Text>,
    /// The record once more.
    pub copy: Option<Nothing>,
    /// A carriage return in front of its newline.
    pub carriage_return: Option<Nothing>,
}

/// A change of the whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WholeFile {
    /// A byte order mark stands in front.
    ByteOrderMark,
    /// Nothing is left but the name.
    Empty,
    /// Nothing is left but a newline.
    OnlyNewline,
    /// No record has an ordinal.
    NoOrdinals,
    /// The file is gone.
    Removed,
    /// The folder of all rollouts is gone.
    FolderRemoved,
}

/// A fault of the storage from here on (engine only). Exactly one of `fail_append`, `kill_at_append`
/// and `works`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// The n-th append from here on fails, counted from 1.
    pub fail_append: Option<usize>,
    /// With `fail_append`: all later ones fail too, as on a full disk.
    pub for_good: Option<Nothing>,
    /// What the system says; by default that the disk is full.
    pub says: Option<String>,
    /// The process is killed at the n-th append from here on.
    pub kill_at_append: Option<usize>,
    /// How much of that append is on disk: `nothing` (the default), or `half` of the line.
    pub writes: Option<Writes>,
    /// The storage works again.
    pub works: Option<Nothing>,
}

/// How much of an append is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Writes {
    /// Not a byte.
    #[default]
    Nothing,
    /// The first half of the line.
    Half,
}

impl EditRollout {
    /// What a driver gets of it; says what does not fit together.
    pub(super) fn resolve(&self) -> Result<Edit, String> {
        let record = self.record.as_ref().map(RecordPredicate::resolve);
        let record = record.transpose()?;
        let mut changes = Vec::new();
        if let Some(cut) = &self.cut {
            changes.push(cut.resolve()?);
        }
        if let Some(part) = &self.drop {
            changes.push(part.resolve()?);
        }
        if let Some(replace) = &self.replace {
            changes.push(replace.resolve()?);
        }
        if let Some(append) = &self.append {
            changes.push(append.resolve()?);
        }
        if let Some(bytes) = self.bytes {
            changes.push(bytes.resolve());
        }
        let [change] = <[Change; 1]>::try_from(changes).map_err(|found| {
            format!(
                "`edit_rollout` is exactly one of `cut`, `drop`, `replace`, `append`, `bytes`, not {}",
                found.len()
            )
        })?;
        let at_end = matches!(change, Change::Append(_) | Change::AppendOpen(_));
        if self.bytes.is_none() && record.is_none() && !at_end {
            return Err("`edit_rollout` says no `record`".to_owned());
        }
        if self.bytes.is_some() && record.is_some() {
            return Err("`bytes` is about the whole file, not about a `record`".to_owned());
        }
        Ok(Edit {
            oldest: self.segment == Some(Segment::Oldest),
            record,
            change,
        })
    }
}

impl RecordPredicate {
    fn resolve(&self) -> Result<RecordAt, String> {
        let (last, kind) = match (&self.first, &self.last) {
            (Some(kind), None) => (false, kind),
            (None, Some(kind)) => (true, kind),
            _ => return Err("`record` has exactly one of `first` and `last`".to_owned()),
        };
        Ok(RecordAt {
            last,
            kind: kind.clone(),
            holding: self.holding.clone(),
        })
    }
}

impl Cut {
    fn resolve(&self) -> Result<Change, String> {
        match (&self.after, &self.newline, &self.inside) {
            (Some(_), None, None) => Ok(Change::CutAfter),
            (None, Some(_), None) => Ok(Change::CutNewline),
            (None, None, Some(inside)) => text(inside).map(Change::CutInside),
            _ => Err("`cut` is exactly one of `after`, `newline`, `inside`".to_owned()),
        }
    }
}

impl DropPart {
    fn resolve(&self) -> Result<Change, String> {
        match (&self.record, &self.newline, &self.key) {
            (Some(_), None, None) => Ok(Change::Drop),
            (None, Some(_), None) => Ok(Change::DropNewline),
            (None, None, Some(key)) => pointer(key).map(Change::DropKey),
            _ => Err("`drop` is exactly one of `record`, `newline`, `key`".to_owned()),
        }
    }
}

impl Replace {
    fn resolve(&self) -> Result<Change, String> {
        let Self {
            line,
            text: of,
            by,
            hex,
            key,
            value,
        } = self;
        match (line, of, by, hex, key, value) {
            (Some(line), None, None, None, None, None) => text(line).map(Change::Line),
            (None, Some(of), Some(by), None, None, None) => Ok(Change::Text {
                text: text(of)?,
                by: text(by)?.into_bytes(),
            }),
            (None, Some(of), None, Some(hex), None, None) => Ok(Change::Text {
                text: text(of)?,
                by: bytes(hex)?,
            }),
            (None, None, None, None, Some(key), Some(value)) => {
                Ok(Change::SetKey(pointer(key)?, value.clone()))
            }
            _ => Err(
                "`replace` is `line`, or `text` with `by` or `hex`, or `key` with `value`"
                    .to_owned(),
            ),
        }
    }
}

/// A JSON pointer (RFC 6901) to a key of a record.
fn pointer(text: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("`{text}` is no JSON pointer to a key: {why}");
    if !text.starts_with('/') {
        return Err(wrong("it begins with `/`, for instance `/payload/id`"));
    }
    let mut escapes = text.split('~').skip(1);
    if escapes.any(|behind| !behind.starts_with(['0', '1'])) {
        return Err(wrong("`~` is written `~0`, and `/` in a key `~1`"));
    }
    Ok(text.to_owned())
}

fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    let wrong = || format!("`{hex}` is no text of bytes in hexadecimal");
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair)
            .ok()
            .filter(|text| text.len() == 2);
        text.and_then(|text| u8::from_str_radix(text, 16).ok())
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(pair).collect();
    bytes.ok_or_else(wrong)
}

impl Append {
    fn resolve(&self) -> Result<Change, String> {
        match (&self.line, &self.open, &self.copy, &self.carriage_return) {
            (Some(line), None, None, None) => text(line).map(Change::Append),
            (None, Some(open), None, None) => text(open).map(Change::AppendOpen),
            (None, None, Some(_), None) => Ok(Change::Copy),
            (None, None, None, Some(_)) => Ok(Change::CarriageReturn),
            _ => Err(
                "`append` is exactly one of `line`, `open`, `copy`, `carriage_return`".to_owned(),
            ),
        }
    }
}

impl WholeFile {
    fn resolve(self) -> Change {
        match self {
            Self::ByteOrderMark => Change::ByteOrderMark,
            Self::Empty => Change::Empty,
            Self::OnlyNewline => Change::OnlyNewline,
            Self::NoOrdinals => Change::DropKeyEverywhere("/ordinal".to_owned()),
            Self::Removed => Change::Remove,
            Self::FolderRemoved => Change::RemoveFolder,
        }
    }
}

impl Storage {
    /// What a driver gets of it; says what does not fit together.
    pub(super) fn resolve(&self) -> Result<StorageStep, String> {
        let half = self.writes.unwrap_or_default() == Writes::Half;
        let fault = match (self.fail_append, self.kill_at_append, &self.works) {
            (Some(0), ..) | (_, Some(0), _) => {
                return Err("appends are counted from 1".to_owned());
            }
            (Some(append), None, None) => StorageFault::Fail {
                append,
                for_good: self.for_good.is_some(),
                says: self.says.clone().unwrap_or_else(|| DISK_FULL.to_owned()),
                half,
            },
            (None, Some(append), None) => StorageFault::Kill { append, half },
            (None, None, Some(_)) => return Ok(StorageStep { fault: None }),
            _ => {
                let what = "`storage` is exactly one of `fail_append`, `kill_at_append`, `works`";
                return Err(what.to_owned());
            }
        };
        if self.fail_append.is_none() && (self.for_good.is_some() || self.says.is_some()) {
            return Err("`for_good` and `says` belong to `fail_append`".to_owned());
        }
        Ok(StorageStep { fault: Some(fault) })
    }
}

/// An `edit_rollout` step as JSON.
#[cfg(test)]
pub(crate) fn edit_rollout(written: &Value) -> Result<Edit, String> {
    let source = format!(
        "description: An edit of a test.\nsteps:\n  - {{user: a, replies: [{{say: b}}]}}\n  \
         - edit_rollout: {written}\n"
    );
    let loaded = super::load_bytes("edit", "an edit", source.as_bytes(), None);
    let loaded = loaded.map_err(|errors| format!("{errors:?}"))?;
    let step = loaded.scenario.steps.0.last().map(|step| &step.value);
    let edit = step.and_then(|step| step.edit_rollout.as_ref());
    edit.ok_or("no edit")?.resolve()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(yaml: &str) -> Result<Edit, String> {
        edit_rollout(&serde_json::from_str(yaml).expect("JSON"))
    }

    #[test]
    fn an_edit_says_one_change_and_its_record() {
        let cut = edit(r#"{"record": {"last": "any"}, "cut": {"inside": "A2"}}"#).expect("fits");
        assert_eq!(cut.change, Change::CutInside("A2".to_owned()));
        let hex = r#"{"record": {"last": "any"}, "replace": {"text": "A", "hex": "00 ff"}}"#;
        let by = vec![0, 0xff];
        let text = "A".to_owned();
        assert_eq!(edit(hex).expect("fits").change, Change::Text { text, by });
        for wrong in [
            r#"{"record": {"last": "any"}}"#,
            r#"{"record": {"last": "any"}, "drop": {"record": true}, "append": {"copy": true}}"#,
            r#"{"record": {"last": "any", "first": "any"}, "drop": {"record": true}}"#,
            r#"{"drop": {"record": true}}"#,
            r#"{"record": {"last": "any"}, "bytes": "empty"}"#,
            r#"{"record": {"last": "any"}, "replace": {"text": "A", "hex": "f"}}"#,
            r#"{"record": {"last": "any"}, "cut": {}}"#,
            r#"{"record": {"last": "any"}, "drop": {"key": "payload"}}"#,
            r#"{"record": {"last": "any"}, "drop": {"key": "/a~2b"}}"#,
            r#"{"record": {"last": "any"}, "replace": {"key": "", "value": 1}}"#,
        ] {
            assert!(edit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_storage_fault_counts_from_one_and_is_one() {
        let storage = |json: &str| {
            let written: Storage = serde_json::from_str(json).expect("a fault");
            written.resolve()
        };
        assert!(storage(r#"{"kill_at_append": 2, "writes": "half"}"#).is_ok());
        assert_eq!(storage(r#"{"works": {}}"#), Ok(StorageStep { fault: None }));
        for wrong in [
            r#"{"fail_append": 0}"#,
            r#"{"fail_append": 1, "kill_at_append": 1}"#,
            r#"{"kill_at_append": 1, "for_good": {}}"#,
            "{}",
        ] {
            assert!(storage(wrong).is_err(), "{wrong}");
        }
    }
}
