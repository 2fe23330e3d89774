//! The version chain: a golden of a later version exists only where it differs from what it inherits.
//!
//! The oldest version's file is `wire.snap`, later ones are `wire@0.164.snap`. A version without a
//! file inherits the newest older one. Every header names the file it builds on; a wrong base, a
//! file that repeats its base, and a file of no known version are errors.

use std::path::{Path, PathBuf};

use super::render::Stream;
use super::store::{GoldenFile, StoreError};
use super::versions::VERSIONS;

/// File name of a stream's golden of one version.
pub fn file_name(stream: Stream, version: usize) -> String {
    match version {
        0 => format!("{}.snap", stream.name()),
        later => format!("{}@{}.snap", stream.name(), VERSIONS[later].name),
    }
}

/// A golden that holds for a version, its own or inherited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The version whose file it is.
    pub version: usize,
    /// Where it lies.
    pub path: PathBuf,
    /// Its content.
    pub file: GoldenFile,
}

/// Files of a stream up to a version, oldest first; bases are verified, bodies are not looked into.
pub fn read(folder: &Path, stream: Stream, up_to: usize) -> Result<Vec<Resolved>, StoreError> {
    let mut list: Vec<Resolved> = Vec::new();
    for version in 0..=up_to {
        let name = file_name(stream, version);
        let path = folder.join(&name);
        let Some(file) = GoldenFile::read_head(&path)? else {
            continue;
        };
        let fail = |message: String| StoreError::Form {
            file: path.display().to_string(),
            line: 5,
            message,
        };
        let base = list
            .last()
            .map_or("none".to_owned(), |r| file_name(stream, r.version));
        if file.header.base != base {
            return Err(fail(format!(
                "base is `{}`, expected `{base}`",
                file.header.base
            )));
        }
        if list
            .last()
            .is_some_and(|before| before.file.body == file.body)
        {
            return Err(fail(format!("repeats its base `{base}`: delete it")));
        }
        list.push(Resolved {
            version,
            path,
            file,
        });
    }
    Ok(list)
}

/// The golden that holds for a version.
pub fn resolve(
    folder: &Path,
    stream: Stream,
    version: usize,
) -> Result<Option<Resolved>, StoreError> {
    Ok(read(folder, stream, version)?.pop())
}

/// Names in a scenario's folder that no version's golden has (pending files included).
pub fn orphans(folder: &Path) -> Vec<String> {
    let known: Vec<String> = Stream::ALL
        .iter()
        .flat_map(|stream| (0..VERSIONS.len()).map(|v| file_name(*stream, v)))
        .collect();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            !known
                .iter()
                .any(|k| k == name.strip_suffix(".new").unwrap_or(name))
        })
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::super::store::tests::golden;
    use super::*;
    use serde_json::json;

    #[test]
    fn later_versions_inherit() {
        let folder = tempfile::tempdir().unwrap();
        let put = |version: usize, base: &str, n: i64| {
            let file = golden("codex@0.144.6", base, &json!({"requests": [n]}));
            file.write(
                &folder.path().join(file_name(Stream::Wire, version)),
                &|_| vec![],
            )
            .unwrap();
        };
        assert_eq!(resolve(folder.path(), Stream::Wire, 2).unwrap(), None);
        put(0, "none", 1);
        assert_eq!(
            resolve(folder.path(), Stream::Wire, 2)
                .unwrap()
                .unwrap()
                .version,
            0
        );
        put(2, "wire.snap", 3);
        assert_eq!(
            resolve(folder.path(), Stream::Wire, 1)
                .unwrap()
                .unwrap()
                .version,
            0
        );
        assert_eq!(
            resolve(folder.path(), Stream::Wire, 2)
                .unwrap()
                .unwrap()
                .version,
            2
        );
        put(1, "wire.snap", 2);
        let gap = resolve(folder.path(), Stream::Wire, 2)
            .unwrap_err()
            .to_string();
        assert!(gap.contains("expected `wire@0.164.snap`"), "{gap}");
        put(1, "wire.snap", 1);
        let twice = resolve(folder.path(), Stream::Wire, 1)
            .unwrap_err()
            .to_string();
        assert!(twice.contains("repeats its base"), "{twice}");
    }

    #[test]
    fn files_of_no_version_are_orphans() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "wire.snap",
            "wire@0.150.snap",
            "notes.txt",
            "events.snap.new",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(orphans(folder.path()), ["notes.txt", "wire@0.150.snap"]);
    }
}
