//! `turnproof lint`: reads scenarios and reports every finding with its position.

use crate::cli::out::say;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::{EXIT_USAGE, report, suite};
use crate::golden::orphans::orphans;
use crate::scenario::{ScenarioError, Suite, SuiteFile, load_file};

/// Arguments of `turnproof lint`.
#[derive(Debug, Args)]
pub struct LintArgs {
    /// Ids, folders, globs or files; everything without one.
    pub scenarios: Vec<String>,
    /// One `file:line:column: message` per finding instead of the drawn form.
    #[arg(long)]
    pub plain: bool,
}

/// Runs the command: 0 clean, 2 invalid scenarios.
pub fn run(args: &LintArgs) -> ExitCode {
    let (files, ids): (Vec<&String>, Vec<&String>) = args
        .scenarios
        .iter()
        .partition(|scenario| Path::new(scenario).is_file());
    let suite = if files.is_empty() || !ids.is_empty() {
        match suite() {
            Ok(suite) => Some(suite),
            Err(code) => return code,
        }
    } else {
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        Suite::find(&here).ok()
    };
    let mut targets: Vec<SuiteFile> = files.into_iter().map(|file| named(file)).collect();
    if let Some(suite) = &suite
        && (targets.is_empty() || !ids.is_empty())
    {
        let ids: Vec<String> = ids.into_iter().cloned().collect();
        match suite.select(&ids) {
            Ok(selected) => targets.extend(selected.into_iter().cloned()),
            Err(error) => return report(&error),
        }
    }
    let errors = lint(&targets, suite.as_ref());
    for error in &errors {
        if args.plain {
            let help = if error.help.is_empty() { "" } else { "; " };
            say!("{error}{help}{}", error.help);
        } else {
            say!("{}", error.render());
        }
    }
    let documents = match &suite {
        Some(suite) if args.scenarios.is_empty() => documents(suite),
        _ => Vec::new(),
    };
    for finding in &documents {
        say!("{finding}");
    }
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let (files, found) = (targets.len(), errors.len() + documents.len());
    say!(
        "{files} scenario{}, {found} finding{}",
        plural(files),
        plural(found)
    );
    if found == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_USAGE)
    }
}

/// What is wrong with the documents and the data beside the scenarios.
fn documents(suite: &Suite) -> Vec<String> {
    let mut found = super::schema::index(suite).findings;
    match super::schema::violations(&suite.root) {
        Err(error) => found.push(format!("golden/{error}")),
        Ok(known) => {
            let ids = suite.files.iter().map(|file| file.id.as_str()).collect();
            found.extend(known.unknown_cases(&ids));
            found.extend(orphans(&suite.root, &ids));
            for (line, known) in known.violations() {
                let place = format!("golden/deviations.toml:{line}");
                let rules = suite.rules.as_ref();
                if rules.is_some_and(|rules| !rules.contains(&known.rule)) {
                    found.push(format!("{place}: unknown rule `{}`", known.rule));
                }
            }
        }
    }
    found
}

fn named(file: &str) -> SuiteFile {
    let path = PathBuf::from(file);
    let id = path.with_extension("").to_string_lossy().replace('\\', "/");
    let id = id
        .rsplit_once("scenarios/")
        .map_or(id.clone(), |(_, below)| below.to_owned());
    SuiteFile { id, path }
}

/// Every finding in these files.
pub fn lint(files: &[SuiteFile], suite: Option<&Suite>) -> Vec<ScenarioError> {
    let rules = suite.and_then(|suite| suite.rules.as_ref());
    let results = files
        .iter()
        .map(|file| load_file(&file.path, &file.id, rules));
    results.filter_map(Result::err).flatten().collect()
}
