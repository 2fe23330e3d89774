//! `turnproof schema`: the JSON Schema and the documentation of the scenario format, and the other
//! documents that are written from data.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use super::out::complain;
use super::{EXIT_COULD_NOT_RUN, suite};
use crate::golden::deviations::Deviations;
use crate::golden::violations_doc::with_violations;
use crate::scenario::{RulesIndex, Suite, format_markdown, json_schema_text, rules_index};

/// Generated files and their texts, below the root of the checkout.
pub fn generated(suite: &Suite) -> Result<Vec<(&'static str, String)>, String> {
    let findings = "docs/upstream-findings.md";
    let document = read(&suite.root, findings)?;
    let known = violations(&suite.root)?;
    Ok(vec![
        ("docs/scenario-format.md", format_markdown()),
        ("docs/scenario.schema.json", json_schema_text()),
        ("docs/rules-index.md", index(suite).text),
        (findings, with_violations(&document, known.violations())?),
    ])
}

/// The index of the rules; a scenario that does not load proves none.
pub fn index(suite: &Suite) -> RulesIndex {
    let loaded = suite.files.iter().filter_map(|file| {
        let loaded = suite.load(file).ok()?;
        let rules = loaded.scenario.rules.0.into_iter();
        Some((file.id.clone(), rules.map(|rule| rule.value).collect()))
    });
    let scenarios: Vec<(String, Vec<String>)> = loaded.collect();
    let rules = suite.rules.clone().unwrap_or_default();
    let reasons = read(&suite.root, "docs/unproven-rules.toml").unwrap_or_default();
    rules_index(&rules, &scenarios, &reasons)
}

/// The known violations of the checkout; none without the file.
pub fn violations(root: &Path) -> Result<Deviations, String> {
    Deviations::parse(&read(root, "golden/deviations.toml").unwrap_or_default())
}

fn read(root: &Path, name: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(name)).map_err(|error| format!("read {name}: {error}"))
}

/// Arguments of `turnproof schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Prints the documentation instead of the JSON Schema.
    #[arg(long, conflicts_with_all = ["write", "check"])]
    pub markdown: bool,
    /// Writes all generated files of the checkout.
    #[arg(long, conflicts_with = "check")]
    pub write: bool,
    /// Compares all generated files of the checkout; 1 where one differs.
    #[arg(long)]
    pub check: bool,
}

/// Runs the command.
pub fn run(args: &SchemaArgs) -> ExitCode {
    if args.markdown {
        crate::cli::out::write(format_args!("{}", format_markdown()));
        return ExitCode::SUCCESS;
    }
    if !args.write && !args.check {
        crate::cli::out::write(format_args!("{}", json_schema_text()));
        return ExitCode::SUCCESS;
    }
    let suite = match suite() {
        Ok(suite) => suite,
        Err(code) => return code,
    };
    let files = match generated(&suite) {
        Ok(files) => files,
        Err(error) => {
            complain!("failed to {error}");
            return ExitCode::from(EXIT_COULD_NOT_RUN);
        }
    };
    let mut code = ExitCode::SUCCESS;
    for (name, text) in files {
        let path = suite.root.join(name);
        if args.write {
            if let Err(error) = std::fs::write(&path, text) {
                complain!("failed to write {name}: {error}");
                return ExitCode::from(EXIT_COULD_NOT_RUN);
            }
        } else if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            complain!("{name} is out of date; run: cargo turnproof schema --write");
            code = ExitCode::FAILURE;
        }
    }
    code
}
