//! The report on one file, as it is written as JSON. `format` in [`json`] counts up when a field is
//! renamed, removed or means something else; a new field does not count.

use serde::Serialize;

use super::checkpoints::Checkpoint;
use super::collect::Collected;
use super::findings::{Finding, LeftOut, Severity};
use super::images::ImagesReport;
use super::kinds::Kind;
use super::resume::View;
use super::session::Session;
use super::turns::Turn;

/// Version of the JSON.
const FORMAT: u32 = 1;

/// Everything that is said of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Bytes, decompressed.
    pub bytes: u64,
    /// Bytes on the disk.
    pub bytes_on_disk: u64,
    /// It is zstd.
    pub compressed: bool,
    /// Lines.
    pub lines: u64,
    /// Lines that hold a record.
    pub records: u64,
    /// Findings of severity error.
    pub errors: u64,
    /// Findings of severity warning.
    pub warnings: u64,
    /// Findings of severity note.
    pub notes: u64,
    /// Facts of the thread.
    pub session: Session,
    /// Records by kind, the most bytes first.
    pub kinds: Vec<Kind>,
    /// Turns in order.
    pub turns: Vec<Turn>,
    /// Turns that are counted only.
    pub turns_left_out: u64,
    /// Checkpoints in order.
    pub checkpoints: Vec<Checkpoint>,
    /// Checkpoints that are counted only.
    pub checkpoints_left_out: u64,
    /// Images.
    pub images: ImagesReport,
    /// What a resume would see; null where none was read.
    pub resume: Option<View>,
    /// Findings, the worst first.
    pub findings: Vec<Finding>,
    /// Findings that are counted only.
    pub findings_left_out: Vec<LeftOut>,
}

/// Puts a report together.
pub fn of(
    collected: Collected,
    resume: Option<View>,
    bytes: u64,
    bytes_on_disk: u64,
    compressed: bool,
) -> Report {
    let count = |severity| collected.findings.count(severity);
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let notes = count(Severity::Note);
    let (findings, findings_left_out) = collected.findings.finish();
    Report {
        bytes,
        bytes_on_disk,
        compressed,
        lines: collected.lines,
        records: collected.records,
        errors,
        warnings,
        notes,
        session: collected.session,
        kinds: collected.kinds,
        turns: collected.turns,
        turns_left_out: collected.turns_left_out,
        checkpoints: collected.checkpoints,
        checkpoints_left_out: collected.checkpoints_left_out,
        images: collected.images,
        resume,
        findings,
        findings_left_out,
    }
}

/// One file of the JSON.
#[derive(Debug, Serialize)]
struct File<'a> {
    /// As the user wrote it.
    file: &'a str,
    #[serde(flatten)]
    report: &'a Report,
}

/// The reports as JSON, each with the name that the user gave.
pub fn json(reports: &[(String, Report)]) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Document<'a> {
        format: u32,
        files: Vec<File<'a>>,
    }
    let files = reports.iter().map(|(file, report)| File { file, report });
    serde_json::to_string_pretty(&Document {
        format: FORMAT,
        files: files.collect(),
    })
}
