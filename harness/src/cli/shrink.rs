//! `turnproof shrink`: the smallest scenario that still shows something.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

use super::context::Context;
use super::{Exit, progress_bar};
use crate::golden::versions::Arm;
use crate::scenario::plain::Tree;
use crate::scenario::write::write as yaml;
use crate::scenario::{Loaded, ScenarioError, Suite, SuiteError, load_file};
use crate::shrink::predicate::{Predicate, Sight, While};
use crate::shrink::{RUNS_MAX_DEFAULT, Shrunk, Size, load, shrink};

/// Runs between two lines of progress where there is no terminal.
const RUNS_PER_LINE: u64 = 500;

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Conditions:\n  \
    check:NAME      a checker (pairing) or a finding (script.unused_reply) reports on --subject\n  \
    differs:A,B     two subjects give different recordings; of two versions what the model sees\n  \
    cmd:COMMAND     `sh -c COMMAND` succeeds, with {} replaced by the path of the candidate\n\n\
    Exit codes: 0 shrunk, 1 the scenario does not show it, 2 wrong usage or invalid scenario, \
    3 could not run.")]
pub struct ShrinkArgs {
    /// Id of a scenario, or path of a YAML file.
    pub scenario: String,
    /// What has to stay: check:NAME, differs:SUBJECT_A,SUBJECT_B or cmd:COMMAND.
    #[arg(long = "while", value_name = "CONDITION")]
    pub condition: String,
    /// Subject of check:NAME (engine@0.171).
    #[arg(long, value_name = "SUBJECT")]
    pub subject: Option<String>,
    /// File to write; standard output without it.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Most candidates that are run.
    #[arg(long, value_name = "RUNS", default_value_t = RUNS_MAX_DEFAULT,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub budget: u64,
    /// Overwrites the file.
    #[arg(long)]
    pub force: bool,
}

/// Runs the command.
pub fn run(args: &ShrinkArgs) -> Exit {
    match shrunk(args) {
        Ok(()) => Exit::OK,
        Err(exit) => exit,
    }
}

fn shrunk(args: &ShrinkArgs) -> Result<(), Exit> {
    let condition = condition(args)?;
    if let Some(out) = args.out.as_ref().filter(|out| out.exists() && !args.force) {
        let what = format!("{} exists: --force overwrites it", out.display());
        return Err(Exit::usage(&what));
    }
    let loaded = find(&args.scenario)?;
    let could_not = |error: std::io::Error| Exit::could_not_run(&format!("prepare: {error}"));
    let mut predicate = Predicate::new(condition).map_err(could_not)?;
    judge(predicate.start(&loaded), &loaded.id)?;
    let before = start(&loaded)?;
    let mut tree = before.clone();
    tree.set_first("description", Tree::Text(predicate.reason(&loaded.id)));
    // No rule is known to be exercised by what is left of the scenario.
    tree = without_rules(&tree);
    confirm(&mut predicate, &tree, "the scenario as `shrink` writes it")?;
    let progress = Progress::new();
    let result = shrink(
        tree,
        args.budget,
        &mut |candidate| predicate.shows(candidate),
        &mut |runs, best| progress.tell(runs, best),
    );
    progress.bar.finish_and_clear();
    confirm(&mut predicate, &result.tree, "the result")?;
    let text = yaml(&result.tree);
    match &args.out {
        None => super::out::write(format_args!("{text}")),
        Some(out) => write(out, &text, args.force)?,
    }
    say_result(&before, &result);
    Ok(())
}

fn condition(args: &ShrinkArgs) -> Result<While, Exit> {
    let condition = While::parse(&args.condition, args.subject.as_deref());
    let condition = condition.map_err(|what| Exit::usage(&what))?;
    let While::Differs { subjects, .. } = &condition else {
        return Ok(condition);
    };
    // Fields that a profile leaves out differ from a real binary and are no finding.
    let is_mixed = subjects[0].arm != subjects[1].arm;
    if !is_mixed || subjects[0].version != subjects[1].version {
        return Ok(condition);
    }
    let gate = Context::here()?.gate(&subjects[0])?;
    // The engine's side comes first, as the list of left-out fields has it.
    let mut subjects = subjects.clone();
    subjects.sort_by_key(|subject| subject.arm == Arm::Codex);
    Ok(While::Differs {
        subjects,
        unmodelled: gate.unmodelled.into(),
    })
}

/// A file that is there, or a scenario of the suite.
pub(super) fn find(name: &str) -> Result<Loaded, Exit> {
    let path = Path::new(name);
    let is_yaml = path
        .extension()
        .is_some_and(|ext| ext == "yaml" || ext == "yml");
    if is_yaml && path.is_file() {
        let id = path.file_stem().unwrap_or_default().to_string_lossy();
        return load_file(path, &id, None).map_err(|errors| invalid(&errors));
    }
    if is_yaml {
        return Err(Exit::usage(&format!("there is no file {name}")));
    }
    let here = std::env::current_dir().map_err(|e| Exit::could_not_run(&e.to_string()))?;
    let suite = Suite::find(&here).map_err(|error| from_suite(&error))?;
    let files = suite
        .select(&[name.to_owned()])
        .map_err(|error| from_suite(&error))?;
    match &files[..] {
        [file] => suite.load(file).map_err(|errors| invalid(&errors)),
        several => Err(Exit::usage(&format!(
            "`{name}` names {} scenarios; one is shrunk at a time",
            several.len()
        ))),
    }
}

fn from_suite(error: &SuiteError) -> Exit {
    if error.is_usage() {
        Exit::usage(&format!("failed to find the scenario: {error}"))
    } else {
        Exit::could_not_run(&error.to_string())
    }
}

fn invalid(errors: &[ScenarioError]) -> Exit {
    let texts: Vec<String> = errors.iter().map(ScenarioError::render).collect();
    Exit::usage(&texts.join("\n"))
}

fn judge(sight: Sight, id: &str) -> Result<(), Exit> {
    match sight {
        Sight::Shown(_) => Ok(()),
        Sight::Other(seen) => Err(Exit {
            message: Some(format!("{id} does not show it: {seen}")),
            ..Exit::FINDINGS
        }),
        Sight::NotRun(why) => Err(Exit::could_not_run(&format!("run {id}: {why}"))),
    }
}

fn start(loaded: &Loaded) -> Result<Tree, Exit> {
    let read = Tree::read(&loaded.source);
    read.ok_or_else(|| Exit::could_not_run(&format!("read {} as a tree", loaded.file)))
}

fn without_rules(tree: &Tree) -> Tree {
    let rules = tree
        .places()
        .into_iter()
        .find(|place| place.len() == 1 && tree.key_of(place) == Some("rules"));
    rules
        .and_then(|place| tree.without(&place))
        .unwrap_or_else(|| tree.clone())
}

/// Looks once more at what is about to be used.
fn confirm(predicate: &mut Predicate, tree: &Tree, what: &str) -> Result<(), Exit> {
    let shows = load(tree).is_some_and(|loaded| predicate.shows(&loaded));
    if shows {
        return Ok(());
    }
    Err(Exit::could_not_run(&format!(
        "shrink: {what} does not show it in a second run, so the condition is not deterministic"
    )))
}

/// Writes a file beside its place and moves it there, so that no half of it is ever seen.
fn write(out: &Path, text: &str, force: bool) -> Result<(), Exit> {
    let failed = |error: std::io::Error| Exit::unwritten(out, &error);
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = out.with_file_name(name);
    let placed = std::fs::write(&beside, text).and_then(|()| {
        if force {
            std::fs::rename(&beside, out)
        } else {
            // A link, unlike a rename, refuses a file that came to be in the meantime.
            std::fs::hard_link(&beside, out)
        }
    });
    // After a rename there is nothing left to remove.
    let _ = std::fs::remove_file(&beside);
    placed.map_err(failed)
}

fn say_result(before: &Tree, result: &Shrunk) {
    let (old, new) = (Size::of(before), Size::of(&result.tree));
    let how = if result.is_minimal {
        "1-minimal"
    } else {
        "stopped at the budget, not 1-minimal"
    };
    let line = format!(
        "shrink: steps {} → {}, replies {} → {}, lines {} → {}; {} runs; {how}",
        old.steps, new.steps, old.replies, new.replies, old.lines, new.lines, result.runs
    );
    // Standard output holds the scenario.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Runs so far: a line that changes on a terminal, a line now and then elsewhere.
struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
}

impl Progress {
    fn new() -> Self {
        let (bar, is_terminal) = progress_bar();
        Self { bar, is_terminal }
    }

    fn tell(&self, runs: u64, best: &Tree) {
        if !self.is_terminal && !runs.is_multiple_of(RUNS_PER_LINE) {
            return;
        }
        let size = Size::of(best);
        let line = format!("{runs} runs, {} steps, {} lines", size.steps, size.lines);
        if self.is_terminal {
            self.bar.set_message(line);
            self.bar.tick();
        } else {
            let _ = writeln!(std::io::stderr(), "shrink: {line}");
        }
    }
}
