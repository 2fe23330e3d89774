//! `turnproof new`: writes a scenario to start from.

use crate::cli::out::{complain, say};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{EXIT_COULD_NOT_RUN, EXIT_USAGE};
use crate::scenario::template;

/// Arguments of `turnproof new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Id below `scenarios/`, for instance `turn/answers_after_a_tool`.
    pub id: String,
    /// One sentence that says the behaviour.
    #[arg(long)]
    pub description: Option<String>,
}

/// Runs the command: 0 written, 2 a bad id or a file that exists, 3 not writable.
pub fn run(args: &NewArgs) -> ExitCode {
    let word = |part: &str| {
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        !part.is_empty() && part.chars().all(valid)
    };
    if !args.id.contains('/') || !args.id.split('/').all(word) {
        complain!(
            "failed to use the id `{}`: AREA/name_of_the_behaviour in snake case",
            args.id
        );
        return ExitCode::from(EXIT_USAGE);
    }
    let path = PathBuf::from("scenarios").join(format!("{}.yaml", args.id));
    let folder = path.parent().unwrap_or(&path);
    let description = args
        .description
        .clone()
        .unwrap_or_else(|| "A turn that calls a tool answers after its output.".to_owned());
    let written = std::fs::create_dir_all(folder).and_then(|()| {
        let mut file = std::fs::File::create_new(&path)?;
        file.write_all(template(&description).as_bytes())
    });
    match written {
        Ok(()) => {
            say!("{}\nrun: cargo turnproof check {}", path.display(), args.id);
            ExitCode::SUCCESS
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            complain!("failed to write {}: it exists", path.display());
            ExitCode::from(EXIT_USAGE)
        }
        Err(error) => {
            complain!("failed to write {}: {error}", path.display());
            ExitCode::from(EXIT_COULD_NOT_RUN)
        }
    }
}
