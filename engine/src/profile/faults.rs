//! The persistence faults that `engine@V+fixed` has mended, as one list.
//!
//! A fault is a behaviour of a release by which a record that was acknowledged (its append came back
//! as written) is lost to a later resume, or by which a resume leaves records out and does not say
//! so. The profile of the release has it; [`Profile::fixed`] takes it away and leaves everything
//! else. `turnproof list --faults` prints the list.

use super::{Profile, Version};

/// One fault.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Name, as it is printed.
    pub id: &'static str,
    /// What goes wrong, in a sentence.
    pub sentence: &'static str,
    /// What the mended engine does instead.
    pub mended: &'static str,
    /// Rule of docs/rules.md that was seen.
    pub rule: &'static str,
    /// Number in docs/upstream-findings.md; `None` where the behaviour is a choice that only the
    /// strict law calls a fault.
    pub finding: Option<u32>,
    /// Whether a release has it.
    pub is_in: fn(&Profile) -> bool,
    /// Takes it away.
    mend: fn(&mut Profile),
}

/// All faults. When adding one: a field of the profile, a row here, a test that shows the loss on
/// `engine@V` and none on `engine@V+fixed`.
pub const FAULTS: &[Fault] = &[
    Fault {
        id: "glued_record",
        sentence: "The first record behind a line without its newline is glued to it, and the line \
                   with every record on it is lost to the next resume.",
        mended: "a newline is written first",
        rule: "rollout.damage.open_end",
        finding: Some(25),
        is_in: |profile| !profile.ends_open_lines,
        mend: |profile| profile.ends_open_lines = true,
    },
    Fault {
        id: "glued_records_unread",
        sentence: "Of a line that holds a torn record and whole ones behind it nothing is read.",
        mended: "every whole record of the line is read",
        rule: "rollout.damage.two_on_a_line",
        finding: Some(25),
        is_in: |profile| profile.loses_glued_records,
        mend: |profile| profile.loses_glued_records = false,
    },
    Fault {
        id: "utf8_refuses_thread",
        sentence: "One byte that is not UTF-8 makes the whole thread impossible to resume.",
        mended: "only that line is left out",
        rule: "rollout.damage.invalid_utf8",
        finding: Some(26),
        is_in: |profile| profile.refuses_invalid_utf8,
        mend: |profile| profile.refuses_invalid_utf8 = false,
    },
    Fault {
        id: "byte_order_mark_refuses_thread",
        sentence: "A byte order mark in front of the session metadata makes the thread impossible \
                   to resume.",
        mended: "the mark is passed over",
        rule: "rollout.damage.byte_order_mark",
        finding: None,
        is_in: |profile| profile.reads_byte_order_mark,
        mend: |profile| profile.reads_byte_order_mark = false,
    },
    Fault {
        id: "metadata_refuses_thread",
        sentence: "A rollout whose session metadata is torn, gone or not first makes the thread \
                   impossible to resume, whatever else it holds.",
        mended: "the thread has the id of its file and the settings of the config, and its records",
        rule: "rollout.damage.metadata_first",
        finding: None,
        is_in: |profile| profile.needs_meta_first,
        mend: |profile| profile.needs_meta_first = false,
    },
    Fault {
        id: "last_ordinal_refuses_thread",
        sentence: "A last record without its ordinal makes the thread impossible to resume, although \
                   no other record needs one.",
        mended: "the count goes on behind the last ordinal there is",
        rule: "rollout.damage.last_ordinal",
        finding: Some(27),
        is_in: |profile| profile.needs_last_ordinal,
        mend: |profile| profile.needs_last_ordinal = false,
    },
    Fault {
        id: "silent_skip",
        sentence: "A line that is not read is left out without a word.",
        mended: "a warning names each line and why it was left out",
        rule: "rollout.damage.silent",
        finding: Some(28),
        is_in: |profile| profile.skips_silently,
        mend: |profile| profile.skips_silently = false,
    },
];

impl Profile {
    /// The row of a family with the faults mended.
    pub fn fixed(version: Version) -> Self {
        let mut profile = Self::of(version);
        for fault in FAULTS {
            (fault.mend)(&mut profile);
        }
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_in_a_release_and_in_no_fixed_profile() {
        let releases = [Version::V144, Version::V164, Version::V171];
        for fault in FAULTS {
            let somewhere = releases.iter().any(|v| (fault.is_in)(&Profile::of(*v)));
            assert!(somewhere, "{}", fault.id);
            let left = releases.iter().any(|v| (fault.is_in)(&Profile::fixed(*v)));
            assert!(!left, "{}", fault.id);
        }
    }

    #[test]
    fn nothing_but_the_faults_is_mended() {
        for version in [Version::V144, Version::V164, Version::V171] {
            let release = Profile::of(version);
            let mut fixed = Profile::fixed(version);
            fixed.ends_open_lines = release.ends_open_lines;
            fixed.loses_glued_records = release.loses_glued_records;
            fixed.refuses_invalid_utf8 = release.refuses_invalid_utf8;
            fixed.reads_byte_order_mark = release.reads_byte_order_mark;
            fixed.needs_meta_first = release.needs_meta_first;
            fixed.needs_last_ordinal = release.needs_last_ordinal;
            fixed.skips_silently = release.skips_silently;
            assert_eq!(fixed, release);
        }
    }
}
