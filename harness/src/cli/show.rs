//! `turnproof show`: prints a golden, or one request of it as it was on the wire.

use serde_json::Value;

use super::Exit;
use super::context::{Context, subjects};
use crate::golden::chain::resolve;
use crate::golden::compare::expand;
use crate::golden::render::Stream;

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct ShowArgs {
    /// Scenario id.
    pub case: String,
    /// Version whose golden is shown.
    #[arg(long, default_value = "engine@0.171")]
    pub subject: String,
    /// Only this request (counted from 1).
    #[arg(long)]
    pub request: Option<usize>,
    /// The rollout instead of the wire.
    #[arg(long, conflicts_with_all = ["request", "events"])]
    pub rollout: bool,
    /// The client events instead of the wire.
    #[arg(long, conflicts_with = "request")]
    pub events: bool,
    /// The whole, with all that the envelope holds.
    #[arg(long)]
    pub expand: bool,
}

/// Runs the command.
pub fn run(args: &ShowArgs, context: &Context) -> Exit {
    match show(args, context) {
        Ok(text) => {
            crate::cli::out::write(format_args!("{text}"));
            Exit::OK
        }
        Err(exit) => exit,
    }
}

fn show(args: &ShowArgs, context: &Context) -> Result<String, Exit> {
    let subject = subjects(std::slice::from_ref(&args.subject), "engine")?.remove(0);
    let gate = context.gate(&subject)?;
    let stream = match (args.rollout, args.events) {
        (true, _) => Stream::Rollout,
        (_, true) => Stream::Events,
        _ => Stream::Wire,
    };
    let found = resolve(&gate.folder(&args.case), stream, subject.version)
        .map_err(|e| Exit::usage(&e.to_string()))?
        .ok_or_else(|| Exit::usage(&format!("no golden for {} on {}", args.case, args.subject)))?;
    let file = found.path.display().to_string();
    found
        .file
        .check_body(&file)
        .map_err(|e| Exit::could_not_run(&e.to_string()))?;
    let doc = found.file.doc();
    if !args.expand && args.request.is_none() {
        return Ok(found.file.to_text());
    }
    let list = if args.expand {
        let expanded = expand(stream, &doc, gate.envelope(subject.version));
        expanded
            .ok_or_else(|| Exit::usage("the golden does not fit its envelope"))?
            .list
    } else {
        doc.get("requests")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let Some(number) = args.request else {
        let texts: Vec<String> = list.iter().map(|value| format!("{value:#}\n")).collect();
        return Ok(texts.concat());
    };
    let one = number.checked_sub(1).and_then(|index| list.get(index));
    let one = one.ok_or_else(|| {
        Exit::usage(&format!(
            "there are {} requests, counted from 1",
            list.len()
        ))
    })?;
    Ok(format!("{one:#}\n"))
}
