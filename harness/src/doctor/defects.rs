//! Defects of lines as findings. What comes on every line, or matters only at the end, is held back
//! and said once.

use engine::profile::Version;

use super::findings::{Findings, Severity};
use crate::rollout_file::{Defect, Line, Place};

/// What is held back.
#[derive(Debug, Default)]
pub struct Defects {
    carriage_returns: u64,
    first_carriage_return: Place,
    no_final_newline: Option<Place>,
}

impl Defects {
    /// Takes a defect of a line.
    pub fn add(&mut self, line: &Line, defect: &Defect, has_record: bool, into: &mut Findings) {
        let at = |offset: u64| Place {
            offset: line.place.offset + offset,
            ..line.place
        };
        let bytes = line.bytes;
        let (rule, offset, what) = match defect {
            Defect::CarriageReturn => {
                if self.carriage_returns == 0 {
                    self.first_carriage_return = line.place;
                }
                self.carriage_returns += 1;
                return;
            }
            // Of a torn line that is said already.
            Defect::NoFinalNewline => {
                self.no_final_newline = Some(at(bytes)).filter(|_| has_record);
                return;
            }
            Defect::Blank => ("line.blank", 0, "an empty line".to_owned()),
            Defect::ByteOrderMark => ("line.byte_order_mark", 0, "a byte order mark".to_owned()),
            Defect::Nul(at) => ("line.nul", *at, "a NUL".to_owned()),
            Defect::InvalidUtf8(at) => (
                "line.invalid_utf8",
                *at,
                "bytes that are not UTF-8".to_owned(),
            ),
            Defect::Torn => (
                "line.torn",
                0,
                format!("the last line stops after {bytes} bytes"),
            ),
            Defect::CutOff => {
                let bytes = line.text.len();
                (
                    "line.cut_off",
                    0,
                    format!("the record stops after {bytes} bytes"),
                )
            }
            Defect::Glued(at) => (
                "line.glued",
                *at,
                "a record begins inside another one".to_owned(),
            ),
            Defect::Trailing(at) => (
                "line.two_records",
                *at,
                "something stands behind the record".to_owned(),
            ),
            Defect::NotJson(word, at) => ("line.not_json", *at, word.clone()),
            Defect::NotARecord(what) => ("line.not_a_record", 0, (*what).to_owned()),
            Defect::TooLong => ("line.too_long", 0, format!("{bytes} bytes in one line")),
        };
        into.add(rule, at(offset), what);
    }

    /// The file ends.
    pub fn finish(&self, version: Version, into: &mut Findings) {
        if self.carriage_returns > 0 {
            let what = format!("{} lines end with CRLF", self.carriage_returns);
            into.add("line.carriage_return", self.first_carriage_return, what);
        }
        if let Some(place) = self.no_final_newline {
            // Later versions write a newline before their next record.
            let severity = match version {
                Version::V144 => Severity::Warning,
                Version::V164 | Version::V171 => Severity::Note,
            };
            let what = "the file ends without a newline";
            into.add_as(severity, "file.no_final_newline", place, what);
        }
    }
}
