//! The lines of a file, one at a time, with line number and byte offset.
//!
//! A line is what lies between two newlines. One of up to [`LINE_BYTES_WHOLE_MAX`] is kept as it
//! stands, a longer one condensed. The buffer is used again for the next line.

use std::io::{BufRead, ErrorKind};

use super::Place;
use super::condense::{Condenser, Cut, find};

/// Bytes of a line that is kept whole. Beyond, long texts are cut (`condense.rs`).
pub const LINE_BYTES_WHOLE_MAX: usize = 4 * 1024 * 1024;

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// With a newline.
    #[default]
    Newline,
    /// With carriage return and newline.
    CarriageReturn,
    /// With the file.
    EndOfFile,
}

/// One line.
#[derive(Debug, Default)]
pub struct Line {
    /// Where it begins.
    pub place: Place,
    /// Bytes in the file, its ending included.
    pub bytes: u64,
    /// Its ending.
    pub ending: Ending,
    /// The line without its ending, condensed if it is longer than [`LINE_BYTES_WHOLE_MAX`].
    pub text: Vec<u8>,
    /// Texts that were cut.
    pub cuts: Vec<Cut>,
    /// `text` is not the whole line.
    pub condensed: bool,
    /// `text` has no end (`condense::CONDENSED_BYTES_MAX`).
    pub overlong: bool,
    /// What was left out is broken: not UTF-8, or a raw control character.
    pub broken_inside: Option<&'static str>,
    /// Offset in the line of the first NUL.
    pub nul: Option<u64>,
}

impl Line {
    /// The cut that this text of the parsed line stands for.
    pub fn cut(&self, text: &str) -> Option<&Cut> {
        find(&self.cuts, text)
    }

    /// Bytes of a text of the parsed line; as written if it was cut.
    pub fn text_bytes(&self, text: &str) -> u64 {
        self.cut(text).map_or(text.len() as u64, |cut| cut.bytes)
    }

    /// Whether nothing but white space stands in it.
    pub fn is_blank(&self) -> bool {
        self.text.iter().all(u8::is_ascii_whitespace)
    }

    /// The beginning as one printable line; for a reader who asked for texts.
    pub fn head(&self, chars: usize) -> String {
        String::from_utf8_lossy(&self.text[..self.text.len().min(4 * chars)])
            .chars()
            .take(chars)
            .flat_map(char::escape_debug)
            .collect()
    }
}

/// Reads lines.
#[derive(Debug)]
pub struct LineReader<R> {
    inner: R,
    next: Place,
    line: Line,
    whole_max: usize,
}

impl<R: BufRead> LineReader<R> {
    /// A reader from the beginning of a file.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            next: Place { line: 1, offset: 0 },
            line: Line::default(),
            whole_max: LINE_BYTES_WHOLE_MAX,
        }
    }

    /// A reader whose next byte is the first of the line at `place`, and that keeps lines of up to
    /// `whole_max` bytes whole: for a caller who knows how long they are.
    pub fn starting_at(inner: R, place: Place, whole_max: usize) -> Self {
        Self {
            next: place,
            whole_max,
            ..Self::new(inner)
        }
    }

    /// Bytes up to the end of the last line that was read.
    pub fn offset(&self) -> u64 {
        self.next.offset
    }

    /// Where the next line begins.
    pub fn next_place(&self) -> Place {
        self.next
    }

    /// The next line; `None` at the end of the file.
    pub fn read(&mut self) -> std::io::Result<Option<&Line>> {
        let mut kept = std::mem::take(&mut self.line.text);
        kept.clear();
        self.line = Line {
            place: self.next,
            ending: Ending::EndOfFile,
            ..Line::default()
        };
        let mut condenser: Option<Condenser> = None;
        loop {
            let chunk = match self.inner.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                break;
            }
            let newline = memchr::memchr(b'\n', chunk);
            let part = &chunk[..newline.unwrap_or(chunk.len())];
            if self.line.nul.is_none() {
                let found = memchr::memchr(0, part);
                self.line.nul = found.map(|at| self.line.bytes + at as u64);
            }
            match &mut condenser {
                Some(condenser) => condenser.feed(part),
                None if kept.len() + part.len() > self.whole_max => {
                    let mut fresh = Condenser::default();
                    fresh.feed(&kept);
                    fresh.feed(part);
                    kept = Vec::new();
                    condenser = Some(fresh);
                }
                None => kept.extend_from_slice(part),
            }
            let taken = part.len() + usize::from(newline.is_some());
            self.line.bytes += taken as u64;
            self.inner.consume(taken);
            if newline.is_some() {
                self.line.ending = Ending::Newline;
                break;
            }
        }
        if self.line.bytes == 0 {
            return Ok(None);
        }
        self.next.line += 1;
        self.next.offset += self.line.bytes;
        self.line.text = kept;
        if let Some(condenser) = condenser {
            self.condensed(condenser);
        }
        if self.line.ending == Ending::Newline && self.line.text.last() == Some(&b'\r') {
            self.line.text.pop();
            self.line.ending = Ending::CarriageReturn;
        }
        Ok(Some(&self.line))
    }

    fn condensed(&mut self, condenser: Condenser) {
        let found = condenser.finish();
        self.line.text = found.text;
        self.line.cuts = found.cuts;
        self.line.condensed = true;
        self.line.overlong = found.overlong;
        self.line.broken_inside = if found.invalid_utf8 {
            Some("invalid UTF-8")
        } else if found.control {
            Some("a raw control character")
        } else {
            None
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// Place, bytes, ending and text of every line, read in small pieces.
    fn lines(file: &[u8]) -> Vec<(u64, u64, u64, Ending, String)> {
        let mut reader = LineReader::new(BufReader::with_capacity(3, file));
        let mut found = Vec::new();
        while let Some(line) = reader.read().expect("no I/O error") {
            found.push((
                line.place.line,
                line.place.offset,
                line.bytes,
                line.ending,
                String::from_utf8_lossy(&line.text).into_owned(),
            ));
        }
        assert_eq!(reader.offset(), file.len() as u64);
        found
    }

    #[test]
    fn lines_have_number_offset_and_ending() {
        assert_eq!(lines(b""), []);
        assert_eq!(
            lines(b"ab\n\r\ncdefg\r\n\nz"),
            [
                (1, 0, 3, Ending::Newline, "ab".into()),
                (2, 3, 2, Ending::CarriageReturn, String::new()),
                (3, 5, 7, Ending::CarriageReturn, "cdefg".into()),
                (4, 12, 1, Ending::Newline, String::new()),
                (5, 13, 1, Ending::EndOfFile, "z".into()),
            ]
        );
    }

    #[test]
    fn a_nul_is_placed() {
        let mut reader = LineReader::new(BufReader::with_capacity(2, &b"abc\0d\0\nx\n"[..]));
        assert_eq!(reader.read().unwrap().unwrap().nul, Some(3));
        assert_eq!(reader.read().unwrap().unwrap().nul, None);
    }

    #[test]
    fn a_long_line_is_condensed_and_the_next_one_is_in_place() {
        let bytes = LINE_BYTES_WHOLE_MAX + 10;
        let file = format!("{{\"a\":\"{}\"}}\nnext\n", "x".repeat(bytes));
        let mut reader = LineReader::new(file.as_bytes());
        let line = reader.read().unwrap().unwrap();
        assert!(line.condensed && !line.overlong);
        assert_eq!(line.bytes, bytes as u64 + 9);
        assert_eq!(line.cuts[0].bytes, bytes as u64);
        let next = reader.read().unwrap().unwrap();
        assert_eq!(
            (next.place.offset, next.condensed),
            (bytes as u64 + 9, false)
        );
    }
}
