//! The lines of a file, from its end backwards or from a place forwards, read in blocks.
//!
//! No more is held than one block and the line that is being looked at. A block doubles while a line
//! has no beginning in it, so a long line is copied twice at most. What stands in a line is not
//! looked at here: a block may begin inside a character.

use std::io;

use crate::ports::ReadAt;

/// Bytes that are asked for at once.
pub const BLOCK_BYTES: usize = 64 * 1024;

/// Lines from the end.
pub(super) struct Backwards<'a> {
    file: &'a dyn ReadAt,
    block: usize,
    /// Offset of the first byte that is held.
    at: u64,
    /// What is read and not yet given.
    held: Vec<u8>,
    /// Bytes of `held` in front, in which no newline was looked for yet.
    unsearched: usize,
}

impl<'a> Backwards<'a> {
    /// The lines before `end`.
    pub(super) fn new(file: &'a dyn ReadAt, end: u64, block: usize) -> Self {
        Self {
            file,
            block: block.max(1),
            at: end,
            held: Vec::new(),
            unsearched: 0,
        }
    }

    /// The next line before, without its newline, and where it begins.
    pub(super) fn line(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        if self.at == 0 && self.held.is_empty() {
            return Ok(None);
        }
        loop {
            // The newline that ends the line itself is cut off when the line behind it is given.
            let newline = self.held[..self.unsearched]
                .iter()
                .rposition(|byte| *byte == b'\n');
            if let Some(newline) = newline {
                let line = self.held.split_off(newline + 1);
                self.held.truncate(newline);
                self.unsearched = newline;
                let offset = self.at + newline as u64 + 1;
                return Ok(Some((offset, line)));
            }
            self.unsearched = 0;
            if self.at == 0 {
                return Ok(Some((0, std::mem::take(&mut self.held))));
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        let wanted = self.block.max(self.held.len()) as u64;
        let count = usize::try_from(wanted.min(self.at)).unwrap_or(self.block);
        let from = self.at - count as u64;
        let mut block = vec![0; count];
        self.file.read_exact_at(&mut block, from)?;
        block.append(&mut self.held);
        self.held = block;
        self.unsearched = count;
        self.at = from;
        Ok(())
    }
}

/// Lines from a place to the end.
pub(super) struct Forwards<'a> {
    file: &'a dyn ReadAt,
    block: usize,
    /// Offset of the first byte that is not read.
    at: u64,
    end: u64,
    held: Vec<u8>,
    /// Bytes of `held` that were given.
    given: usize,
}

impl<'a> Forwards<'a> {
    /// The lines of `from..end`.
    pub(super) fn new(file: &'a dyn ReadAt, from: u64, end: u64, block: usize) -> Self {
        Self {
            file,
            block: block.max(1),
            at: from,
            end,
            held: Vec::new(),
            given: 0,
        }
    }

    /// The next line, without its newline, and where it begins.
    pub(super) fn line(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        let mut searched = self.given;
        loop {
            let offset = self.at - (self.held.len() - self.given) as u64;
            let newline = self.held[searched..].iter().position(|byte| *byte == b'\n');
            if let Some(newline) = newline {
                let line = self.held[self.given..searched + newline].to_vec();
                self.given = searched + newline + 1;
                return Ok(Some((offset, line)));
            }
            if self.at >= self.end {
                let line = self.held.split_off(self.given);
                self.held.clear();
                self.given = 0;
                return Ok((!line.is_empty()).then_some((offset, line)));
            }
            self.held.drain(..self.given);
            self.given = 0;
            searched = self.held.len();
            let wanted = self.block.max(searched) as u64;
            let count = usize::try_from(wanted.min(self.end - self.at)).unwrap_or(self.block);
            self.held.resize(searched + count, 0);
            self.file
                .read_exact_at(&mut self.held[searched..], self.at)?;
            self.at += count as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backwards(text: &Vec<u8>, block: usize) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Backwards::new(text, text.len() as u64, block);
        let mut all: Vec<_> = std::iter::from_fn(|| lines.line().expect("reads")).collect();
        all.reverse();
        all
    }

    fn forwards(text: &Vec<u8>, from: u64, block: usize) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Forwards::new(text, from, text.len() as u64, block);
        std::iter::from_fn(|| lines.line().expect("reads")).collect()
    }

    /// What a reader of the whole text sees; a text that ends with a newline has no line behind it.
    fn whole(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut offset = 0;
        let mut lines = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let bare = line.strip_suffix(b"\n").unwrap_or(line);
            lines.push((offset, bare.to_vec()));
            offset += line.len() as u64;
        }
        lines
    }

    /// Both ways give an empty line in front of nothing at most at the end of the file.
    fn told(lines: Vec<(u64, Vec<u8>)>) -> Vec<(u64, Vec<u8>)> {
        lines.into_iter().filter(|(_, l)| !l.is_empty()).collect()
    }

    proptest::proptest! {
        #[test]
        fn both_ways_see_the_lines_of_the_whole_text(
            text in "[aé汉\r\n]{0,40}",
            block in 1_usize..9,
        ) {
            let text = &text.into_bytes();
            proptest::prop_assert_eq!(told(backwards(text, block)), told(whole(text)));
            proptest::prop_assert_eq!(told(forwards(text, 0, block)), told(whole(text)));
            for (at, (offset, _)) in whole(text).iter().enumerate() {
                let rest = whole(text)[at..].to_vec();
                proptest::prop_assert_eq!(told(forwards(text, *offset, block)), told(rest));
            }
        }
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let text = b"ab\n".to_vec();
        let mut lines = Backwards::new(&text, 9, 4);
        assert!(lines.line().is_err());
        let mut lines = Forwards::new(&text, 0, 9, 4);
        assert!(lines.line().is_err());
    }
}
