//! `turnproof schema`: the JSON Schema and the documentation of the scenario format.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use super::EXIT_COULD_NOT_RUN;
use crate::scenario::{format_markdown, json_schema_text};

/// Generated files and their texts, below the root of the checkout.
pub fn generated() -> [(&'static str, String); 2] {
    [
        ("docs/scenario-format.md", format_markdown()),
        ("docs/scenario.schema.json", json_schema_text()),
    ]
}

/// Arguments of `turnproof schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Prints the documentation instead of the JSON Schema.
    #[arg(long, conflicts_with_all = ["write", "check"])]
    pub markdown: bool,
    /// Writes both files below `docs/` of the current folder.
    #[arg(long, conflicts_with = "check")]
    pub write: bool,
    /// Compares both files below `docs/` of the current folder; 1 where one differs.
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
    let mut code = ExitCode::SUCCESS;
    for (name, text) in generated() {
        if args.write {
            if let Err(error) = std::fs::write(Path::new(name), text) {
                eprintln!("failed to write {name}: {error}");
                return ExitCode::from(EXIT_COULD_NOT_RUN);
            }
        } else if std::fs::read_to_string(name).ok().as_ref() != Some(&text) {
            eprintln!("{name} differs from the types; run: cargo turnproof schema --write");
            code = ExitCode::FAILURE;
        }
    }
    code
}
