//! `turnproof doctor`: a read-only report on rollout files.

use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use super::{Exit, progress_bar};
use crate::doctor::report::Report;
use crate::doctor::{Options, examine, report, text};
use crate::rollout_file::regular;

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Nothing is written. Without --show-text no text of the conversation is \
    printed: counts, places, ids, kinds and models only.\n\
    Exit codes: 0 no finding is an error, 1 at least one is, 2 wrong usage or no such file, \
    3 could not read."
)]
pub struct DoctorArgs {
    /// Rollout files, `.jsonl` or `.jsonl.zst`.
    #[arg(required = true, value_name = "ROLLOUT")]
    pub files: Vec<PathBuf>,
    /// Prints JSON.
    #[arg(long)]
    pub json: bool,
    /// Also prints the beginning of user texts, summaries and broken lines. A rollout is private:
    /// think before you pass this on.
    #[arg(long)]
    pub show_text: bool,
    /// Largest part of a file, from its newest checkpoint on, that is read into memory to say what a
    /// resume would see; it takes about three times its size there.
    #[arg(long, value_name = "MIB", default_value_t = 12)]
    pub resume_max_mib: u32,
}

/// Runs the command.
pub fn run(args: &DoctorArgs) -> Exit {
    let mut reports: Vec<(String, Report)> = Vec::new();
    let mut errors = 0;
    let mut worst = Exit::OK;
    for path in &args.files {
        let name = path.display().to_string();
        match one(path, args) {
            Ok(report) if args.json => {
                errors += report.errors;
                reports.push((name, report));
            }
            Ok(report) => {
                errors += report.errors;
                crate::cli::out::write(format_args!("{}", text::report(&name, &report)));
            }
            // The other files still get their report; the exit code says that one got none.
            Err(exit) => worst = worse(worst, exit),
        }
    }
    if args.json {
        match report::json(&reports) {
            Ok(text) => crate::cli::out::write(format_args!("{text}\n")),
            Err(error) => return Exit::could_not_run(&format!("write the report: {error}")),
        }
    }
    if worst != Exit::OK {
        worst
    } else if errors > 0 {
        Exit::FINDINGS
    } else {
        Exit::OK
    }
}

/// The higher code; every message.
fn worse(one: Exit, other: Exit) -> Exit {
    let messages: Vec<String> = one.message.into_iter().chain(other.message).collect();
    Exit {
        code: one.code.max(other.code),
        message: Some(messages.join("\n")),
    }
}

fn one(path: &Path, args: &DoctorArgs) -> Result<Report, Exit> {
    let options = Options {
        show_text: args.show_text,
        resume_bytes_max: u64::from(args.resume_max_mib) * 1024 * 1024,
    };
    let bar = Bar::new();
    let examined = examine(path, options, &mut |done, total| bar.tell(done, total));
    bar.0.finish_and_clear();
    examined.map_err(|error| {
        let message = format!("read {}: {error}", path.display());
        if regular::is_slip(&error) {
            Exit::usage(&format!("failed to {message}"))
        } else {
            Exit::could_not_run(&message)
        }
    })
}

/// How far the file is read; drawn on a terminal only, so that nothing else gets to see the time.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let (bar, _) = progress_bar();
        let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {eta}");
        Self(match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    fn tell(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }
}
