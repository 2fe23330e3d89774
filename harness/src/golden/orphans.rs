//! Goldens of scenarios that are gone: nobody compares them, so nobody would miss what they hold.

use std::collections::BTreeSet;
use std::path::Path;

use walkdir::WalkDir;

/// Folders below `golden/` with goldens of no scenario, each with what to do about it.
pub fn orphans(root: &Path, ids: &BTreeSet<&str>) -> Vec<String> {
    let golden = root.join("golden");
    let mut folders = BTreeSet::new();
    let mut found = Vec::new();
    for entry in WalkDir::new(&golden) {
        let entry = match entry {
            Ok(entry) => entry,
            // A checkout without goldens has none that is left over.
            Err(_) if !golden.exists() => continue,
            Err(error) => {
                found.push(format!("golden: could not be looked through: {error}"));
                continue;
            }
        };
        let path = entry.path();
        let is_golden = path
            .extension()
            .is_some_and(|end| end == "snap" || end == "new");
        if is_golden
            && let Some(folder) = path.parent()
            && let Ok(below) = folder.strip_prefix(&golden)
        {
            folders.insert(below.to_string_lossy().replace('\\', "/"));
        }
    }
    let folders = folders.iter();
    let left = folders.filter(|folder| *folder != "envelope" && !ids.contains(folder.as_str()));
    found.extend(left.map(|folder| {
        format!("golden/{folder}: goldens of no scenario; remove them, or bring it back")
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_scenario_is_named() {
        let root = tempfile::tempdir().expect("a folder");
        for file in [
            "turn/a/wire.snap",
            "turn/b/wire.snap",
            "envelope/0.171.snap",
        ] {
            let path = root.path().join("golden").join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            std::fs::write(path, "").expect("written");
        }
        let found = orphans(root.path(), &BTreeSet::from(["turn/a"]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("golden/turn/b: "), "{found:?}");
    }
}
