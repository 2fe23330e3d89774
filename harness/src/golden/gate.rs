//! Judges a masked recording against the goldens: the one place where subject and golden meet.
//!
//! Only a `codex@…` subject (or a scenario that says `only: engine`) may leave a pending golden;
//! what an engine produced on a difference goes to the scratch folder, never beside a golden.

use std::path::{Path, PathBuf};

use super::chain::{file_name, orphans, resolve};
use super::compare::{Difference, compare, expand};
use super::deviations::{Deviations, Owner};
use super::envelope::Envelope;
use super::render::{Stream, document, print};
use super::store::{FORMAT, GoldenFile, Header, StoreError, pending_path, write_atomically};
use super::unmodelled::UnmodelledFields;
use super::versions::{Arm, Subject, VERSIONS};
use crate::check;
use crate::mask::Masked;
use crate::recording::Finding;

/// Finds real texts that must not be stored.
pub type Remnants = Box<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// Goldens of a checkout, and what is known to differ.
pub struct Gate {
    root: PathBuf,
    scratch: PathBuf,
    envelopes: Vec<Envelope>,
    remnants: Remnants,
    /// Whether a difference of a real binary leaves a pending file.
    pub write_pending: bool,
    /// SHA-256 of the real binary under test.
    pub binary_sha256: Option<String>,
    /// Known differences.
    pub deviations: Deviations,
    /// Fields that only the real binary fills.
    pub unmodelled: UnmodelledFields,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

/// What a golden needs to know of its scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseInfo {
    /// Path below `scenarios/` without `.yaml`.
    pub id: String,
    /// The scenario's sentence.
    pub description: String,
    /// No real binary can run it.
    pub only_engine: bool,
    /// The oldest version of the table it applies to.
    pub first_version: usize,
}

/// What came of comparing one recording.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Everything that is wrong.
    pub findings: Vec<Finding>,
    /// Pending files that were written, below `golden/`.
    pub pending: Vec<String>,
    /// Deviations that explained a difference.
    pub deviations: usize,
}

impl Judgement {
    fn finding(&mut self, id: &str, message: String) {
        self.findings.push(Finding {
            id: id.to_owned(),
            message,
        });
    }
}

impl Gate {
    /// Opens `golden/`; `scratch` is a folder below `target/`.
    pub fn open(root: &Path, scratch: &Path, remnants: Remnants) -> Result<Self, String> {
        let read = |name: &str| match std::fs::read_to_string(root.join(name)) {
            Ok(text) => Ok(text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(e) => Err(format!("{name}: {e}")),
        };
        let envelopes = (0..VERSIONS.len())
            .map(|v| read_envelope(root, v))
            .collect::<Result<_, _>>();
        Ok(Self {
            root: root.to_owned(),
            scratch: scratch.to_owned(),
            envelopes: envelopes?,
            remnants,
            write_pending: true,
            binary_sha256: None,
            deviations: Deviations::parse(&read("deviations.toml")?)?,
            unmodelled: UnmodelledFields::parse(&read("unmodelled.toml")?)?,
        })
    }

    /// The envelope of a version; an empty one while there is none.
    pub fn envelope(&self, version: usize) -> &Envelope {
        &self.envelopes[version]
    }

    /// Folder of a scenario's goldens.
    pub fn folder(&self, case: &str) -> PathBuf {
        self.root.join(case)
    }

    /// Compares one recording and runs the checkers.
    pub fn judge(&self, case: &CaseInfo, subject: &Subject, masked: &Masked) -> Judgement {
        let mut out = Judgement::default();
        let violations = check::run_all(masked);
        out.findings.extend(
            self.deviations
                .known_violations(&case.id, subject, violations),
        );
        for name in orphans(&self.folder(&case.id)) {
            let message = format!("golden/{}/{name} belongs to no version: delete it", case.id);
            out.finding("golden.orphan", message);
        }
        let mut differences = Vec::new();
        let mut changed = Vec::new();
        for stream in Stream::ALL {
            match self.stream(case, subject, masked, stream) {
                Ok(Found::Equal) => self.forget_pending(case, subject, stream),
                Ok(Found::Different(list)) => {
                    changed.push(stream);
                    differences.extend(list);
                }
                Err(message) => {
                    changed.push(stream);
                    out.finding("golden.unusable", message);
                }
            }
        }
        let (rest, met) = self.deviations.apply(&case.id, &subject.name, differences);
        out.deviations = met.len();
        for entry in met.iter().filter(|d| d.owner == Owner::Upstream) {
            let checker = entry.checker.as_deref().unwrap_or_default();
            if !self.golden_trips(case, subject, checker) {
                let message = format!(
                    "deviation at {} is marked upstream, but checker {checker} does not fire on \
                     the golden",
                    entry.pointer
                );
                out.finding("golden.deviation", message);
            }
        }
        let quiet = rest.is_empty() && out.findings.iter().all(|f| f.id != "golden.unusable");
        for difference in rest {
            out.finding(
                "golden.difference",
                difference.explain().trim_end().to_owned(),
            );
        }
        if !quiet {
            self.keep(case, subject, masked, &changed, &mut out);
        }
        out
    }

    fn stream(
        &self,
        case: &CaseInfo,
        subject: &Subject,
        masked: &Masked,
        stream: Stream,
    ) -> Result<Found, String> {
        let folder = self.folder(&case.id);
        let version = subject.version;
        let found = resolve(&folder, stream, version).map_err(|e| e.to_string())?;
        let Some(golden) = found else {
            let name = file_name(stream, case.first_version);
            return Err(format!(
                "no golden {id}/{name}: bless it from a real binary (cargo turnproof bless {id} \
                 --subject codex)",
                id = case.id
            ));
        };
        let by = &golden.file.header.blessed_by;
        if !by.starts_with("codex@") && !case.only_engine {
            return Err(format!(
                "{} is blessed by {by}, not by a real binary",
                golden.path.display()
            ));
        }
        let envelope = self.envelope(version);
        if let Some(real) = by.strip_prefix("codex@")
            && !VERSIONS
                .iter()
                .any(|known| known.real == real && known.knows(&golden.file.header.binary_sha256))
        {
            return Err(format!(
                "{} was blessed by a {by} that is not known (sha256 {}): bless it again, or add \
                 the binary to golden/versions.rs",
                golden.path.display(),
                golden.file.header.binary_sha256
            ));
        }
        let doc = document(stream, masked, envelope);
        if print(&doc) == golden.file.body {
            // Entries of unmodelled fields count as met where the golden has them.
            if subject.arm == Arm::Codex || self.unmodelled.count() == 0 {
                return Ok(Found::Equal);
            }
        }
        let path = golden.path.display().to_string();
        golden.file.check_body(&path).map_err(|e| e.to_string())?;
        let expanded = |doc: &serde_json::Value| expand(stream, doc, envelope);
        let unreadable = || format!("{} does not fit its envelope", golden.path.display());
        let mut expected = expanded(&golden.file.doc()).ok_or_else(unreadable)?;
        let mut actual =
            expanded(&doc).ok_or_else(|| "the recording does not read back".to_owned())?;
        if subject.arm == Arm::Engine {
            let profile = subject.family().name;
            self.unmodelled.strip(profile, &mut expected, true);
            self.unmodelled.strip(profile, &mut actual, false);
        }
        let list = compare(&expected, &actual);
        Ok(if list.is_empty() {
            Found::Equal
        } else {
            Found::Different(list)
        })
    }

    /// Writes what was recorded: pending beside the golden, or into the scratch folder.
    fn keep(
        &self,
        case: &CaseInfo,
        subject: &Subject,
        masked: &Masked,
        changed: &[Stream],
        out: &mut Judgement,
    ) {
        let may_bless = subject.arm == Arm::Codex || case.only_engine;
        for stream in changed {
            let name = file_name(*stream, subject.version);
            let result = if may_bless {
                self.write_one(case, subject, masked, *stream)
            } else {
                let folder = self.scratch.join(&case.id).join(&subject.name);
                let body = print(&document(*stream, masked, self.envelope(subject.version)));
                write_atomically(&folder.join(name), &body).map(|()| None)
            };
            match result {
                Ok(Some(name)) => out.pending.push(name),
                Ok(None) => {}
                Err(error) => out.finding("golden.not_written", error.to_string()),
            }
        }
    }

    /// Writes one pending golden; its name below `golden/`, or `None` where writing is off.
    pub fn write_one(
        &self,
        case: &CaseInfo,
        subject: &Subject,
        masked: &Masked,
        stream: Stream,
    ) -> Result<Option<String>, StoreError> {
        if !self.write_pending {
            return Ok(None);
        }
        let body = print(&document(stream, masked, self.envelope(subject.version)));
        let folder = self.folder(&case.id);
        let older = subject.version.checked_sub(1);
        // A base that cannot be read is set anew when the pending file is accepted.
        let base = older.and_then(|v| resolve(&folder, stream, v).ok().flatten());
        let file = GoldenFile {
            header: self.header(&case.description, subject, base.map(|b| b.version), stream),
            body,
        };
        let name = file_name(stream, subject.version);
        file.write(&pending_path(&folder.join(&name)), &self.remnants)?;
        Ok(Some(format!("{}/{name}", case.id)))
    }

    /// Removes what an earlier run left pending, now that the golden holds.
    fn forget_pending(&self, case: &CaseInfo, subject: &Subject, stream: Stream) {
        if self.write_pending && (subject.arm == Arm::Codex || case.only_engine) {
            let golden = self
                .folder(&case.id)
                .join(file_name(stream, subject.version));
            // There is mostly none.
            let _ = std::fs::remove_file(pending_path(&golden));
        }
    }

    fn header(
        &self,
        description: &str,
        subject: &Subject,
        base: Option<usize>,
        stream: Stream,
    ) -> Header {
        Header {
            description: description.to_owned(),
            blessed_by: subject.name.clone(),
            binary_sha256: self
                .binary_sha256
                .clone()
                .unwrap_or_else(|| "none".to_owned()),
            base: base.map_or("none".to_owned(), |v| file_name(stream, v)),
            format: FORMAT,
        }
    }

    /// Writes the pending envelope of a version.
    pub fn write_envelope(
        &self,
        subject: &Subject,
        recordings: &[&Masked],
    ) -> Result<(String, Envelope), StoreError> {
        let envelope = Envelope::build(recordings);
        let description = format!("What every recording of {} shares.", subject.family().real);
        let file = GoldenFile {
            header: self.header(&description, subject, None, Stream::Wire),
            body: print(&envelope.to_value()),
        };
        let name = format!("envelope/{}.snap", subject.family().name);
        file.write(&pending_path(&self.root.join(&name)), &self.remnants)?;
        Ok((name, envelope))
    }

    /// Uses an envelope before it is accepted.
    pub fn set_envelope(&mut self, version: usize, envelope: Envelope) {
        self.envelopes[version] = envelope;
    }

    fn golden_trips(&self, case: &CaseInfo, subject: &Subject, checker: &str) -> bool {
        let golden = self.golden(&case.id, subject.version);
        golden.is_some_and(|masked| check::fires(checker, &masked))
    }

    /// The golden of a version as a recording; long texts stand as their hash.
    pub fn golden(&self, case: &str, version: usize) -> Option<Masked> {
        let none = std::collections::BTreeMap::new();
        let envelope = self.envelope(version);
        let doc = |stream| {
            Some(
                resolve(&self.folder(case), stream, version)
                    .ok()??
                    .file
                    .doc(),
            )
        };
        Some(Masked {
            wire: super::render::read_wire(&doc(Stream::Wire)?, envelope, &none)?,
            rollouts: super::render::read_rollouts(&doc(Stream::Rollout)?, envelope, &none)?,
            events: super::render::read_events(&doc(Stream::Events)?, &none)?,
            // A golden holds requests alone.
            answers: Vec::new(),
            rewrites: Vec::new(),
            edits: Vec::new(),
        })
    }
}

enum Found {
    Equal,
    Different(Vec<Difference>),
}

fn read_envelope(root: &Path, version: usize) -> Result<Envelope, String> {
    let path = root
        .join("envelope")
        .join(format!("{}.snap", VERSIONS[version].name));
    match GoldenFile::read(&path).map_err(|e| e.to_string())? {
        None => Ok(Envelope::default()),
        Some(file) => Envelope::from_value(&file.doc())
            .ok_or_else(|| format!("{}: is no envelope", path.display())),
    }
}
