//! `turnproof record`: runs a scenario on one subject and writes its rollout files as they are.
//!
//! What `import` and `doctor` are tried on. Fixed texts of Codex are ours, as in every recording;
//! ids, times and the places of the run stay.

use std::path::PathBuf;

use serde_json::json;

use super::Exit;
use super::context::{block_on, subjects};
use super::shrink::find;
use crate::driver;
use crate::scenario::Resolved;
use crate::scenario::plan::Plan;

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Exit codes: 0 written, 1 written and the run has findings, 2 wrong usage \
    or invalid scenario, 3 could not run."
)]
pub struct RecordArgs {
    /// Id of a scenario, or path of a YAML file.
    pub scenario: String,
    /// Subject that runs it.
    #[arg(long, default_value = "engine@0.171")]
    pub subject: String,
    /// Folder that the files are written to; it is made if it is not there.
    #[arg(short, long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Lets a real binary have its shell, its patch tool and an MCP server `notes`; a scenario of
    /// the suite may not.
    #[arg(long)]
    pub own_tools: bool,
}

/// An MCP server in one script: it answers every call with the same note.
const NOTES: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case $line in
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"notes","version":"1"}}' ;;
    *'"tools/list"'*) answer '{"tools":[{"name":"recall","description":"Recalls a note.","inputSchema":{"type":"object","properties":{"title":{"type":"string"}}}}]}' ;;
    *'"tools/call"'*) answer '{"content":[{"type":"text","text":"The note says: be brief."}]}' ;;
  esac
done
"#;

/// Switches on what a scenario of the suite has to leave off: no engine runs such tools.
fn with_own_tools(plan: &mut Plan) {
    for model in &mut plan.models {
        let patch = ("apply_patch_tool_type".to_owned(), json!("freeform"));
        model.extra.push(patch);
    }
    plan.config
        .features
        .push(("shell_tool".to_owned(), json!(true)));
    for (key, value) in [("command", json!("sh")), ("args", json!(["-c", NOTES]))] {
        let key = format!("mcp_servers.notes.{key}");
        plan.config.extra.push((key, value));
    }
}

/// Runs the command.
pub fn run(args: &RecordArgs) -> Exit {
    match record(args) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn record(args: &RecordArgs) -> Result<Exit, Exit> {
    let subject = match subjects(std::slice::from_ref(&args.subject), "engine@0.171")?.as_slice() {
        [one] => one.clone(),
        _ => return Err(Exit::usage("name one subject, for instance codex@0.171.0")),
    };
    let loaded = find(&args.scenario)?;
    let version = semver::Version::parse(subject.family().real)
        .map_err(|error| Exit::could_not_run(&error.to_string()))?;
    let mut plan = match loaded.plan(&version) {
        Ok(Resolved::Applicable(plan)) => *plan,
        Ok(Resolved::NotApplicable(why)) => {
            let what = format!("the scenario does not apply to {}: {why}", subject.name);
            return Err(Exit::usage(&what));
        }
        Err(error) => return Err(Exit::usage(&error.to_string())),
    };
    if args.own_tools {
        with_own_tools(&mut plan);
    }
    let ran = block_on(async {
        let driver = driver::open(&subject.name, &[&plan]).await?;
        driver.run(&plan).await
    })?;
    let outcome = ran.map_err(|why| Exit::could_not_run(&format!("run {}: {why}", loaded.id)))?;
    let failed = |error: std::io::Error| Exit::unwritten(&args.out, &error);
    if outcome.recording.rollouts.is_empty() {
        let what = format!(
            "{} leaves no rollout file on {}: nothing is written",
            loaded.id, subject.name
        );
        return Err(Exit::usage(&what));
    }
    std::fs::create_dir_all(&args.out).map_err(failed)?;
    for rollout in &outcome.recording.rollouts {
        let path = args.out.join(&rollout.name);
        std::fs::write(&path, &rollout.text).map_err(failed)?;
        super::out::write(format_args!("{}\n", path.display()));
    }
    if outcome.findings.is_empty() {
        return Ok(Exit::OK);
    }
    let found: Vec<String> = outcome
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.id, finding.message))
        .collect();
    Ok(Exit {
        message: Some(found.join("\n")),
        ..Exit::FINDINGS
    })
}
