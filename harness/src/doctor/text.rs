//! The report as a person reads it: aligned tables, then the findings, the worst first.

use std::fmt::Write as _;

use super::findings::Finding;
use super::report::Report;
use super::turns::Turn;

/// Rows of a table that are printed; of a longer one, the first and the last.
const ROWS_MAX: usize = 40;
const ROWS_FIRST: usize = 10;
/// Kinds that are printed.
const KINDS_MAX: usize = 30;
/// Findings of a rule that are printed.
const FINDINGS_OF_A_RULE_MAX: usize = 20;

/// The report on a file, by the name that the user gave.
pub fn report(name: &str, report: &Report) -> String {
    let mut out = String::new();
    head(name, report, &mut out);
    kinds(report, &mut out);
    turns(report, &mut out);
    checkpoints(report, &mut out);
    images(report, &mut out);
    resume(report, &mut out);
    findings(report, &mut out);
    let _ = writeln!(
        out,
        "{}, {}, {}",
        plural(report.errors, "error"),
        plural(report.warnings, "warning"),
        plural(report.notes, "note")
    );
    out
}

fn plural(count: u64, word: &str) -> String {
    format!(
        "{} {word}{}",
        thousands(count),
        if count == 1 { "" } else { "s" }
    )
}

fn head(name: &str, report: &Report, out: &mut String) {
    let (records, lines) = (
        plural(report.records, "record"),
        plural(report.lines, "line"),
    );
    let bytes = plural(report.bytes, "byte");
    let disk = if report.compressed {
        format!(" ({} as zstd)", thousands(report.bytes_on_disk))
    } else {
        String::new()
    };
    let _ = writeln!(out, "{name}: {records} in {lines}, {bytes}{disk}");
    let session = &report.session;
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    if session.thread.is_some() {
        let _ = writeln!(
            out,
            "  thread {} · cli {} (profile {}) · {}",
            word(&session.thread),
            word(&session.cli_version),
            session.profile.unwrap_or("unknown"),
            word(&session.history_mode),
        );
    }
    if let Some(parent) = &session.forked_from {
        let _ = writeln!(out, "  forked from {parent}");
    }
    if let Some((thread, ordinal)) = &session.history_base {
        let end = ordinal.map_or_else(String::new, |end| format!(", up to ordinal {end}"));
        let _ = writeln!(out, "  the history begins in the file of {thread}{end}");
    }
    if !session.models.is_empty() {
        let _ = writeln!(out, "  models {}", session.models.join(", "));
    }
    out.push('\n');
}

fn kinds(report: &Report, out: &mut String) {
    let mut table = Table::new(&["records", ">count", ">bytes", ">share"]);
    let share = |bytes: u64| {
        // In tenths of a percent; no float, so that every machine rounds alike.
        let tenths = u128::from(bytes) * 1000 / u128::from(report.bytes.max(1));
        format!("{}.{}%", tenths / 10, tenths % 10)
    };
    let (listed, rest) = report.kinds.split_at(report.kinds.len().min(KINDS_MAX));
    for kind in listed {
        let (count, bytes) = (thousands(kind.count), thousands(kind.bytes));
        table.row(vec![kind.kind.clone(), count, bytes, share(kind.bytes)]);
    }
    if !rest.is_empty() {
        let count = rest.iter().map(|kind| kind.count).sum();
        let bytes = rest.iter().map(|kind| kind.bytes).sum();
        let name = format!("… {} more kinds", rest.len());
        table.row(vec![name, thousands(count), thousands(bytes), share(bytes)]);
    }
    table.print(out);
}

fn turns(report: &Report, out: &mut String) {
    let mut table = Table::new(&[
        "turn",
        ">line:offset",
        "status",
        "model",
        ">items",
        ">recorded",
        ">estimate",
        ">window",
        "",
    ]);
    let left_out = report.turns.len().saturating_sub(ROWS_MAX);
    for (index, turn) in report.turns.iter().enumerate() {
        if left_out > 0 && index == ROWS_FIRST {
            table.gap(format!("… {left_out} turns; --json lists them"));
        }
        if left_out > 0 && (ROWS_FIRST..ROWS_FIRST + left_out).contains(&index) {
            continue;
        }
        table.row(vec![
            (index + 1).to_string(),
            format!("{}:{}", turn.line, turn.offset),
            status(turn),
            turn.model.clone().unwrap_or_default(),
            thousands(turn.items),
            number(turn.recorded_tokens),
            number(Some(turn.estimated_tokens)),
            number(turn.window_tokens),
            remarks(turn),
        ]);
    }
    if report.turns_left_out > 0 {
        table.gap(format!(
            "… {} more turns, counted only",
            report.turns_left_out
        ));
    }
    table.print(out);
}

fn status(turn: &Turn) -> String {
    let rolled = if turn.rolled_back {
        ", rolled back"
    } else {
        ""
    };
    match &turn.reason {
        Some(reason) => format!("{} ({reason}){rolled}", turn.status),
        None => format!("{}{rolled}", turn.status),
    }
}

fn remarks(turn: &Turn) -> String {
    let compacted = match turn.checkpoints {
        0 => None,
        1 => Some("compacted".to_owned()),
        count => Some(format!("compacted {count} times")),
    };
    let text = turn.text.as_ref().map(|text| format!("“{text}”"));
    let remarks: Vec<String> = compacted.into_iter().chain(text).collect();
    remarks.join(" ")
}

fn checkpoints(report: &Report, out: &mut String) {
    let mut table = Table::new(&[
        "checkpoint",
        ">line:offset",
        ">window",
        ">items",
        ">bytes",
        ">images",
        ">recorded",
        ">estimate",
        "",
    ]);
    let left_out = report.checkpoints.len().saturating_sub(ROWS_MAX);
    for (index, checkpoint) in report.checkpoints.iter().enumerate() {
        if left_out > 0 && index == ROWS_FIRST {
            table.gap(format!("… {left_out} checkpoints; --json lists them"));
        }
        if left_out > 0 && (ROWS_FIRST..ROWS_FIRST + left_out).contains(&index) {
            continue;
        }
        let counted = if checkpoint.window_recorded { "" } else { "?" };
        let change = |before, after| format!("{} → {}", number(before), number(after));
        let (before, after) = (checkpoint.estimated_before, checkpoint.estimated_after);
        table.row(vec![
            checkpoint.kind.to_owned(),
            format!("{}:{}", checkpoint.line, checkpoint.offset),
            format!("{}{counted}", checkpoint.window),
            thousands(checkpoint.items),
            thousands(checkpoint.bytes),
            thousands(checkpoint.images),
            change(checkpoint.recorded_before, checkpoint.recorded_after),
            change(Some(before), Some(after)),
            checkpoint
                .text
                .as_ref()
                .map_or_else(String::new, |text| format!("“{text}”")),
        ]);
    }
    if report.checkpoints_left_out > 0 {
        let count = report.checkpoints_left_out;
        table.gap(format!("… {count} more checkpoints, counted only"));
    }
    table.print(out);
}

fn images(report: &Report, out: &mut String) {
    let images = &report.images;
    if images.stored == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "images: {} different, stored {} times ({} times in checkpoints), {}; {} of copies in checkpoints repeat",
        thousands(images.distinct),
        thousands(images.stored),
        thousands(images.in_checkpoints),
        plural(images.bytes, "byte"),
        plural(images.wasted_bytes, "byte"),
    );
    let mut table = Table::new(&[
        "  first at",
        ">bytes",
        ">stored",
        ">in checkpoints",
        ">repeated bytes",
    ]);
    for image in &images.repeated {
        table.row(vec![
            format!("  {}:{}", image.line, image.offset),
            thousands(image.bytes),
            thousands(image.stored),
            thousands(image.in_checkpoints),
            thousands(image.wasted_bytes),
        ]);
    }
    if images.repeated.is_empty() {
        out.push('\n');
    }
    table.print(out);
}

fn resume(report: &Report, out: &mut String) {
    let Some(view) = &report.resume else { return };
    let baseline = if view.baseline {
        "baseline there"
    } else {
        "no baseline"
    };
    let _ = writeln!(
        out,
        "resume sees: {} · estimate {} tokens (recorded {}) · window {} · {baseline} · model {}",
        plural(view.items, "item"),
        number(Some(view.estimated_tokens)),
        number(view.recorded_tokens),
        view.window,
        view.model.as_deref().unwrap_or("unknown"),
    );
    for (kind, count) in &view.items_by_kind {
        let _ = writeln!(out, "  {} {kind}", thousands(*count));
    }
    if view.outputs_made_up + view.outputs_dropped > 0 {
        let _ = writeln!(
            out,
            "  in the prompt: {} made up, {} dropped",
            plural(view.outputs_made_up, "output"),
            plural(view.outputs_dropped, "output"),
        );
    }
    out.push('\n');
}

/// Findings by rule: the reason and the remedy once, then every place.
fn findings(report: &Report, out: &mut String) {
    let same = |a: &Finding, b: &Finding| (a.severity, a.rule) == (b.severity, b.rule);
    for group in report.findings.chunk_by(same) {
        let Some(first) = group.first() else { continue };
        let _ = writeln!(out, "{} {}", first.severity.word(), first.rule);
        for finding in group.iter().take(FINDINGS_OF_A_RULE_MAX) {
            let place = match finding.line {
                0 => "whole file".to_owned(),
                line => format!("{line}:{}", finding.offset),
            };
            let text = finding
                .text
                .as_ref()
                .map_or_else(String::new, |text| format!(" “{text}”"));
            let _ = writeln!(out, "  at {place}: {}{text}", finding.what);
        }
        let left = report.findings_left_out.iter();
        let mut left =
            left.filter(|left| (left.severity, left.rule) == (first.severity, first.rule));
        let more = group.len().saturating_sub(FINDINGS_OF_A_RULE_MAX) as u64
            + left.next().map_or(0, |left| left.count);
        if more > 0 {
            let _ = writeln!(out, "  … and {} more", thousands(more));
        }
        let _ = writeln!(out, "  why:  {}\n  mend: {}\n", first.why, first.mend);
    }
}

fn number(tokens: Option<i64>) -> String {
    match tokens {
        None => "-".to_owned(),
        Some(tokens) if tokens < 0 => format!("-{}", thousands(tokens.unsigned_abs())),
        Some(tokens) => thousands(tokens.unsigned_abs()),
    }
}

/// `1234567` as `1,234,567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Columns as wide as their widest cell; a head that begins with `>` stands on the right.
struct Table {
    heads: Vec<String>,
    right: Vec<bool>,
    rows: Vec<Row>,
}

enum Row {
    Cells(Vec<String>),
    Gap(String),
}

impl Table {
    fn new(heads: &[&str]) -> Self {
        Self {
            heads: heads
                .iter()
                .map(|head| head.trim_start_matches('>').to_owned())
                .collect(),
            right: heads.iter().map(|head| head.starts_with('>')).collect(),
            rows: Vec::new(),
        }
    }

    fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Row::Cells(cells));
    }

    fn gap(&mut self, text: String) {
        self.rows.push(Row::Gap(text));
    }

    /// Prints head and rows and an empty line; nothing without rows.
    fn print(&self, out: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        let mut widths: Vec<usize> = self.heads.iter().map(|head| head.chars().count()).collect();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        self.line(&self.heads, &widths, out);
        for row in &self.rows {
            match row {
                Row::Cells(cells) => self.line(cells, &widths, out),
                Row::Gap(text) => {
                    let _ = writeln!(out, "{text}");
                }
            }
        }
        out.push('\n');
    }

    fn line(&self, cells: &[String], widths: &[usize], out: &mut String) {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let width = widths[column];
            let gap = if column == 0 { "" } else { "  " };
            let _ = if self.right[column] {
                write!(line, "{gap}{cell:>width$}")
            } else {
                write!(line, "{gap}{cell:<width$}")
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(thousands(number), text);
        }
        assert_eq!(super::number(Some(-1500)), "-1,500");
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["name", ">n"]);
        table.row(vec!["a".into(), "10".into()]);
        table.gap("…".into());
        table.row(vec!["longer".into(), "9".into()]);
        let mut out = String::new();
        table.print(&mut out);
        assert_eq!(out, "name     n\na       10\n…\nlonger   9\n\n");
    }
}
