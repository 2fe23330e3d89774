//! `turnproof bench-resume`: the numbers behind `cargo xtask bench resume`. Not shown in the help.

use std::path::PathBuf;

use super::Exit;
use super::context::block_on;
use crate::cli::out::say;
use crate::resume_bench;

/// Arguments of `turnproof bench-resume`.
#[derive(Debug, clap::Args)]
pub struct BenchResumeArgs {
    /// Profile of the engine.
    #[arg(long, value_name = "V", default_value = "0.171")]
    pub family: String,
    /// Real version.
    #[arg(long, value_name = "V", default_value = "0.171.0")]
    pub real: String,
    /// Size of the rollout in bytes.
    #[arg(long, value_name = "N", default_value_t = 1 << 30)]
    pub bytes: u64,
    /// Folder that the rollout is written into; it is removed again.
    #[arg(long, value_name = "DIR", default_value = "target")]
    pub folder: PathBuf,
    /// Only reads this file with the engine and prints what it took.
    #[arg(long, value_name = "FILE")]
    pub open: Option<PathBuf>,
}

/// Runs the command; what is printed is JSON.
pub fn run(args: &BenchResumeArgs) -> Exit {
    if let Some(path) = &args.open {
        return match resume_bench::open(path, &args.family) {
            Ok(opened) => {
                say!("{}", serde_json::json!(opened));
                Exit::OK
            }
            Err(why) => Exit::could_not_run(&format!("open a rollout: {why}")),
        };
    }
    let folder = args
        .folder
        .join(format!("bench-resume-{}", std::process::id()));
    let measured = std::fs::create_dir_all(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))
        .and_then(|()| measure(args, &folder));
    let removed = std::fs::remove_dir_all(&folder);
    match (measured, removed) {
        (Ok(measured), Ok(())) => {
            say!("{measured}");
            Exit::OK
        }
        (Err(why), _) => Exit::could_not_run(&format!("measure a resume: {why}")),
        (Ok(_), Err(error)) => {
            Exit::could_not_run(&format!("remove {}: {error}", folder.display()))
        }
    }
}

fn measure(args: &BenchResumeArgs, folder: &std::path::Path) -> Result<serde_json::Value, String> {
    let measured = block_on(async {
        let long = resume_bench::write(folder, args.bytes, &args.family).await?;
        let mut all = resume_bench::engine(&long, &args.family)?.to_vec();
        all.push(resume_bench::real(&long, &args.real).await?);
        Ok::<_, String>(serde_json::json!({
            "bytes": long.bytes,
            "bytes_from_checkpoint": long.behind,
            "measured": all,
        }))
    });
    measured.unwrap_or_else(|exit| Err(exit.message.unwrap_or_default()))
}
