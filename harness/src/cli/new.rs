//! `turnproof new`: writes a scenario to start from.

use crate::cli::out::{complain, say};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{EXIT_USAGE, Exit};
use crate::scenario::{load_bytes, template};

/// Longest id and longest part of one, in bytes: file systems take 255 bytes for a name, and a golden
/// adds to it.
const ID_BYTES_MAX: usize = 240;
const PART_BYTES_MAX: usize = 120;

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
    let long = |part: &str| part.len() > PART_BYTES_MAX;
    if args.id.len() > ID_BYTES_MAX || args.id.split('/').any(long) {
        complain!(
            "failed to use an id of {} characters: at most {ID_BYTES_MAX}, and {PART_BYTES_MAX} between \
             two `/`; say the behaviour in few words, the rest in --description",
            args.id.len()
        );
        return ExitCode::from(EXIT_USAGE);
    }
    if !args.id.contains('/') || !args.id.split('/').all(word) {
        complain!(
            "failed to use the id `{}`: AREA/name_of_the_behaviour in snake case",
            args.id
        );
        return ExitCode::from(EXIT_USAGE);
    }
    let description = args
        .description
        .clone()
        .unwrap_or_else(|| "A turn that calls a tool answers after its output.".to_owned());
    let text = template(&description);
    if let Err(errors) = load_bytes("the scenario", &args.id, text.as_bytes(), None) {
        for error in errors {
            complain!(
                "failed to use the description: {}; {}",
                error.what,
                error.help
            );
        }
        return ExitCode::from(EXIT_USAGE);
    }
    let path = PathBuf::from("scenarios").join(format!("{}.yaml", args.id));
    let folder = path.parent().unwrap_or(&path);
    if let Err(error) = std::fs::create_dir_all(folder) {
        return Exit::unwritten(folder, &error).finish();
    }
    let written =
        std::fs::File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => {
            say!("{}\nrun: cargo turnproof check {}", path.display(), args.id);
            ExitCode::SUCCESS
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            complain!("failed to write {}: it exists", path.display());
            ExitCode::from(EXIT_USAGE)
        }
        Err(error) => Exit::unwritten(&path, &error).finish(),
    }
}
