//! Damage of lines and of whole files: each kind trips its own finding, and none makes it panic.

use serde_json::json;

use super::{
    OPTIONS, SECRET, call, clean, clean_text, doctor, doctor_named, message, output, rules,
};
use crate::doctor::text;

#[test]
fn each_damage_of_a_line_trips_its_finding() {
    let file = clean_text();
    let line = file.lines().nth(4).expect("a line");
    let at = file.find(line).expect("found") as u64;
    let half = &line[..line.len() / 2];
    let with = |new: &str| file.replacen(line, new, 1).into_bytes();
    let invalid: Vec<u8> = with(&line.replacen("2026", "\u{1}026", 1));
    let invalid: Vec<u8> = invalid
        .iter()
        .map(|b| if *b == 1 { 0xFF } else { *b })
        .collect();
    // The event is no item, so that nothing but the line itself is amiss.
    for (rule, offset, bytes) in [
        ("line.cut_off", at, with(half)),
        (
            "line.glued",
            at + half.len() as u64,
            with(&format!("{half}{line}")),
        ),
        (
            "line.two_records",
            at + line.len() as u64,
            with(&format!("{line}{line}")),
        ),
        ("line.not_json", at, with("garbage")),
        ("line.not_a_record", at, with("[1,2]")),
        (
            "line.nul",
            at + 14,
            with(&line.replacen("2026", "\u{0}026", 1)),
        ),
        ("line.invalid_utf8", at + 14, invalid),
        ("line.byte_order_mark", at, with(&format!("\u{feff}{line}"))),
    ] {
        let report = doctor(&bytes);
        let errors = report
            .findings
            .iter()
            .filter(|f| f.severity.word() == "error");
        let errors: Vec<_> = errors.map(|f| (f.rule, f.line, f.offset)).collect();
        assert_eq!(errors, [(rule, 5, offset)]);
        assert_eq!(report.errors, 1, "{rule}");
        // The record is gone, and its ordinal with it.
        assert!(
            report.findings.iter().any(|f| f.rule == "ordinal.gap"),
            "{rule}"
        );
    }
    for (rule, bytes) in [
        ("line.carriage_return", file.replace('\n', "\r\n")),
        ("line.blank", file.replacen('\n', "\n\n", 1)),
        ("file.no_final_newline", file.trim_end().to_owned()),
    ] {
        assert_eq!(rules(bytes.as_bytes()), [rule]);
        assert_eq!(doctor(bytes.as_bytes()).errors, 0, "{rule}");
    }
    let torn = &file[..file.len() - 9];
    assert_eq!(rules(torn.as_bytes()), ["line.torn", "turn.unfinished"]);
}

#[test]
fn damage_of_the_whole_file_trips_its_finding() {
    assert_eq!(rules(b""), ["file.empty"]);
    assert_eq!(rules(b"\n\n"), ["file.empty", "line.blank", "line.blank"]);
    let file = clean_text();
    let (first, rest) = file.split_once('\n').expect("lines");
    let found = rules(rest.as_bytes());
    assert!(found.starts_with(&["session.no_meta"]), "{found:?}");
    assert_eq!(doctor(rest.as_bytes()).resume, None);
    let marked = format!("\u{feff}{file}");
    assert_eq!(
        rules(marked.as_bytes()),
        ["line.byte_order_mark", "session.no_meta"]
    );
    let no_cwd = file.replacen("\"cwd\"", "\"cwe\"", 1);
    assert_eq!(
        rules(no_cwd.as_bytes()),
        ["resume.unreadable", "session.broken_meta"]
    );
    let weird = file.replacen("\"paginated\"", "\"weird\"", 1);
    assert!(rules(weird.as_bytes()).contains(&"session.broken_meta"));
    let newer = file.replacen("0.171.0", "0.180.0", 1);
    assert_eq!(rules(newer.as_bytes()), ["session.unknown_version"]);
    let twice = format!("{first}\n{file}");
    let found = rules(twice.as_bytes());
    assert_eq!(found, ["ordinal.duplicate", "session.second_meta"]);
}

#[test]
fn long_lines_are_read_and_named() {
    let long = "x".repeat(9 * 1024 * 1024);
    let file = clean("0.171.0").started("t2").user(&long).completed("t2");
    let report = doctor(file.text().as_bytes());
    let found: Vec<_> = report.findings.iter().map(|f| (f.rule, f.line)).collect();
    let expected = [("line.long", 13), ("line.long", 14), ("resume.not_read", 1)];
    assert_eq!(found, expected);
    assert_eq!(report.errors, 0);
}

#[test]
fn damage_of_the_compression_is_a_finding_and_what_came_before_is_read() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let file = clean_text();
    let whole = compress_to_vec(file.as_bytes(), CompressionLevel::Fastest);
    let report = doctor_named("bug.jsonl.zst", &whole, OPTIONS);
    assert_eq!((report.findings.len(), report.compressed), (0, true));
    assert_eq!(report.bytes, file.len() as u64);
    let mut damaged = whole;
    damaged.extend_from_slice(b"no frame");
    let report = doctor_named("bug.jsonl.zst", &damaged, OPTIONS);
    let found: Vec<_> = report.findings.iter().map(|f| (f.rule, f.offset)).collect();
    assert_eq!(found, [("file.compression", file.len() as u64)]);
    assert!(report.resume.is_some());
    let plain = doctor_named("bug.jsonl.zst", file.as_bytes(), OPTIONS);
    assert_eq!(plain.findings[0].rule, "file.compression");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]
    /// Bytes are turned, lines are cut, doubled and moved; the report adds up all the same.
    #[test]
    fn no_damage_makes_it_panic(
        edits in proptest::collection::vec((0_usize..4, 0_usize..10_000, 0_u8..=255), 1..12),
        cut in 0_usize..10_000,
    ) {
        let file = clean("0.171.0").compacted(1, &json!([call("x"), message("user", SECRET)]));
        let mut bytes = file.user("More?").item(&output("x")).text().into_bytes();
        for (kind, place, byte) in edits {
            let place = place % bytes.len();
            match kind {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                2 => drop(bytes.remove(place)),
                _ => {
                    let tail = bytes.split_off(place);
                    bytes.splice(0..0, tail);
                }
            }
        }
        bytes.truncate(bytes.len() - cut % bytes.len());
        let report = doctor(&bytes);
        let sum: u64 = report.kinds.iter().map(|kind| kind.bytes).sum();
        proptest::prop_assert_eq!(sum, bytes.len() as u64);
        let printed = text::report("bug.jsonl", &report);
        proptest::prop_assert!(!printed.contains("treasure"), "{}", printed);
    }
}
