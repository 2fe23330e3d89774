//! What a scenario has to show: a checker or finding, a difference of two subjects, or a command
//! that succeeds.
//!
//! The start is looked at first. It fixes what every candidate is held to: which findings of the
//! script it may have, and the kind of the first difference. Without that a search slips from the
//! fault that was seen to another one that is easier to show.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;

use tokio::runtime::Runtime;

use super::seen::{first_between_versions, first_in_streams};
use crate::check::{self, Checker};
use crate::driver::{self, NoVerdict, Outcome};
use crate::golden::unmodelled::UnmodelledFields;
use crate::golden::versions::{Arm, Subject};
use crate::mask::mask;
use crate::scenario::plan::Plan;
use crate::scenario::{Loaded, Resolved};

/// Findings that a run or the scenario's own expectations report; goldens have no part in it.
const FINDINGS: &[&str] = &[
    "assert.expect",
    "assert.request",
    "journal.undecodable",
    "script.unknown_route",
    "script.unscripted_request",
    "script.unused_reply",
    "script.wrong_kind",
    "step.ends",
    "step.waits",
    "texts.remnant",
];
/// Distance from which a word is no slip of a known one.
const SLIP_MAX: usize = 4;
/// Lines of a command's output that are shown.
const OUTPUT_LINES_MAX: usize = 10;
/// What a command has in place of the candidate's path.
const PATH: &str = "{}";

/// What is looked for.
#[derive(Debug, Clone)]
pub enum While {
    /// A checker or a finding reports on a subject.
    Check {
        /// Id of the finding, as `check` prints it.
        id: String,
        /// The subject.
        subject: Subject,
    },
    /// Two subjects give different recordings.
    Differs {
        /// Both.
        subjects: Box<[Subject; 2]>,
        /// Fields that the profiles of the engine do not model.
        unmodelled: Rc<UnmodelledFields>,
    },
    /// A shell command succeeds.
    Command(String),
}

impl While {
    /// Reads `check:NAME`, `differs:A,B` or `cmd:COMMAND`.
    pub fn parse(text: &str, subject: Option<&str>) -> Result<Self, String> {
        let known = "expected check:NAME, differs:SUBJECT_A,SUBJECT_B or cmd:COMMAND";
        let (kind, rest) = text
            .split_once(':')
            .ok_or_else(|| format!("condition `{text}`: {known}"))?;
        if subject.is_some() && kind != "check" {
            return Err("--subject belongs to `check:NAME`".to_owned());
        }
        match kind {
            "check" => Ok(Self::Check {
                id: finding_id(rest)?,
                subject: one_subject(subject.unwrap_or("engine@0.171"))?,
            }),
            "differs" => {
                let (one, other) = rest.split_once(',').ok_or_else(|| {
                    format!("condition `{text}`: two subjects are needed, `differs:A,B`")
                })?;
                let (one, other) = (one_subject(one.trim())?, one_subject(other.trim())?);
                if one == other {
                    return Err(format!("condition `{text}`: twice the same subject"));
                }
                Ok(Self::Differs {
                    subjects: Box::new([one, other]),
                    unmodelled: Rc::default(),
                })
            }
            "cmd" if !rest.contains(PATH) => Err(format!(
                "condition `{text}`: `{PATH}` has to stand where the path of the candidate goes"
            )),
            "cmd" => Ok(Self::Command(rest.to_owned())),
            _ => Err(format!("condition `{text}`: {known}")),
        }
    }
}

/// One subject, as written on a command line.
fn one_subject(name: &str) -> Result<Subject, String> {
    Subject::parse(name)
}

/// The id of a finding: a checker with or without `checker.`, or one that a run reports.
fn finding_id(name: &str) -> Result<String, String> {
    let checkers = check::all().iter().map(|checker| checker.id);
    let short = name.strip_prefix("checker.").unwrap_or(name);
    if checkers.clone().any(|id| id == short) {
        return Ok(format!("checker.{short}"));
    }
    if FINDINGS.contains(&name) {
        return Ok(name.to_owned());
    }
    if name.starts_with("golden.") {
        return Err(format!(
            "`{name}` compares with a golden, and a candidate has none: use `differs:A,B`"
        ));
    }
    let known: Vec<&str> = checkers.chain(FINDINGS.iter().copied()).collect();
    let near = known
        .iter()
        .map(|id| (strsim::osa_distance(short, id), id))
        .filter(|(distance, id)| *distance <= SLIP_MAX.min(id.len() / 2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, id)| format!("; did you mean `{id}`?"));
    Err(format!(
        "there is no checker or finding `{name}`{}\nknown: {}",
        near.unwrap_or_default(),
        known.join(", ")
    ))
}

/// What was seen of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// It shows it; of which kind.
    Shown(String),
    /// It does not; what was seen instead.
    Other(String),
    /// No verdict; why.
    NotRun(String),
}

/// A condition with what the start fixed.
#[derive(Debug)]
pub struct Predicate {
    condition: While,
    runtime: Runtime,
    /// Findings of the script that the start has, by subject.
    allowed: Option<Vec<BTreeSet<String>>>,
    /// Kind of the first difference of the start.
    kind: Option<String>,
    /// Where candidates for a command lie.
    folder: Option<Folder>,
}

impl Predicate {
    /// A condition that has seen nothing yet.
    pub fn new(condition: While) -> std::io::Result<Self> {
        let folder = match &condition {
            While::Command(_) => Some(Folder::new()?),
            While::Check { .. } | While::Differs { .. } => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            condition,
            runtime,
            allowed: None,
            kind: None,
            folder,
        })
    }

    /// Looks at the start and holds every later scenario to what it shows.
    pub fn start(&mut self, loaded: &Loaded) -> Sight {
        let sight = self.look(loaded);
        if let Sight::Shown(kind) = &sight {
            self.kind = Some(kind.clone());
        }
        sight
    }

    /// Whether a candidate shows the same.
    pub fn shows(&mut self, loaded: &Loaded) -> bool {
        matches!(self.look(loaded), Sight::Shown(kind) if Some(&kind) == self.kind.as_ref())
    }

    /// Why the scenario exists, as its one sentence.
    pub fn reason(&self, id: &str) -> String {
        let kind = self.kind.as_deref().unwrap_or_default();
        match &self.condition {
            While::Check { subject, .. } => {
                format!("Shrunk from {id}, {kind} reports on {}.", subject.name)
            }
            While::Differs { subjects, .. } => format!(
                "Shrunk from {id}, {} and {} differ first in {kind}.",
                subjects[0].name, subjects[1].name
            ),
            While::Command(command) => {
                format!("Shrunk from {id}, the command `{command}` succeeds.")
            }
        }
    }

    fn look(&mut self, loaded: &Loaded) -> Sight {
        match &self.condition {
            While::Check { id, subject } => {
                let (id, subject) = (id.clone(), subject.clone());
                self.look_for_finding(loaded, &id, &subject)
            }
            While::Differs {
                subjects,
                unmodelled,
            } => {
                let (subjects, unmodelled) = (subjects.clone(), Rc::clone(unmodelled));
                self.look_for_difference(loaded, &subjects, &unmodelled)
            }
            While::Command(command) => {
                let command = command.clone();
                self.look_at_command(loaded, &command)
            }
        }
    }

    /// Runs a scenario on a subject.
    fn run(&self, loaded: &Loaded, subject: &Subject) -> Result<(Plan, Outcome), Sight> {
        if loaded.scenario.only.is_some() && subject.arm == Arm::Codex {
            return Err(Sight::NotRun("the scenario says `only: engine`".to_owned()));
        }
        let version = subject.family().real.parse();
        let version: semver::Version = version.map_err(|e| Sight::NotRun(format!("{e}")))?;
        let plan = match loaded.plan(&version) {
            Ok(Resolved::Applicable(plan)) => *plan,
            Ok(Resolved::NotApplicable(why)) => {
                let why = format!("the scenario does not apply to {}: {why}", subject.name);
                return Err(Sight::NotRun(why));
            }
            Err(error) => return Err(Sight::NotRun(error.to_string())),
        };
        let run: Result<Outcome, NoVerdict> = self.runtime.block_on(async {
            let driver = driver::open(&subject.name, &[&plan]).await?;
            driver.run(&plan).await
        });
        let outcome = run.map_err(|why| Sight::NotRun(why.to_string()))?;
        Ok((plan, outcome))
    }

    /// Whether the script was followed as it was at the start. The first look fixes that.
    fn follows(&mut self, found: Vec<BTreeSet<String>>) -> bool {
        if let Some(allowed) = &self.allowed {
            let mut sides = found.iter().zip(allowed);
            sides.all(|(found, allowed)| found.is_subset(allowed))
        } else {
            self.allowed = Some(found);
            true
        }
    }

    fn look_for_finding(&mut self, loaded: &Loaded, id: &str, subject: &Subject) -> Sight {
        let (plan, outcome) = match self.run(loaded, subject) {
            Ok(run) => run,
            Err(sight) => return sight,
        };
        let mut script = script_ids(&outcome);
        script.insert(id.to_owned());
        if !self.follows(vec![script]) {
            return Sight::Other("the script is left".to_owned());
        }
        let is_start = self.kind.is_none();
        let mut found = outcome.findings;
        found.extend(crate::assert::check(&plan, &outcome.recording));
        // All checkers take longer than the run; only the start tells what else was seen.
        let named = |checker: &&Checker| id.strip_prefix("checker.") == Some(checker.id);
        let checkers: Vec<&Checker> = if is_start {
            check::all().iter().collect()
        } else {
            check::all().iter().filter(named).collect()
        };
        if !checkers.is_empty() {
            let masked = mask(&outcome.recording);
            found.extend(
                checkers
                    .iter()
                    .flat_map(|checker| check::run(checker, &masked)),
            );
        }
        if found.iter().any(|finding| finding.id == id) {
            return Sight::Shown(id.to_owned());
        }
        let mut seen: Vec<String> = found
            .iter()
            .map(|finding| {
                let line = finding.message.lines().next().unwrap_or_default();
                format!("  {}: {line}", finding.id)
            })
            .collect();
        seen.dedup();
        Sight::Other(if seen.is_empty() {
            format!(
                "{id} does not report on {}, and nothing else does",
                subject.name
            )
        } else {
            format!(
                "{id} does not report on {}; these do:\n{}",
                subject.name,
                seen.join("\n")
            )
        })
    }

    fn look_for_difference(
        &mut self,
        loaded: &Loaded,
        subjects: &[Subject; 2],
        unmodelled: &UnmodelledFields,
    ) -> Sight {
        let runs = (
            self.run(loaded, &subjects[0]),
            self.run(loaded, &subjects[1]),
        );
        let (one, other) = match runs {
            (Ok(one), Ok(other)) => (one, other),
            (Err(sight), _) | (_, Err(sight)) => return sight,
        };
        let scripts = [script_ids(&one.1), script_ids(&other.1)];
        let leaves_alike = scripts[0] == scripts[1];
        if !self.follows(scripts.into()) {
            return Sight::Other("the script is left".to_owned());
        }
        let masked = [mask(&one.1.recording), mask(&other.1.recording)];
        let first = if subjects[0].version == subjects[1].version {
            let profile = subjects[0].family().name;
            first_in_streams(&masked[0], &masked[1], profile, unmodelled)
        } else {
            first_between_versions((&one.0, &masked[0]), (&other.0, &masked[1]))
        };
        let first = first.or_else(|| (!leaves_alike).then(|| "the script's findings".to_owned()));
        first.map_or_else(|| Sight::Other(no_difference(subjects)), Sight::Shown)
    }

    fn look_at_command(&mut self, loaded: &Loaded, command: &str) -> Sight {
        let Some(folder) = &self.folder else {
            return Sight::NotRun("there is no folder for candidates".to_owned());
        };
        let path = folder.0.join("candidate.yaml");
        if let Err(error) = std::fs::write(&path, &loaded.source) {
            return Sight::NotRun(format!("failed to write {}: {error}", path.display()));
        }
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(command.replace(PATH, &path.display().to_string()));
        shell.stdin(Stdio::null());
        let ran = if self.kind.is_some() {
            // A candidate's output is read by nobody.
            let shell = shell.stdout(Stdio::null()).stderr(Stdio::null());
            shell.status().map(|status| (status, String::new()))
        } else {
            let output = shell.output();
            output.map(|output| (output.status, last_lines(&output)))
        };
        match ran {
            Ok((status, _)) if status.success() => Sight::Shown("success".to_owned()),
            Ok((status, said)) => {
                Sight::Other(format!("the command ended with {status}; it said:\n{said}"))
            }
            Err(error) => Sight::NotRun(format!("failed to run `sh`: {error}")),
        }
    }
}

fn no_difference(subjects: &[Subject; 2]) -> String {
    let what = if subjects[0].version == subjects[1].version {
        "the requests, rollouts and events"
    } else {
        "what the model sees"
    };
    format!(
        "{what} of {} and {} do not differ",
        subjects[0].name, subjects[1].name
    )
}

/// Ids of what a run itself reports.
fn script_ids(outcome: &Outcome) -> BTreeSet<String> {
    let ids = outcome.findings.iter().map(|finding| finding.id.clone());
    ids.collect()
}

fn last_lines(output: &std::process::Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(OUTPUT_LINES_MAX)..];
    let shown: Vec<String> = shown.iter().map(|line| format!("  {line}")).collect();
    if shown.is_empty() {
        "  (nothing)".to_owned()
    } else {
        shown.join("\n")
    }
}

/// A folder that is removed at the end.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("turnproof-shrink-{}", std::process::id()));
        let odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'));
        if path.display().to_string().contains(odd) {
            let what = format!(
                "{} has characters that a shell reads otherwise",
                path.display()
            );
            return Err(std::io::Error::other(what));
        }
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in a temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
