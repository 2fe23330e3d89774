//! Damaged files: reading in blocks from the end gives what reading all bytes at once gives, down to
//! what is refused and what is left out.

use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert_eq};
use serde_json::{Value, json};

use super::super::{Found, Part, Unreadable, lines, read, read_files, read_thread};
use super::streamed::more_lines;
use super::{ALL, meta};
use crate::profile::Profile;
use crate::settings::Truncation;

const POLICY: Truncation = Truncation::Bytes(10_000);
const THREAD: &str = "thread";
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What happens to a line on its way into the file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    None,
    /// Only so many bytes of it are there.
    Torn(usize),
    /// It has no newline, so the next one stands on it.
    Glued,
    /// A byte of it is another one.
    Byte(usize, u8),
    /// It ends with a carriage return and a newline.
    CarriageReturn,
    /// It stands there twice.
    Twice,
    /// A byte order mark stands in front of it.
    Mark,
    /// A blank line stands in front of it.
    Blank,
    /// Bytes of no meaning stand in front of it, on their own line.
    Noise(u8),
}

/// A record, its ordinal and its damage.
type Drawn = (usize, i64, Option<u64>, Damage);

fn damage() -> impl Strategy<Value = Damage> {
    // NUL, a byte that no UTF-8 has, a newline in the middle, a byte that begins a character.
    const BYTES: [u8; 4] = [0, 0xff, b'\n', 0xe6];
    (0_usize..16, 0_usize..200, 0_usize..BYTES.len()).prop_map(|(kind, at, byte)| match kind {
        0 => Damage::Torn(at),
        1 => Damage::Glued,
        2 | 3 => Damage::Byte(at, BYTES[byte]),
        4 => Damage::CarriageReturn,
        5 => Damage::Twice,
        6 => Damage::Mark,
        7 => Damage::Blank,
        8 => Damage::Noise(BYTES[byte]),
        _ => Damage::None,
    })
}

/// Ordinals that are missing, that come twice, that go back.
fn ordinal() -> impl Strategy<Value = Option<u64>> {
    (any::<bool>(), 0_u64..6).prop_map(|(there, ordinal)| there.then_some(ordinal))
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    vec((0_usize..19, -1_i64..4, ordinal(), damage()), 0..30)
}

fn written(line: &Value, damage: Damage, file: &mut Vec<u8>) {
    let mut bytes = line.to_string().into_bytes();
    let mut ending: &[u8] = b"\n";
    match damage {
        Damage::None => {}
        Damage::Torn(at) => bytes.truncate(at % bytes.len()),
        Damage::Glued => ending = b"",
        Damage::Byte(at, byte) => {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        Damage::CarriageReturn => ending = b"\r\n",
        Damage::Twice => bytes.extend([b"\n", line.to_string().as_bytes()].concat()),
        Damage::Mark => file.extend(BYTE_ORDER_MARK),
        Damage::Blank => file.extend(b" \n"),
        Damage::Noise(byte) => file.extend([b'{', byte, b'"', b'\n']),
    }
    file.extend(bytes);
    file.extend(ending);
}

fn file(first: Damage, drawn: &[Drawn], paginated: bool, ends: bool) -> Vec<u8> {
    let mut head = meta();
    head["ordinal"] = json!(0);
    if paginated {
        head["payload"]["history_mode"] = json!("paginated");
    }
    let mut file = Vec::new();
    written(&head, first, &mut file);
    for (kind, number, ordinal, damage) in drawn {
        let mut line = more_lines(*kind, *number);
        if let (Some(ordinal), Some(object)) = (ordinal, line.as_object_mut()) {
            object.insert("ordinal".to_owned(), json!(ordinal));
        }
        written(&line, *damage, &mut file);
    }
    if !ends {
        file.pop_if(|last| *last == b'\n');
    }
    file
}

/// The thread of all bytes at once.
fn whole(file: &[u8], profile: &Profile) -> Result<Found, Unreadable> {
    let all = lines::lines(file, profile)?;
    let mut found = read(&all.records, profile, POLICY)?;
    if !found.begun {
        THREAD.clone_into(&mut found.thread);
        THREAD.clone_into(&mut found.session_id);
    }
    if found.thread != THREAD && profile.checks_thread_id {
        return Err(Unreadable::OtherThread);
    }
    if !profile.skips_silently {
        found.skipped = all.skipped;
    }
    found.open_end = all.open_end;
    Ok(found)
}

/// The same where only the records count.
fn bare(found: Found) -> Found {
    Found {
        thread: String::new(),
        session_id: String::new(),
        open_end: false,
        skipped: Vec::new(),
        ..found
    }
}

fn profiles() -> Vec<Profile> {
    let each = ALL.iter();
    each.flat_map(|version| [Profile::of(*version), Profile::fixed(*version)])
        .collect()
}

proptest::proptest! {
    #[test]
    fn a_damaged_file_read_in_blocks_is_what_all_its_bytes_are(
        first in damage(),
        drawn in drawn(),
        paginated in any::<bool>(),
        ends in any::<bool>(),
        block in 1_usize..300,
    ) {
        let file = file(first, &drawn, paginated, ends);
        let part = || Part::whole(Rc::new(file.clone())).expect("memory");
        for profile in profiles() {
            let whole = whole(&file, &profile);
            let thread = read_thread(THREAD, &[part()], &profile, POLICY);
            prop_assert_eq!(thread.map(|reading| reading.found), whole.clone());
            // What refuses a file further back is looked for by `read_thread` alone.
            if let Ok(whole) = whole {
                let blocks = read_files(&[part()], block, &profile, POLICY);
                let blocks = blocks.map(|reading| bare(reading.found));
                prop_assert_eq!(blocks, Ok(bare(whole)));
            }
        }
    }
}

/// A property over damage shows nothing if all files are refused, or none.
#[test]
fn damage_refuses_some_files_and_leaves_others() {
    let text = |damage| file(Damage::None, &[(0, 1, Some(1), damage)], true, true);
    for profile in profiles() {
        let found =
            |damage| whole(&text(damage), &profile).map(|found| found.history.items().len());
        if profile.usage_records {
            assert_eq!(found(Damage::None), Ok(1));
            assert_eq!(found(Damage::Twice), Ok(2));
            assert_eq!(found(Damage::Byte(20, 0xff)), Ok(0));
        } else {
            assert_eq!(found(Damage::None), Err(Unreadable::Paginated));
        }
    }
}
