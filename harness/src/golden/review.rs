//! Reviewing pending goldens: grouped by identical changes, so that one decision serves all.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;

use similar::TextDiff;

use super::bless::{Pending, accept, pending, position, reject};
use super::chain::resolve;
use super::store::{GoldenFile, StoreError};

/// Pending goldens whose changes are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The files.
    pub members: Vec<Pending>,
    /// Their common change as a unified diff without positions.
    pub change: String,
}

/// All pending goldens, grouped.
pub fn groups(root: &Path) -> Result<Vec<Group>, StoreError> {
    let mut by_change: BTreeMap<String, Vec<Pending>> = BTreeMap::new();
    for one in pending(root) {
        by_change.entry(change(&one)?).or_default().push(one);
    }
    let mut list: Vec<Group> = by_change
        .into_iter()
        .map(|(change, members)| Group { members, change })
        .collect();
    list.sort_by(|a, b| a.members[0].name.cmp(&b.members[0].name));
    Ok(list)
}

fn change(pending: &Pending) -> Result<String, StoreError> {
    let new = GoldenFile::read(&pending.path)?
        .map(|f| f.body)
        .unwrap_or_default();
    let target = pending.path.with_extension("");
    let old = match (target.parent(), position(&target)) {
        (Some(folder), Some((stream, version))) => {
            resolve(folder, stream, version)?.map(|r| r.file.body)
        }
        _ => GoldenFile::read(&target)?.map(|f| f.body),
    };
    let Some(old) = old else {
        return Ok(format!("new golden\n{new}"));
    };
    let diff = TextDiff::from_lines(&old, &new);
    let text = diff.unified_diff().context_radius(1).to_string();
    // Positions differ between files with the same change.
    let lines = text
        .lines()
        .map(|l| if l.starts_with("@@") { "@@" } else { l });
    Ok(lines.flat_map(|l| [l, "\n"]).collect())
}

/// What to do with a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Make them goldens.
    Accept,
    /// Remove them.
    Reject,
    /// Leave them pending.
    Skip,
    /// Leave this and all later ones pending.
    Quit,
}

/// Applies a decision to every member.
pub fn decide(group: &Group, decision: Decision) -> Result<(), StoreError> {
    for member in &group.members {
        match decision {
            Decision::Accept => accept(member)?,
            Decision::Reject => reject(member)?,
            Decision::Skip | Decision::Quit => {}
        }
    }
    Ok(())
}

/// Asks for every group. `input` is a terminal's; at its end the rest stays pending.
pub fn interactive(
    groups: &[Group],
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> Result<(usize, usize), StoreError> {
    let (mut accepted, mut rejected) = (0, 0);
    for (at, group) in groups.iter().enumerate() {
        let decision = ask(group, at + 1, groups.len(), input, out);
        decide(group, decision)?;
        match decision {
            Decision::Accept => accepted += group.members.len(),
            Decision::Reject => rejected += group.members.len(),
            Decision::Skip => {}
            Decision::Quit => break,
        }
    }
    Ok((accepted, rejected))
}

fn ask(
    group: &Group,
    number: usize,
    of: usize,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> Decision {
    let mut show = |text: String| drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    show(format!("\n[{number}/{of}] {}", describe(group)));
    loop {
        show("accept? [y]es [n]o (reject) [s]kip [q]uit: ".into());
        let mut line = String::new();
        match input.read_line(&mut line) {
            Ok(0) | Err(_) => return Decision::Quit,
            Ok(_) => {}
        }
        match line.trim() {
            "y" | "yes" => return Decision::Accept,
            "n" | "no" => return Decision::Reject,
            "s" | "skip" => return Decision::Skip,
            "q" | "quit" => return Decision::Quit,
            _ => {}
        }
    }
}

/// Names and change of a group.
pub fn describe(group: &Group) -> String {
    let names: String = group
        .members
        .iter()
        .flat_map(|m| [m.name.as_str(), "\n"])
        .collect();
    format!(
        "{} pending with this change:\n{names}{}",
        group.members.len(),
        group.change
    )
}

#[cfg(test)]
mod tests {
    use super::super::store::{pending_path, tests::golden};
    use super::*;
    use serde_json::json;

    #[test]
    fn one_answer_serves_all_with_the_same_change() {
        let root = tempfile::tempdir().unwrap();
        for (case, old, new) in [("a", 1, 2), ("b", 1, 2), ("c", 1, 3)] {
            let path = root.path().join(case).join("wire.snap");
            for (path, n) in [(path.clone(), old), (pending_path(&path), new)] {
                let doc = json!({"requests": [{"request": case}, {"n": n}]});
                golden("codex@0.144.6", "none", &doc)
                    .write(&path, &|_| vec![])
                    .unwrap();
            }
        }
        // Context lines name the case; without a common context there are three groups.
        let groups = groups(root.path()).unwrap();
        assert_eq!(groups.iter().map(|g| g.members.len()).sum::<usize>(), 3);
        assert_eq!(groups.len(), 2);
        let mut out = Vec::new();
        let done = interactive(&groups, &mut "x\ny\nq\n".as_bytes(), &mut out).unwrap();
        assert_eq!(done, (2, 0));
        assert_eq!(pending(root.path()).len(), 1);
    }
}
