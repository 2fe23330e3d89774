//! Accepting and rejecting pending goldens, and keeping the chain of versions whole.

use std::path::{Path, PathBuf};

use super::chain::{file_name, read};
use super::render::Stream;
use super::store::{GoldenFile, StoreError, pending_path};
use super::versions::VERSIONS;

/// Refuses to bless in CI.
pub fn refused_in_ci() -> Option<&'static str> {
    std::env::var_os("CI").map(|_| "goldens are never accepted in CI (CI is set)")
}

/// A pending golden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The `.snap.new` file.
    pub path: PathBuf,
    /// Path below `golden/` without `.new`.
    pub name: String,
}

/// All pending files below a folder, in order of their names.
pub fn pending(root: &Path) -> Vec<Pending> {
    let mut list: Vec<Pending> = walkdir::WalkDir::new(root)
        .sort_by_file_name()
        .into_iter()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file())
        .filter_map(|entry| {
            let path = entry.into_path();
            let below = path.strip_prefix(root).ok()?.to_str()?.to_owned();
            let name = below.strip_suffix(".new")?.to_owned();
            (path.with_extension("").extension()? == "snap").then_some(Pending { path, name })
        })
        .collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

/// Makes a pending file the golden. One that equals what it inherits removes the own file instead.
pub fn accept(pending: &Pending) -> Result<(), StoreError> {
    let text = GoldenFile::read(&pending.path)?;
    let target = pending.path.with_extension("");
    let Some(file) = text else {
        return Err(io(&pending.path, "no such pending golden"));
    };
    debug_assert_eq!(pending_path(&target), pending.path);
    file.write(&target, &|_| Vec::new())?;
    std::fs::remove_file(&pending.path).map_err(|e| io(&pending.path, &e.to_string()))?;
    if let (Some(folder), Some((stream, _))) = (target.parent(), position(&target)) {
        rebase(folder, stream)?;
    }
    Ok(())
}

/// Removes a pending file.
pub fn reject(pending: &Pending) -> Result<(), StoreError> {
    std::fs::remove_file(&pending.path).map_err(|e| io(&pending.path, &e.to_string()))
}

/// Stream and version of a golden's file name.
pub fn position(path: &Path) -> Option<(Stream, usize)> {
    let name = path.file_name()?.to_str()?;
    Stream::ALL
        .into_iter()
        .flat_map(|stream| (0..VERSIONS.len()).map(move |v| (stream, v)))
        .find(|(stream, version)| file_name(*stream, *version) == name)
}

/// Sets every base anew and deletes files that only repeat theirs.
pub fn rebase(folder: &Path, stream: Stream) -> Result<(), StoreError> {
    let mut before: Option<(usize, String)> = None;
    for version in 0..VERSIONS.len() {
        let path = folder.join(file_name(stream, version));
        let Some(mut file) = GoldenFile::read(&path)? else {
            continue;
        };
        if before.as_ref().is_some_and(|(_, body)| *body == file.body) {
            std::fs::remove_file(&path).map_err(|e| io(&path, &e.to_string()))?;
            continue;
        }
        let base = before
            .as_ref()
            .map_or("none".to_owned(), |(v, _)| file_name(stream, *v));
        if file.header.base != base {
            file.header.base = base;
            file.write(&path, &|_| Vec::new())?;
        }
        before = Some((version, file.body));
    }
    read(folder, stream, VERSIONS.len() - 1).map(drop)
}

/// Gives every golden of a case the sentence its scenario has now; the bodies stay.
pub fn retitle(folder: &Path, description: &str) -> Result<(), StoreError> {
    for stream in Stream::ALL {
        for version in 0..VERSIONS.len() {
            let path = folder.join(file_name(stream, version));
            let Some(mut file) = GoldenFile::read(&path)? else {
                continue;
            };
            if file.header.description != description {
                description.clone_into(&mut file.header.description);
                file.write(&path, &|_| Vec::new())?;
            }
        }
    }
    Ok(())
}

fn io(path: &Path, message: &str) -> StoreError {
    StoreError::Io {
        file: path.display().to_string(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::resolve;
    use super::super::store::tests::golden;
    use super::*;
    use serde_json::json;

    fn put_pending(folder: &Path, version: usize, n: i64) -> Pending {
        let file = golden("codex@0.144.6", "none", &json!({"requests": [n]}));
        let target = folder.join(file_name(Stream::Wire, version));
        let path = pending_path(&target);
        file.write(&path, &|_| Vec::new()).unwrap();
        pending(folder)
            .into_iter()
            .find(|p| p.path == path)
            .unwrap()
    }

    #[test]
    fn a_sentence_written_anew_reaches_every_golden_of_the_case() {
        let folder = tempfile::tempdir().unwrap();
        accept(&put_pending(folder.path(), 0, 1)).unwrap();
        accept(&put_pending(folder.path(), 2, 3)).unwrap();
        retitle(folder.path(), "Does another thing.").unwrap();
        for (version, body) in [(0, 1), (2, 3)] {
            let found = resolve(folder.path(), Stream::Wire, version)
                .unwrap()
                .unwrap();
            assert_eq!(found.file.header.description, "Does another thing.");
            assert_eq!(found.file.doc(), json!({"requests": [body]}));
        }
    }

    #[test]
    fn accepting_keeps_the_chain_whole() {
        let folder = tempfile::tempdir().unwrap();
        let own = |v| {
            let found = resolve(folder.path(), Stream::Wire, v).unwrap().unwrap();
            (found.version, found.file.header.base)
        };
        accept(&put_pending(folder.path(), 0, 1)).unwrap();
        accept(&put_pending(folder.path(), 2, 3)).unwrap();
        assert_eq!(own(2), (2, "wire.snap".into()));
        accept(&put_pending(folder.path(), 1, 2)).unwrap();
        assert_eq!(
            own(2),
            (2, "wire@0.164.snap".into()),
            "the later file builds on the new one"
        );
        accept(&put_pending(folder.path(), 1, 1)).unwrap();
        assert_eq!(
            own(1),
            (0, "none".into()),
            "a file that repeats its base goes"
        );
        assert_eq!(own(2), (2, "wire.snap".into()));
        assert_eq!(pending(folder.path()), []);
    }

    #[test]
    fn rejecting_removes_only_the_pending_file() {
        let folder = tempfile::tempdir().unwrap();
        accept(&put_pending(folder.path(), 0, 1)).unwrap();
        reject(&put_pending(folder.path(), 0, 2)).unwrap();
        assert_eq!(pending(folder.path()), []);
        assert!(resolve(folder.path(), Stream::Wire, 0).unwrap().is_some());
    }
}
