//! What can be wrong with a rollout, and the findings of one file.
//!
//! [`RULES`] is the one list: id, severity, why it matters, how to mend it. A collector says only
//! which rule, where and what. When adding one: a row here, a test that trips it, and a row in
//! `docs/doctor.md` (a test holds the two together).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::rollout_file::Place;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A resume fails, or the model does not see what was recorded.
    Error,
    /// Codex accepts it, and it costs something or breaks something later.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// As printed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One thing that can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Id, `line.torn` for instance.
    pub id: &'static str,
    /// Severity, unless the version in question takes it better or worse.
    pub severity: Severity,
    /// Why it matters.
    pub why: &'static str,
    /// How to mend it; always on a copy.
    pub mend: &'static str,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Severity.
    pub severity: Severity,
    /// Id of the rule.
    pub rule: &'static str,
    /// Line, counted from 1; 0 for the whole file.
    pub line: u64,
    /// Bytes of the decompressed file before what is meant.
    pub offset: u64,
    /// What was found.
    pub what: String,
    /// Why it matters.
    pub why: &'static str,
    /// How to mend it.
    pub mend: &'static str,
    /// The beginning of the line, if texts are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Findings of one rule that are kept; the others are counted.
pub const FINDINGS_OF_A_RULE_MAX: usize = 100;

/// The findings of one file.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    counts: BTreeMap<(Severity, &'static str), u64>,
}

impl Findings {
    /// Adds one with the rule's severity.
    pub fn add(&mut self, id: &'static str, place: Place, what: impl Into<String>) {
        self.add_as(rule(id).severity, id, place, what);
    }

    /// Adds one with another severity than the rule's.
    pub fn add_as(
        &mut self,
        severity: Severity,
        id: &'static str,
        place: Place,
        what: impl Into<String>,
    ) {
        let rule = rule(id);
        let count = self.counts.entry((severity, rule.id)).or_default();
        *count += 1;
        if *count <= FINDINGS_OF_A_RULE_MAX as u64 {
            self.kept.push(Finding {
                severity,
                rule: rule.id,
                line: place.line,
                offset: place.offset,
                what: what.into(),
                why: rule.why,
                mend: rule.mend,
                text: None,
            });
        }
    }

    /// Gives the findings that were added for a line its beginning.
    pub fn show(&mut self, line: u64, text: &str) {
        for finding in self.kept.iter_mut().rev() {
            if finding.line != line {
                break;
            }
            finding.text = Some(text.to_owned());
        }
    }

    /// How many there are of a severity, those that are not kept included.
    pub fn count(&self, severity: Severity) -> u64 {
        let of = self
            .counts
            .iter()
            .filter(|((kind, _), _)| *kind == severity);
        of.map(|(_, count)| count).sum()
    }

    /// How many there are, those that are not kept included.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Worst first, then by rule and place; and how many of each rule were left out.
    pub fn finish(mut self) -> (Vec<Finding>, Vec<LeftOut>) {
        self.kept
            .sort_by_key(|finding| (finding.severity, finding.rule, finding.line, finding.offset));
        let left_out = self.counts.iter().filter_map(|((severity, rule), count)| {
            let more = count.checked_sub(FINDINGS_OF_A_RULE_MAX as u64)?;
            (more > 0).then_some(LeftOut {
                severity: *severity,
                rule,
                count: more,
            })
        });
        let left_out = left_out.collect();
        (self.kept, left_out)
    }
}

/// Findings of a rule beyond [`FINDINGS_OF_A_RULE_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Severity.
    pub severity: Severity,
    /// Id of the rule.
    pub rule: &'static str,
    /// How many.
    pub count: u64,
}

fn rule(id: &str) -> &'static Rule {
    let found = RULES.iter().find(|rule| rule.id == id);
    found.unwrap_or_else(|| unreachable!("`{id}` is no rule of the doctor"))
}

const fn error(id: &'static str, why: &'static str, mend: &'static str) -> Rule {
    Rule {
        id,
        severity: Severity::Error,
        why,
        mend,
    }
}

const fn warning(id: &'static str, why: &'static str, mend: &'static str) -> Rule {
    Rule {
        id,
        severity: Severity::Warning,
        why,
        mend,
    }
}

const fn note(id: &'static str, why: &'static str, mend: &'static str) -> Rule {
    Rule {
        id,
        severity: Severity::Note,
        why,
        mend,
    }
}

const NOTHING: &str = "nothing to do";
const DELETE_LINE: &str = "delete the line in a copy of the file";
const NEW_COPY: &str = "take the file from a backup";

/// Every rule (history.md §1, §5, §7, §8 of the facts say what each version does).
pub const RULES: &[Rule] = &[
    error(
        "file.empty",
        "no version resumes it: `rollout … is empty`",
        "remove the file",
    ),
    error(
        "file.compression",
        "what follows the damage cannot be read, neither here nor by Codex",
        NEW_COPY,
    ),
    warning(
        "file.no_final_newline",
        "0.144 glues the next record to this line and loses both at the resume after that; later versions write a newline first",
        "append a newline to a copy of the file",
    ),
    error(
        "line.torn",
        "the record is lost; 0.144 glues the next one to it and loses that, too",
        "delete the half line in a copy of the file, or complete it from a backup",
    ),
    error(
        "line.cut_off",
        "Codex drops the line without a word: what it recorded is lost",
        "complete the record from a backup, or delete the line in a copy of the file",
    ),
    error(
        "line.glued",
        "both records are lost: a torn one, and the whole one behind it",
        "in a copy of the file, put a newline before the second record and delete the torn one",
    ),
    error(
        "line.two_records",
        "Codex drops the line without a word, and everything on it",
        "in a copy of the file, put a newline between the two",
    ),
    error(
        "line.not_json",
        "Codex drops the line without a word: what it recorded is lost",
        "repair the record from a backup, or delete the line in a copy of the file",
    ),
    error(
        "line.not_a_record",
        "Codex drops the line without a word",
        "add what the record lacks, or delete the line in a copy of the file",
    ),
    error(
        "line.nul",
        "a NUL is no JSON: the line is lost. A run of them is what a full disk or a crash leaves",
        DELETE_LINE,
    ),
    error(
        "line.invalid_utf8",
        "0.144 and 0.171 refuse the whole file, 0.164 loses the line",
        "replace the bytes in a copy of the file, or delete the line there",
    ),
    error(
        "line.byte_order_mark",
        "the line is not read; at the beginning of the file no version resumes it",
        "remove the three bytes EF BB BF in a copy of the file",
    ),
    note(
        "line.carriage_return",
        "accepted; an editor or a transfer has changed the file",
        "turn CRLF into LF in a copy of the file",
    ),
    note("line.blank", "accepted; Codex writes none", DELETE_LINE),
    note(
        "line.long",
        "Codex reads it whole into memory; here its long texts are cut and its tokens are estimated roughly",
        NOTHING,
    ),
    warning(
        "line.too_long",
        "only its beginning was looked at: its contents are counted as bytes and not judged",
        NOTHING,
    ),
    warning(
        "record.unknown_type",
        "the versions that are known ignore it: damage, or a record of a later version",
        "resume with the version that wrote it",
    ),
    warning(
        "item.unknown_type",
        "a resume drops the item; inside a checkpoint it is sent as `other`",
        "resume with the version that wrote it",
    ),
    error(
        "item.malformed",
        "it does not fit its kind: the line is dropped without a word, and the model does not see the item",
        "repair the item in a copy of the file",
    ),
    error(
        "session.no_meta",
        "no version resumes it: the file `does not start with session metadata`",
        "put the record back from a backup; it has to be the first line",
    ),
    error(
        "session.broken_meta",
        "no version resumes a file whose session metadata it cannot read",
        "repair the record in a copy of the file",
    ),
    warning(
        "session.second_meta",
        "the first one counts; the records of two threads may be in one file",
        "see that the file is not two files in one",
    ),
    note(
        "session.parent_meta",
        "a fork of 0.144 copies the whole file of its parent",
        NOTHING,
    ),
    warning(
        "session.file_name",
        "0.171 refuses a file whose name holds another thread id; earlier versions accept it",
        "name the copy of the file by its thread id",
    ),
    note(
        "session.unknown_version",
        "it is read with the profile of the nearest version that is known",
        NOTHING,
    ),
    note(
        "session.base",
        "the history begins in another file, which is not read here: calls, outputs and tokens of that part are missing below",
        "look at that file, too; where it is gone, no version resumes this one",
    ),
    error(
        "ordinal.last_missing",
        "no later version resumes a paginated file whose last record has no ordinal",
        "give the last record the next ordinal in a copy of the file",
    ),
    warning(
        "ordinal.missing",
        "accepted as long as the last record has one; a fork from here may count wrongly",
        "number the records anew in a copy of the file",
    ),
    warning(
        "ordinal.duplicate",
        "accepted; a fork by ordinal takes more or less than was meant",
        "number the records anew in a copy of the file",
    ),
    warning(
        "ordinal.reordered",
        "accepted: the order of the lines counts, which may not be the order of events",
        "sort the records by ordinal in a copy of the file",
    ),
    warning(
        "ordinal.gap",
        "accepted; records were lost or deleted here",
        "put the missing records back from a backup",
    ),
    note(
        "ordinal.in_legacy",
        "a legacy file has none; they are ignored",
        NOTHING,
    ),
    error(
        "checkpoint.malformed",
        "the whole record is dropped without a word: the history from before the compaction comes back",
        "repair the record in a copy of the file, or delete the line and compact again",
    ),
    warning(
        "checkpoint.legacy",
        "without a replacement history the context is rebuilt from user messages, up to 20,000 tokens",
        "compact again with a later version",
    ),
    warning(
        "checkpoint.window_number",
        "the window ids of later requests repeat or jump",
        "see whether a checkpoint was deleted or a part of the file copied",
    ),
    warning(
        "checkpoint.no_token_count",
        "0.144 compacts again at once; later versions count the replacement history anew",
        "resume with 0.164 or later",
    ),
    warning(
        "image.repeated",
        "each checkpoint stores the images it keeps once more: the file grows, and every resume reads them",
        "start a new thread where the images are no longer needed",
    ),
    warning(
        "call.no_output",
        "the model is told `aborted` in the place of the output",
        "none; where the output is known, put it back from a backup",
    ),
    error(
        "output.no_call",
        "the output is dropped: the model does not see it",
        "put the call back from a backup",
    ),
    warning(
        "output.before_call",
        "sent in this order; a provider may refuse the request",
        "move the output behind its call in a copy of the file",
    ),
    warning(
        "call.duplicate",
        "both calls are sent with one id; a provider may refuse the request",
        "delete one of the two in a copy of the file",
    ),
    warning(
        "output.duplicate",
        "both outputs are sent for one call; a provider may refuse the request",
        "delete one of the two in a copy of the file",
    ),
    note(
        "pairing.past",
        "it lies before the newest checkpoint: no later request holds it",
        NOTHING,
    ),
    note(
        "pairing.bounded",
        "there are more calls than are remembered: an id that is used again far behind is not seen",
        NOTHING,
    ),
    warning(
        "turn.unfinished",
        "the process ended inside the turn; a resume says nothing of it to the model",
        NOTHING,
    ),
    note(
        "turn.no_start",
        "the turn ends and has no beginning in this file",
        NOTHING,
    ),
    note(
        "resume.no_baseline",
        "no turn context stands behind the newest checkpoint: the whole initial context is sent again",
        NOTHING,
    ),
    note(
        "resume.not_read",
        "what a resume sees takes more memory than is allowed",
        "raise --resume-max-mib",
    ),
    error(
        "resume.unreadable",
        "the version that wrote the file refuses to resume it",
        "resume it with a version that knows its format, or mend the findings above",
    ),
    note(
        "resume.rolled_back",
        "how far a rollback reaches differs by version; the numbers of this report take whole turns",
        NOTHING,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_documented() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/doctor.md");
        let document = std::fs::read_to_string(document).expect("docs/doctor.md");
        for (index, rule) in RULES.iter().enumerate() {
            assert!(
                RULES[..index].iter().all(|other| other.id != rule.id),
                "{}",
                rule.id
            );
            let row = format!("| `{}` | {} |", rule.id, rule.severity.word());
            assert!(document.contains(&row), "docs/doctor.md lacks: {row}");
        }
    }

    #[test]
    fn a_flood_is_bounded_and_counted() {
        let mut findings = Findings::default();
        for line in 1..=250 {
            findings.add("line.blank", Place { line, offset: 0 }, "blank");
        }
        findings.add("line.nul", Place { line: 9, offset: 0 }, "NUL");
        assert_eq!(findings.count(Severity::Note), 250);
        let (kept, left_out) = findings.finish();
        assert_eq!(kept[0].rule, "line.nul", "the worst comes first");
        assert_eq!(kept.len(), 1 + FINDINGS_OF_A_RULE_MAX);
        assert_eq!((left_out.len(), left_out[0].count), (1, 150));
    }
}
