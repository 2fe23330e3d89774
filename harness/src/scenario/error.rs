//! What is wrong with a scenario file, where, and how to mend it.
//!
//! One error is one finding with a position; a file's findings are reported together. The plain form
//! is `file:line:column: message`, the rendered form adds the line and a help text.

use std::fmt;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode};

/// Longest part of a source line that is kept for a message, in bytes.
const SNIPPET_BYTES_MAX: usize = 200;

/// A position in a scenario file; line and column count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// Line.
    pub line: usize,
    /// Column in characters.
    pub column: usize,
}

/// One finding in a scenario file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {what}{}", self.why_suffix())]
pub struct ScenarioError {
    /// File as the caller named it.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// 1-based column in characters.
    pub column: usize,
    /// What is wrong, a lowercase fragment.
    pub what: String,
    /// Why it is wrong; may be empty.
    pub why: String,
    /// How to mend it; may be empty.
    pub help: String,
    /// The source line, cut where it is long.
    pub snippet: String,
}

/// A finding that does not know its file yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) at: Mark,
    pub(super) what: String,
    pub(super) why: String,
    pub(super) help: String,
}

impl Problem {
    /// A finding with neither a reason nor a help text.
    pub(super) fn new(at: Mark, what: impl Into<String>) -> Self {
        Self {
            at,
            what: what.into(),
            why: String::new(),
            help: String::new(),
        }
    }

    /// Adds the reason.
    pub(super) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Adds the way to mend it.
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// Puts the finding into its file.
    pub(super) fn in_file(self, file: &str, source: &str) -> ScenarioError {
        let line = source
            .lines()
            .nth(self.at.line.saturating_sub(1))
            .unwrap_or_default();
        let end = (0..=SNIPPET_BYTES_MAX.min(line.len()))
            .rev()
            .find(|index| line.is_char_boundary(*index))
            .unwrap_or(0);
        ScenarioError {
            file: file.to_owned(),
            line: self.at.line.max(1),
            column: self.at.column.max(1),
            what: self.what,
            why: self.why,
            help: self.help,
            snippet: line[..end].to_owned(),
        }
    }
}

impl ScenarioError {
    fn why_suffix(&self) -> String {
        if self.why.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.why)
        }
    }

    /// The graphical form with the source line, without colour.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
        match handler.render_report(&mut text, &Shown::new(self)) {
            Ok(()) => text,
            Err(fmt::Error) => self.to_string(),
        }
    }
}

/// The form that miette draws: one line of source that knows its real number.
#[derive(Debug)]
struct Shown<'a> {
    error: &'a ScenarioError,
    source: OneLine<'a>,
}

impl<'a> Shown<'a> {
    fn new(error: &'a ScenarioError) -> Self {
        Self {
            error,
            source: OneLine { error },
        }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.error.to_string())
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn help(&self) -> Option<Box<dyn fmt::Display + '_>> {
        (!self.error.help.is_empty()).then(|| Box::new(&self.error.help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let offset = byte_of_column(&self.error.snippet, self.error.column);
        Some(Box::new(std::iter::once(LabeledSpan::at_offset(
            offset, "here",
        ))))
    }
}

/// Source code that consists of the one line of the finding.
#[derive(Debug)]
struct OneLine<'a> {
    error: &'a ScenarioError,
}

impl SourceCode for OneLine<'_> {
    fn read_span<'b>(
        &'b self,
        _span: &miette::SourceSpan,
        _lines_before: usize,
        _lines_after: usize,
    ) -> Result<Box<dyn miette::SpanContents<'b> + 'b>, miette::MietteError> {
        Ok(Box::new(miette::MietteSpanContents::new_named(
            self.error.file.clone(),
            self.error.snippet.as_bytes(),
            (0, self.error.snippet.len()).into(),
            self.error.line - 1,
            0,
            1,
        )))
    }
}

fn byte_of_column(line: &str, column: usize) -> usize {
    line.char_indices()
        .nth(column.saturating_sub(1))
        .map_or(line.len(), |(index, _)| index)
}

/// The beginning of a text, with `…` where more follows.
pub(crate) fn start(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The word of `valid` that is nearest to `word`, if one is near.
pub(super) fn nearest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 2).max(2);
    valid
        .into_iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean ...?` or the list of valid words.
pub(super) fn suggest(word: &str, valid: &[&str]) -> String {
    match nearest(word, valid.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("valid here: {}", valid.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rendered_form_shows_the_line_and_the_help() {
        let error = Problem::new(Mark { line: 2, column: 3 }, "unknown key `usr`")
            .help("did you mean `user`?")
            .in_file("a.yaml", "steps:\n- usr: hi\n");
        assert_eq!(error.to_string(), "a.yaml:2:3: unknown key `usr`");
        let drawn = error.render();
        assert!(
            drawn.contains("- usr: hi") && drawn.contains("did you mean"),
            "{drawn}"
        );
    }

    #[test]
    fn a_far_word_gets_the_list() {
        assert_eq!(suggest("usr", &["user", "compact"]), "did you mean `user`?");
        assert_eq!(
            suggest("zzzzzz", &["user", "stop"]),
            "valid here: user, stop"
        );
    }
}
