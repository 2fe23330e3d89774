//! `turnproof import`: a scenario that reproduces a recorded rollout.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::Exit;
use crate::driver::codex::stored_calibrations;
use crate::import::redact::Texts;
use crate::import::secrets::secrets;
use crate::import::{Imported, Mode, import};

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Nothing recorded is executed: a tool's output is the recorded one. Every text of \
    the conversation becomes a stand-in of the same length unless --keep-text is given. What no step \
    carries is listed on standard error and at the top of the scenario.\n\
    Exit codes: 0 written, 1 something that looks like a secret is left and nothing was written, \
    2 wrong usage or no rollout, 3 could not write."
)]
pub struct ImportArgs {
    /// Rollout files, `.jsonl` or `.jsonl.zst`.
    #[arg(required = true, value_name = "ROLLOUT")]
    pub files: Vec<PathBuf>,
    /// The scenario, or a folder for one scenario of each file; standard output without it.
    #[arg(short, long, value_name = "SCENARIO")]
    pub output: Option<PathBuf>,
    /// `replay` plays every turn; `supplied` begins behind the last turn that cannot be played
    /// again and supplies what came before as a history.
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,
    /// Keeps the recorded texts. A rollout is private: think before you pass this on.
    #[arg(long)]
    pub keep_text: bool,
    /// Replaces a scenario that exists.
    #[arg(long)]
    pub force: bool,
}

/// Runs the command.
pub fn run(args: &ImportArgs) -> Exit {
    let into_folder = args.output.as_ref().is_some_and(|output| output.is_dir());
    if args.files.len() > 1 && !into_folder {
        return Exit::usage("several rollouts need a folder: `-o FOLDER`");
    }
    let texts = Texts {
        keep: args.keep_text,
        calibrations: stored_calibrations(),
    };
    let mut worst = Exit::OK;
    for path in &args.files {
        let exit = one(path, args, &texts);
        if let Some(message) = &exit.message {
            // The next file is looked at all the same.
            let _ = writeln!(std::io::stderr(), "{message}");
        }
        if exit.code > worst.code {
            worst.code = exit.code;
        }
    }
    worst
}

fn one(path: &Path, args: &ImportArgs, texts: &Texts) -> Exit {
    let name = path.display();
    let target = args.output.as_ref().map(|output| target(output, path));
    if let Some(target) = target
        .as_ref()
        .filter(|target| target.exists() && !args.force)
    {
        let why = format!("{} exists", target.display());
        return Exit::usage(&format!("{why}\n  help: name another file, or add --force"));
    }
    let imported = match import(path, args.mode, texts) {
        Ok(imported) => imported,
        Err(error) => return Exit::usage(&format!("failed to import {name}:{error}")),
    };
    let found = secrets(&imported.yaml);
    let listed: Vec<String> = found
        .iter()
        .map(|(line, what)| format!("  line {line} of the scenario: {what}"))
        .collect();
    if !found.is_empty() && !args.keep_text {
        let help = "help: redact a copy of the file by hand; with --keep-text they are kept";
        let message = format!(
            "failed to import {name}: what looks like a secret is left, and nothing was written\n{}\n  {help}",
            listed.join("\n")
        );
        return Exit {
            code: 1,
            message: Some(message),
        };
    }
    let exit = match &target {
        None => {
            super::out::write(format_args!("{}", imported.yaml));
            Exit::OK
        }
        Some(target) => write(target, &imported),
    };
    let mut remarks: Vec<String> = imported
        .left_out
        .iter()
        .map(|left| format!("{name}:{}: not carried: {}", left.place, left.what))
        .collect();
    remarks.extend(listed.iter().map(|line| format!("kept as recorded:{line}")));
    for remark in remarks {
        // The scenario says it, too.
        let _ = writeln!(std::io::stderr(), "{remark}");
    }
    exit
}

/// The file to write: in a folder, by the name of the rollout.
fn target(output: &Path, rollout: &Path) -> PathBuf {
    if !output.is_dir() {
        return output.to_owned();
    }
    let name = rollout.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.trim_end_matches(".zst").trim_end_matches(".jsonl");
    output.join(format!("{stem}.yaml"))
}

/// Writes beside the target and renames: a scenario is there whole or not at all.
fn write(target: &Path, imported: &Imported) -> Exit {
    let mut beside = target.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let written = std::fs::write(&beside, &imported.yaml);
    let written = written.and_then(|()| std::fs::rename(&beside, target));
    match written {
        Ok(()) => Exit::OK,
        Err(error) => {
            // What is left of it would be taken for a scenario of someone.
            let _ = std::fs::remove_file(&beside);
            Exit::unwritten(target, &error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = r#"{"timestamp":"t","type":"session_meta","payload":{"id":"a","cwd":"/w","cli_version":"0.171.0"}}"#;

    fn args(file: PathBuf, output: PathBuf) -> ImportArgs {
        ImportArgs {
            files: vec![file],
            output: Some(output),
            mode: Mode::Replay,
            keep_text: false,
            force: false,
        }
    }

    /// A rollout of one turn in which the user says a text.
    fn rollout(call_id: &str) -> String {
        let records = [
            r#""event_msg","payload":{"type":"task_started","model_context_window":95000}"#.to_owned(),
            r#""response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Read it."}]}"#.to_owned(),
            r#""event_msg","payload":{"type":"user_message","message":"Read it."}"#.to_owned(),
            format!(r#""response_item","payload":{{"type":"function_call","name":"exec_command","arguments":"{{\"{call_id}\":1}}","call_id":"call_1"}}"#),
            r#""response_item","payload":{"type":"function_call_output","call_id":"call_1","output":"text"}"#.to_owned(),
            r#""event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":5},"last_token_usage":{"input_tokens":5,"total_tokens":5}}}"#.to_owned(),
            r#""response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}"#.to_owned(),
            r#""event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":11},"last_token_usage":{"input_tokens":6,"total_tokens":6}}}"#.to_owned(),
            r#""event_msg","payload":{"type":"task_complete","last_agent_message":"Done."}"#.to_owned(),
        ];
        let lines = records.map(|record| format!("{{\"timestamp\":\"t\",\"type\":{record}}}\n"));
        format!("{META}\n{}", lines.concat())
    }

    #[test]
    fn a_rollout_becomes_a_scenario_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("rollout-a.jsonl");
        std::fs::write(&file, rollout("path")).expect("written");
        let args = args(file, folder.path().to_owned());
        assert_eq!(run(&args), Exit::OK);
        let written = folder.path().join("rollout-a.yaml");
        let text = std::fs::read_to_string(&written).expect("a scenario");
        assert!(
            text.contains("tool: exec_commanx, arguments: {path: 1}"),
            "{text}"
        );
        assert!(!text.contains("Read") && !text.contains("Done"), "{text}");
        assert_eq!(run(&args).code, 2, "it exists");
        let forced = ImportArgs {
            force: true,
            ..args
        };
        assert_eq!(run(&forced), Exit::OK);
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            2
        );
    }

    #[test]
    fn a_call_goes_to_its_stand_in_whatever_its_name_and_keys() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("rollout-a.jsonl");
        for (written, what) in [
            (r#""name":"my own tool""#, "tool: xxxxxxxxxx0, "),
            (
                r#""name":"exec_command","status":"done""#,
                "tool: exec_commanx, ",
            ),
        ] {
            let rollout = rollout("path").replace(r#""name":"exec_command""#, written);
            std::fs::write(&file, rollout).expect("written");
            let forced = ImportArgs {
                force: true,
                ..args(file.clone(), folder.path().to_owned())
            };
            assert_eq!(run(&forced), Exit::OK);
            let text = std::fs::read_to_string(folder.path().join("rollout-a.yaml"));
            let text = text.expect("a scenario");
            assert!(text.contains(what) && !text.contains("my "), "{text}");
            let told = text.contains("`status` of a call: the format has no such key");
            assert_eq!(told, written.contains("status"), "{text}");
        }
    }

    #[test]
    fn what_is_no_rollout_says_where_and_why() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.jsonl");
        for (bytes, what) in [
            (String::new(), "a.jsonl:1:0: the file is empty"),
            (
                "hello\n".to_owned(),
                "a.jsonl:1:0: not a rollout: no line holds a record",
            ),
            (
                format!("\n{}", rollout("path").split_once('\n').expect("lines").1),
                "a.jsonl:2:1: not a rollout that can be resumed",
            ),
            (format!("{META}\n"), "a.jsonl:1:0: no turn to play"),
        ] {
            std::fs::write(&file, bytes).expect("written");
            let exit = one(
                &file,
                &args(file.clone(), folder.path().join("b.yaml")),
                &Texts::default(),
            );
            assert_eq!(exit.code, 2);
            let message = exit.message.expect("a message");
            assert!(
                message.contains(what) && message.contains("help:"),
                "{message}"
            );
            assert!(!folder.path().join("b.yaml").exists());
        }
    }

    #[test]
    fn a_secret_that_is_left_is_refused_with_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.jsonl");
        std::fs::write(&file, rollout("ghp_abcdefghijklmnopqrstuvwxyz")).expect("written");
        let output = folder.path().join("b.yaml");
        let exit = one(
            &file,
            &args(file.clone(), output.clone()),
            &Texts::default(),
        );
        assert_eq!(exit.code, 1);
        let message = exit.message.expect("a message");
        assert!(
            message.contains("of the scenario: a GitHub token"),
            "{message}"
        );
        assert!(!output.exists());
    }
}
