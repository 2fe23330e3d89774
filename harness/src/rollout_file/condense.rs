//! Makes a line of JSON short: of each long text only the head is kept, with its length and hash.
//!
//! It works on bytes as they stream by, so that a line of 100 MB takes no more memory than what is
//! kept of it. What it keeps is the same JSON with other texts: a head never ends inside an escape
//! or a character. It judges nothing; that is the parser's work.

use sha2::{Digest, Sha256};

/// Bytes that are kept of a text.
pub const TEXT_BYTES_KEPT: usize = 4096;
/// Bytes that are kept of a line; what stands behind is not looked at.
pub const CONDENSED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Stands between the head of a text and the number of its cut: a private-use character.
const MARK: &str = "\u{f8ff}cut:";

/// A text that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of the text as written in the line.
    pub bytes: u64,
    /// Bytes of it that are kept.
    pub kept: u64,
    /// SHA-256 of the text as written.
    pub sha256: [u8; 32],
}

/// What is left of a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condensed {
    /// JSON, if the line was.
    pub text: Vec<u8>,
    /// The texts that were cut.
    pub cuts: Vec<Cut>,
    /// Bytes were left out beyond [`CONDENSED_BYTES_MAX`]: the JSON has no end.
    pub overlong: bool,
    /// A part that was left out is not UTF-8.
    pub invalid_utf8: bool,
    /// A part that was left out holds a raw control character, which JSON forbids.
    pub control: bool,
}

impl Condensed {
    /// The cut that this text of the parsed line stands for.
    pub fn cut(&self, text: &str) -> Option<&Cut> {
        find(&self.cuts, text)
    }
}

/// The cut among these that a text stands for.
pub fn find<'a>(cuts: &'a [Cut], text: &str) -> Option<&'a Cut> {
    if cuts.is_empty() {
        return None;
    }
    let (_, number) = text.rsplit_once(MARK)?;
    cuts.get(number.parse::<usize>().ok()?)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Outside,
    Inside,
    /// Behind a backslash.
    Escape,
    /// Inside the four digits of an escape.
    Digits(u8),
}

/// Condenses one line.
#[derive(Debug)]
pub struct Condenser {
    out: Condensed,
    state: State,
    /// Where the current text begins in what is kept.
    start: usize,
    /// The last thing kept was an escape with digits: half a pair, perhaps.
    after_digits: bool,
    cutting: Option<Cutting>,
}

#[derive(Debug)]
struct Cutting {
    hash: Sha256,
    bytes: u64,
    kept: u64,
    utf8: Utf8,
}

impl Default for Condenser {
    fn default() -> Self {
        Self {
            out: Condensed::default(),
            state: State::Outside,
            start: 0,
            after_digits: false,
            cutting: None,
        }
    }
}

impl Condenser {
    /// Takes the next bytes of the line.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.out.overlong {
            if self.cutting.is_some() {
                let taken = self.leave_out(bytes);
                bytes = &bytes[taken..];
            } else {
                self.keep(bytes[0]);
                // A byte that began a cut was not taken.
                if self.cutting.is_none() {
                    bytes = &bytes[1..];
                }
            }
        }
    }

    /// What is left.
    pub fn finish(mut self) -> Condensed {
        self.end_cut();
        self.out
    }

    fn keep(&mut self, byte: u8) {
        let begins = byte & 0xC0 != 0x80;
        let long = self.out.text.len() - self.start >= TEXT_BYTES_KEPT;
        if self.state == State::Inside && long && begins && !self.after_digits && byte != b'"' {
            let head = &self.out.text[self.start..];
            let mut hash = Sha256::new();
            hash.update(head);
            self.cutting = Some(Cutting {
                hash,
                bytes: head.len() as u64,
                kept: head.len() as u64,
                utf8: Utf8::default(),
            });
            return;
        }
        if self.out.text.len() >= CONDENSED_BYTES_MAX {
            self.out.overlong = true;
            return;
        }
        self.out.text.push(byte);
        let before = self.state;
        self.step(byte);
        self.after_digits = matches!(before, State::Digits(_)) && self.state == State::Inside;
        if before == State::Outside && self.state == State::Inside {
            self.start = self.out.text.len();
        }
    }

    fn step(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Outside, b'"') => State::Inside,
            (State::Outside, _) | (State::Inside, b'"') => State::Outside,
            (State::Inside, b'\\') => State::Escape,
            (State::Escape, b'u') => State::Digits(4),
            (State::Digits(left), _) if left > 1 => State::Digits(left - 1),
            (State::Inside | State::Escape | State::Digits(_), _) => State::Inside,
        };
    }

    /// Bytes of a cut text up to its end; returns how many.
    fn leave_out(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            if self.state == State::Inside {
                let rest = &bytes[taken..];
                let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                taken += plain;
                if taken == bytes.len() {
                    break;
                }
                if bytes[taken] == b'"' {
                    self.hash(&bytes[..taken]);
                    self.end_cut();
                    return taken;
                }
            }
            self.step(bytes[taken]);
            taken += 1;
        }
        self.hash(&bytes[..taken]);
        taken
    }

    fn hash(&mut self, bytes: &[u8]) {
        if let Some(cutting) = &mut self.cutting {
            cutting.hash.update(bytes);
            cutting.bytes += bytes.len() as u64;
            cutting.utf8.feed(bytes);
            self.out.control |= bytes.iter().any(|byte| *byte < 0x20);
        }
    }

    fn end_cut(&mut self) {
        let Some(cutting) = self.cutting.take() else {
            return;
        };
        self.out.invalid_utf8 |= !cutting.utf8.finish();
        let number = self.out.cuts.len();
        let mark = format!("{MARK}{number}");
        self.out.text.extend_from_slice(mark.as_bytes());
        self.out.cuts.push(Cut {
            bytes: cutting.bytes,
            kept: cutting.kept + mark.len() as u64,
            sha256: cutting.hash.finalize().into(),
        });
    }
}

/// Whether bytes that come in pieces are UTF-8.
#[derive(Debug, Default)]
struct Utf8 {
    /// The beginning of a character whose end did not come yet.
    open: Vec<u8>,
    broken: bool,
}

impl Utf8 {
    fn feed(&mut self, mut bytes: &[u8]) {
        while !self.broken && !self.open.is_empty() && !bytes.is_empty() {
            self.open.push(bytes[0]);
            bytes = &bytes[1..];
            match std::str::from_utf8(&self.open) {
                Ok(_) => self.open.clear(),
                Err(error) => self.broken = error.error_len().is_some(),
            }
        }
        if self.broken {
            return;
        }
        if let Err(error) = std::str::from_utf8(bytes) {
            self.broken = error.error_len().is_some();
            self.open = bytes[error.valid_up_to()..].to_vec();
        }
    }

    fn finish(&self) -> bool {
        !self.broken && self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn condense(line: &[u8], piece: usize) -> Condensed {
        let mut condenser = Condenser::default();
        for piece in line.chunks(piece) {
            condenser.feed(piece);
        }
        condenser.finish()
    }

    #[test]
    fn short_texts_stay_and_long_ones_keep_head_length_and_hash() {
        let long = "x".repeat(100_000);
        let line = format!(r#"{{"a":"b","c":"{long}","d":["{long}y",1]}}"#);
        for piece in [1, 7, 4096, 1 << 20] {
            let found = condense(line.as_bytes(), piece);
            assert!(found.text.len() < 3 * TEXT_BYTES_KEPT);
            let value: Value = serde_json::from_slice(&found.text).expect("JSON");
            assert_eq!(value["a"], "b");
            assert_eq!(value["d"][1], 1);
            let cut = found.cut(value["c"].as_str().unwrap()).expect("cut");
            assert_eq!(cut.bytes, 100_000);
            let hash: [u8; 32] = Sha256::digest(long.as_bytes()).into();
            assert_eq!(cut.sha256, hash);
            let other = found.cut(value["d"][0].as_str().unwrap()).expect("cut");
            assert_eq!(other.bytes, 100_001);
            assert_ne!(other.sha256, cut.sha256);
            assert_eq!(found.cut("b"), None);
        }
    }

    #[test]
    fn a_head_ends_neither_in_an_escape_nor_in_a_character() {
        for unit in ["汉", r"\n", r#"\""#, r"\ud83d\ude00", r"\\", "é\\u00e9x"] {
            let line = format!(r#"{{"a":"{}"}}"#, unit.repeat(TEXT_BYTES_KEPT));
            let found = condense(line.as_bytes(), 5);
            assert!(
                serde_json::from_slice::<Value>(&found.text).is_ok(),
                "{unit}"
            );
            assert!(!found.invalid_utf8 && !found.control, "{unit}");
        }
    }

    #[test]
    fn what_is_left_out_is_still_looked_at() {
        let with = |middle: &[u8]| {
            let mut line = format!(r#"{{"a":"{}"#, "x".repeat(9000)).into_bytes();
            line.extend_from_slice(middle);
            line.extend_from_slice(b"xx\"}");
            condense(&line, 3)
        };
        assert!(with(b"\xff").invalid_utf8);
        assert!(
            with(b"\xe6\xb1").invalid_utf8,
            "a character without its end"
        );
        assert!(with(b"\x01").control);
        let fine = with("汉".as_bytes());
        assert!(!fine.invalid_utf8 && !fine.control);
    }

    #[test]
    fn a_line_without_texts_is_bounded_too() {
        let found = condense(&vec![b'['; CONDENSED_BYTES_MAX + 10], 1 << 16);
        assert!(found.overlong);
        assert_eq!(found.text.len(), CONDENSED_BYTES_MAX);
    }

    #[test]
    fn a_text_that_looks_like_a_cut_is_none() {
        let line = format!(r#"{{"a":"x{MARK}0"}}"#);
        let found = condense(line.as_bytes(), 64);
        assert_eq!(found.cut(&format!("x{MARK}0")), None);
    }
}
