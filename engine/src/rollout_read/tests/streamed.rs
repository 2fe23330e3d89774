//! Reading from the end in blocks gives what all records together give, and reads no more than it
//! has to.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq};
use serde_json::{Value, json};

use super::super::{Need, Part, Reading, Unreadable, read, read_files};
use super::{
    ALL, any_line, checkpoint, context, counted, end, event, item, line, meta, reference, rollback,
    start, turn, turn_of, world,
};
use crate::ports::ReadAt;
use crate::profile::{Profile, Version};
use crate::settings::Truncation;

const POLICY: Truncation = Truncation::Bytes(10_000);

/// How lines become bytes.
#[derive(Debug, Clone, Copy)]
struct Written {
    ending: &'static str,
    last_ends: bool,
    block: usize,
}

fn bytes(lines: &[Value], written: Written) -> Vec<u8> {
    let lines = lines.iter().map(|line| format!("{line}{}", written.ending));
    let mut text = lines.collect::<Vec<String>>().concat();
    if !written.last_ends {
        text.truncate(text.len() - written.ending.len());
    }
    text.into_bytes()
}

fn in_blocks(lines: &[Value], written: Written, version: Version) -> Result<Reading, Unreadable> {
    let part = Part::whole(Rc::new(bytes(lines, written))).expect("memory");
    read_files(&[part], written.block, &Profile::of(version), POLICY)
}

fn ways() -> impl Strategy<Value = Written> {
    (any::<bool>(), any::<bool>(), 1_usize..300).prop_map(|(crlf, last_ends, block)| Written {
        ending: if crlf { "\r\n" } else { "\n" },
        last_ends,
        block,
    })
}

const PLAIN: Written = Written {
    ending: "\n",
    last_ends: true,
    block: 512,
};

/// Texts of several bytes a character and settings, beside the records of every kind.
pub(super) fn more_lines(kind: usize, number: i64) -> Value {
    match kind {
        0 => item("user", "汉字 é\u{1F600}"),
        1 => event(
            &json!({"type": "thread_settings_applied", "thread_settings": {
            "model": format!("m{number}"), "cwd": "/é", "approval_policy": "never"}}),
        ),
        2 => line(
            "compacted",
            &json!({"message": "m", "window_number": 7 + number, "window_id": "w",
                "replacement_history": []}),
        ),
        3 => line(
            "token_usage_record",
            &json!({"thread_token_usage": {"total_tokens": number}}),
        ),
        4 => json!("no record"),
        kind => any_line(kind - 5, number),
    }
}

proptest::proptest! {
    #[test]
    fn reading_in_blocks_gives_what_all_records_give(
        kinds in vec((0_usize..19, -1_i64..4), 0..40),
        written in ways(),
    ) {
        let mut lines = vec![meta()];
        lines.extend(kinds.iter().map(|(kind, number)| more_lines(*kind, *number)));
        for version in ALL {
            let profile = Profile::of(version);
            let streamed = in_blocks(&lines, written, version).expect("a thread").found;
            let whole = read(&lines, &profile, POLICY).expect("a thread");
            prop_assert_eq!(&streamed, &whole);
            let all = reference::read(&lines, &streamed, &profile, POLICY);
            prop_assert_eq!(&streamed, &all);
        }
    }

    /// A file that goes on where another one ends reads as if they were one.
    #[test]
    fn a_thread_in_two_files_reads_as_one(
        kinds in vec((0_usize..19, -1_i64..4), 1..30),
        cut in 0_usize..30,
        written in ways(),
    ) {
        let mut lines = vec![meta()];
        lines.extend(kinds.iter().map(|(kind, number)| more_lines(*kind, *number)));
        for (ordinal, line) in lines.iter_mut().enumerate() {
            if line.is_object() {
                line["ordinal"] = json!(ordinal);
            }
        }
        let cut = 1 + cut.min(lines.len() - 1);
        let older = bytes(&lines, written);
        let mut newer = vec![meta()];
        newer.extend_from_slice(&lines[cut..]);
        let profile = Profile::of(Version::V171);
        let whole = read(&lines, &profile, POLICY).expect("a thread");
        let hint = bytes(&lines[..cut], Written { last_ends: true, ..written }).len() as u64;
        for end in [None, Some(hint), Some(hint / 2)] {
            let parts = [
                Part::before(Rc::new(older.clone()), cut as u64, end).expect("memory"),
                Part::whole(Rc::new(bytes(&newer, written))).expect("memory"),
            ];
            let read = read_files(&parts, written.block, &profile, POLICY).expect("a thread");
            prop_assert_eq!(&read.found, &whole);
            prop_assert!(read.reach.bytes > 0);
        }
    }
}

/// Counts what is asked for.
struct Asked {
    bytes: Vec<u8>,
    count: Cell<u64>,
}

impl ReadAt for Asked {
    fn bytes(&self) -> io::Result<u64> {
        self.bytes.bytes()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.count.set(self.count.get() + buffer.len() as u64);
        self.bytes.read_exact_at(buffer, offset)
    }
}

/// A long thread whose newest turn but one compacted, as 0.171 writes it.
fn compacted_late(say: impl Fn(&mut Vec<Value>)) -> Vec<Value> {
    let mut lines = vec![meta()];
    for number in 0..400 {
        lines.extend(turn(number));
    }
    let settings = event(
        &json!({"type": "thread_settings_applied", "thread_settings": {
        "model": "m", "cwd": "/w", "approval_policy": "never"}}),
    );
    let mut body = vec![
        line(
            "token_usage_record",
            &json!({"thread_token_usage": {"total_tokens": 5}}),
        ),
        line(
            "compacted",
            &json!({"message": "m", "window_number": 3, "window_id": "w3",
            "replacement_history": [super::message("user", "U")],
            "replacement_history_metadata": [{"history_sequence": 900}],
            "retained_context": {"user_messages": [], "assistant_messages": [],
                "next_order": 12}}),
        ),
        world(true, &json!({})),
        context("t400", "m"),
        settings,
        counted(9),
    ];
    let mut asked = item("user", "NEW");
    asked["metadata"] = json!({"history_sequence": 901, "sampled_through_sequence": 880});
    body.push(asked);
    say(&mut body);
    lines.extend(turn_of(400, Some(&body)));
    lines
}

fn asked(lines: &[Value], version: Version) -> (Reading, u64, u64) {
    let file = Rc::new(Asked {
        bytes: bytes(lines, PLAIN),
        count: Cell::new(0),
    });
    let part = Part::whole(file.clone()).expect("memory");
    let reading = read_files(&[part], 512, &Profile::of(version), POLICY).expect("a thread");
    (reading, file.count.get(), file.bytes.len() as u64)
}

#[test]
fn what_stands_before_the_turn_of_the_newest_checkpoint_is_not_read() {
    for version in ALL {
        let (reading, count, bytes) = asked(&compacted_late(|_| {}), version);
        assert_eq!(reading.reach.needs, [], "{version:?}");
        assert!(!reading.reach.whole);
        assert!(count * 10 < bytes, "{count} of {bytes}");
        assert_eq!(reading.found.window.number, 3);
        assert_eq!(reading.found.history.items().len(), 2);
    }
}

type Mending = fn(&mut Vec<Value>);

#[test]
fn what_is_missing_is_looked_for_further_back_and_named() {
    let cases: [(Version, Mending, Need); 6] = [
        (
            Version::V171,
            |body| drop(body[1]["payload"]["window_number"].take()),
            Need::Window,
        ),
        (
            Version::V171,
            |body| drop(body.remove(0)),
            Need::ThreadUsage,
        ),
        (Version::V164, |body| drop(body.remove(4)), Need::Settings),
        (
            Version::V171,
            |body| drop(body[1]["payload"]["retained_context"].take()),
            Need::RetainedTexts,
        ),
        (
            Version::V171,
            |body| drop(body[1]["payload"]["replacement_history"].take()),
            Need::Checkpoint,
        ),
        (
            Version::V144,
            |body| body.push(rollback(2)),
            Need::RolledBackCheckpoint,
        ),
    ];
    for (version, change, need) in cases {
        let lines = compacted_late(change);
        let (reading, ..) = asked(&lines, version);
        assert!(
            reading.reach.needs.contains(&need),
            "{need:?} in {:?}",
            reading.reach
        );
        assert!(reading.reach.whole, "{need:?}");
        let profile = Profile::of(version);
        assert_eq!(
            reading.found,
            read(&lines, &profile, POLICY).expect("a thread")
        );
        assert_eq!(
            reading.found,
            reference::read(&lines, &reading.found, &profile, POLICY),
            "{need:?}"
        );
    }
}

/// A number that stands a little further back does not need the whole file.
#[test]
fn the_reading_goes_back_no_further_than_what_is_missing() {
    let mut lines = compacted_late(|body| drop(body.remove(5)));
    let place = lines.len() - 60;
    lines.insert(place, counted(7));
    let (reading, ..) = asked(&lines, Version::V171);
    assert_eq!(reading.reach.needs, [Need::TokenInfo]);
    assert!(!reading.reach.whole);
    assert_eq!(reading.found.info.map(|info| info.last.total), Some(7));
}

#[test]
fn a_paginated_thread_needs_an_ordinal_to_go_on_from() {
    let mut first = meta();
    first["payload"]["history_mode"] = json!("paginated");
    let mut lines = vec![first, start("a"), checkpoint(&[]), end("a")];
    let next = |lines: &[Value]| {
        in_blocks(lines, PLAIN, Version::V171).map(|reading| reading.found.next_ordinal)
    };
    assert_eq!(next(&lines), Err(Unreadable::NoOrdinal));
    lines[3]["ordinal"] = json!(41);
    assert_eq!(next(&lines), Ok(Some(42)));
    lines[0] = meta();
    assert_eq!(next(&lines), Ok(None));
}

/// A line of 100 MB is read as any other, and what stands before a newer checkpoint is not read.
#[test]
fn a_line_of_a_hundred_megabytes_is_a_line() {
    const LINE_BYTES: usize = 100 * 1024 * 1024;
    let text = "x".repeat(LINE_BYTES);
    let mut lines = vec![meta()];
    lines.extend(turn_of(
        1,
        Some(&[item("user", &text), item("assistant", "A1")]),
    ));
    for version in ALL {
        let file = Rc::new(bytes(&lines, PLAIN));
        let part = || Part::whole(file.clone()).expect("memory");
        let profile = Profile::of(version);
        let reading = super::super::read_thread("thread", &[part()], &profile, POLICY);
        let history = reading.expect("a thread").found.history;
        assert_eq!(
            history.items()[0].texts()[0].len(),
            LINE_BYTES,
            "{version:?}"
        );
    }
    let late = compacted_late(|_| {});
    lines.extend_from_slice(&late[1..]);
    let (reading, count, bytes) = asked(&lines, Version::V171);
    assert_eq!(reading.found.window.number, 3);
    assert!(count * 10 < bytes, "{count} of {bytes}");
}
