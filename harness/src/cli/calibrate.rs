//! `turnproof calibrate`: downloads a real binary and reads its fixed texts by running it.

use super::Exit;
use super::context::block_on;
use crate::cli::out::say;
use crate::driver::codex::{Source, calibrate};
use crate::golden::versions::VERSIONS;

/// Arguments of `turnproof calibrate`.
#[derive(Debug, clap::Args)]
pub struct CalibrateArgs {
    /// `codex@V` or `codex@PATH`; all pinned versions without one.
    #[arg(value_name = "SUBJECT")]
    pub subjects: Vec<String>,
}

/// Runs the command. The result lies in the user's cache (`TURNPROOF_CACHE`), never in the
/// checkout.
pub fn run(args: &CalibrateArgs) -> Exit {
    let pinned = VERSIONS
        .iter()
        .map(|version| format!("codex@{}", version.real));
    let subjects: Vec<String> = if args.subjects.is_empty() {
        pinned.collect()
    } else {
        args.subjects.clone()
    };
    for subject in &subjects {
        let Some(version) = subject.strip_prefix("codex@") else {
            return Exit::usage(&format!(
                "`{subject}` is no real binary: say codex@V or codex@PATH"
            ));
        };
        let source = if version.contains('/') {
            Source::Path(version.into())
        } else {
            Source::Version(version.to_owned())
        };
        let learned = block_on(async {
            let binary = source.ensure()?;
            let calibration = calibrate(&binary).await?;
            Ok::<_, crate::driver::NoVerdict>((binary, calibration))
        });
        match learned {
            Ok(Ok((binary, calibration))) => {
                let hash = &binary.sha256[..12];
                let texts = calibration.pairs.len();
                say!("{subject}: sha256 {hash}…, {texts} fixed texts read");
            }
            Ok(Err(reason)) => {
                return Exit::could_not_run(&format!("calibrate {subject}: {reason}"));
            }
            Err(exit) => return exit,
        }
    }
    Exit::OK
}
