//! The files that a thread lies in: its newest one, and those that it stands on.

use std::rc::Rc;

use serde_json::Value;

use super::Unreadable;
use super::blocks::{BLOCK_BYTES, Forwards};
use super::lines::take_apart;
use super::parts::Part;
use crate::ports::ReadAt;
use crate::profile::Profile;

/// Finds rollout files.
pub trait Rollouts {
    /// The file that a thread was last written to.
    fn newest(&self, thread: &str) -> Option<Rc<dyn ReadAt>>;
    /// The file of this id: that of the thread for the first one, an id of its own for one that a
    /// revert began.
    fn file(&self, id: &str) -> Option<Rc<dyn ReadAt>>;
}

/// The parts of the newest file of a thread, oldest first. A file names the one that it stands on.
pub fn lineage(
    thread: &str,
    rollouts: &dyn Rollouts,
    profile: &Profile,
) -> Result<Vec<Part>, Unreadable> {
    let newest = rollouts.newest(thread).ok_or(Unreadable::Lineage)?;
    let mut base = base_of(&*newest, profile)?;
    let mut parts = vec![Part::whole(newest)?];
    let mut before = u64::MAX;
    while let Some((id, ordinal, end)) = base {
        // Files that stand on each other in a circle would never end.
        if ordinal >= before {
            return Err(Unreadable::Lineage);
        }
        before = ordinal;
        let file = rollouts.file(&id).ok_or(Unreadable::Lineage)?;
        base = base_of(&*file, profile)?;
        parts.push(Part::before(file, ordinal, end)?.called(&id));
    }
    parts.reverse();
    Ok(parts)
}

type Base = (String, u64, Option<u64>);

/// Id, first ordinal that is not part of it, and bytes of the file that a file stands on.
fn base_of(file: &dyn ReadAt, profile: &Profile) -> Result<Option<Base>, Unreadable> {
    let Some(meta) = meta(file, profile)? else {
        return Ok(None);
    };
    let base = &meta["payload"]["history_base"];
    let id = base["thread_id"].as_str().map(str::to_owned);
    let ordinal = base["end_ordinal_exclusive"].as_u64();
    let end = base["end_byte_offset"].as_u64();
    Ok(id.zip(ordinal).map(|(id, at)| (id, at, end)))
}

/// The first record, or the first that is metadata where their place is not held to.
fn meta(file: &dyn ReadAt, profile: &Profile) -> Result<Option<Value>, Unreadable> {
    let mut lines = Forwards::new(file, 0, file.bytes()?, BLOCK_BYTES);
    let mut found = None;
    while let Some((offset, line)) = lines.line()? {
        take_apart(&line, offset, profile, &mut |piece| {
            let record = piece.record.ok().filter(|record| {
                found.is_none() && (profile.needs_meta_first || record["type"] == "session_meta")
            });
            found = found.take().or(record);
        })?;
        if found.is_some() {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::profile::Version;

    struct Files(BTreeMap<&'static str, String>);

    impl Rollouts for Files {
        fn newest(&self, thread: &str) -> Option<Rc<dyn ReadAt>> {
            self.file(thread)
        }

        fn file(&self, id: &str) -> Option<Rc<dyn ReadAt>> {
            let text = self.0.get(id)?.clone();
            Some(Rc::new(text.into_bytes()))
        }
    }

    fn file(base: Option<(&str, u64)>) -> String {
        let base = base.map(|(id, end)| json!({"thread_id": id, "end_ordinal_exclusive": end}));
        let payload = json!({"id": "x", "history_base": base});
        format!(
            "{}\n",
            json!({"timestamp": "t", "type": "session_meta", "payload": payload})
        )
    }

    fn parts(files: &[(&'static str, Option<(&str, u64)>)]) -> Result<usize, Unreadable> {
        let files = files.iter().map(|(id, base)| (*id, file(*base)));
        lineage("a", &Files(files.collect()), &Profile::of(Version::V171)).map(|parts| parts.len())
    }

    #[test]
    fn a_file_is_read_with_all_that_it_stands_on() {
        assert_eq!(parts(&[("a", None)]), Ok(1));
        let three = [("a", Some(("b", 9))), ("b", Some(("c", 4))), ("c", None)];
        assert_eq!(parts(&three), Ok(3));
    }

    #[test]
    fn a_line_that_is_left_out_names_its_file_among_several() {
        let broken = |base| format!("{}noise\n", file(base));
        let told = |files: &[(&'static str, String)]| -> Vec<String> {
            let profile = Profile::fixed(Version::V171);
            let files = Files(files.iter().cloned().collect());
            let parts = lineage("a", &files, &profile).expect("a lineage");
            let skipped = super::super::skipped(&parts, &profile).expect("readable");
            skipped.iter().map(ToString::to_string).collect()
        };
        let why = "line 2 (5 bytes): expected ident at line 1 column 2";
        assert_eq!(told(&[("a", broken(None))]), [why]);
        let two = [("a", broken(Some(("b", 9)))), ("b", broken(None))];
        assert_eq!(
            told(&two),
            [
                format!("file 1 of 2 (b), {why}"),
                format!("file 2 of 2 (the newest), {why}")
            ]
        );
    }

    #[test]
    fn a_missing_file_and_a_circle_are_no_lineage() {
        assert_eq!(parts(&[]), Err(Unreadable::Lineage));
        assert_eq!(parts(&[("a", Some(("b", 9)))]), Err(Unreadable::Lineage));
        let circle = [("a", Some(("b", 9))), ("b", Some(("a", 9)))];
        assert_eq!(parts(&circle), Err(Unreadable::Lineage));
    }
}
