//! Every golden reads, belongs to a scenario, was recorded from a real binary and has its place in
//! the chain. As a test target in this folder it also makes the files visible to `cargo insta`.

use std::path::{Path, PathBuf};

use harness::cases::{self, Case};
use harness::golden::bless::position;
use harness::golden::chain::{orphans, read};
use harness::golden::envelope::Envelope;
use harness::golden::render::Stream;
use harness::golden::store::{GoldenFile, Header};
use harness::golden::versions::{Arm, Subject, VERSIONS};

fn root() -> PathBuf {
    let here = std::env::current_dir().expect("a current folder");
    let root = here.ancestors().find(|f| f.join("scenarios").is_dir());
    root.expect("a checkout").to_owned()
}

/// Files below a folder whose name ends with `.snap`, below the folder.
fn snaps(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
        {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "snap") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn header_problem(header: &Header, only_engine: bool, version: usize) -> Option<String> {
    let by = Subject::parse(&header.blessed_by).ok();
    let real = by.filter(|s| s.arm == Arm::Codex);
    match real {
        _ if only_engine => None,
        None => Some(format!(
            "blessed by {}, not by a real binary",
            header.blessed_by
        )),
        Some(subject) if subject.version != version => Some(format!(
            "blessed by {}, a file of {}",
            subject.name, VERSIONS[version].name
        )),
        Some(_) => {
            let hash = &header.binary_sha256;
            let whole = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
            (!whole).then(|| format!("binary_sha256 `{hash}` is no SHA-256"))
        }
    }
}

fn problem(golden: &Path, path: &Path, cases: &[Case]) -> Option<String> {
    let file = match GoldenFile::read(path) {
        Ok(file) => file?,
        Err(error) => return Some(error.to_string()),
    };
    let below = path.strip_prefix(golden).ok()?;
    if below.starts_with("envelope") {
        let stem = path.file_stem()?.to_str()?;
        let Some(version) = VERSIONS.iter().position(|v| v.name == stem) else {
            return Some("an envelope of no known version".to_owned());
        };
        if Envelope::from_value(&file.doc()).is_none() {
            return Some("is no envelope".to_owned());
        }
        return header_problem(&file.header, false, version);
    }
    let id = below.parent()?.to_str()?.replace('\\', "/");
    let Some(case) = cases.iter().find(|case| case.id == id) else {
        return Some(format!("scenario {id} does not exist"));
    };
    let Some((_, version)) = position(path) else {
        return Some("belongs to no version".to_owned());
    };
    if file.header.description != case.description {
        return Some("describes another sentence than its scenario".to_owned());
    }
    header_problem(&file.header, case.only_engine, version)
}

#[test]
fn every_golden_has_its_scenario_its_binary_and_its_place() {
    let root = root();
    let golden = root.join("golden");
    let cases = cases::open(&root)
        .and_then(|c| c.select(&[]))
        .expect("scenarios load");
    let mut problems: Vec<String> = snaps(&golden)
        .iter()
        .filter_map(|path| {
            Some(format!(
                "{}: {}",
                path.display(),
                problem(&golden, path, &cases)?
            ))
        })
        .collect();
    for case in &cases {
        let folder = golden.join(&case.id);
        problems.extend(
            orphans(&folder)
                .iter()
                .map(|n| format!("{}/{n}: orphan", case.id)),
        );
        for stream in Stream::ALL {
            let chain = read(&folder, stream, VERSIONS.len() - 1);
            problems.extend(chain.err().map(|e| e.to_string()));
        }
    }
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

#[test]
fn a_golden_of_our_engine_is_refused() {
    let header = |by: &str, hash: &str| Header {
        description: String::new(),
        blessed_by: by.to_owned(),
        binary_sha256: hash.to_owned(),
        base: "none".to_owned(),
        format: 1,
    };
    let hash = "a".repeat(64);
    assert_eq!(
        header_problem(&header("codex@0.164.0", &hash), false, 1),
        None
    );
    assert!(header_problem(&header("engine@0.164", &hash), false, 1).is_some());
    assert!(header_problem(&header("codex@0.144.6", &hash), false, 1).is_some());
    assert!(header_problem(&header("codex@0.164.0", "none"), false, 1).is_some());
    assert_eq!(
        header_problem(&header("engine@0.164", "none"), true, 1),
        None
    );
}
