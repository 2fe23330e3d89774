//! `turnproof review`: lists, shows, accepts and rejects pending goldens.

use crate::cli::out::say;
use std::io::IsTerminal;

use super::Exit;
use crate::golden::bless::refused_in_ci;
use crate::golden::review::{Decision, Group, decide, describe, groups, interactive};
use crate::golden::store::StoreError;

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct ReviewArgs {
    /// Only pending goldens whose name begins with one of these.
    pub names: Vec<String>,
    /// Accepts them without asking.
    #[arg(long, conflicts_with = "reject")]
    pub accept: bool,
    /// Rejects them without asking.
    #[arg(long)]
    pub reject: bool,
    /// Only lists them.
    #[arg(long, conflicts_with_all = ["accept", "reject"])]
    pub list: bool,
}

/// Runs the command on the goldens below a folder.
pub fn run(args: &ReviewArgs, golden: &std::path::Path) -> Exit {
    match review(args, golden) {
        Ok(exit) => exit,
        Err(error) => Exit::could_not_run(&error.to_string()),
    }
}

fn review(args: &ReviewArgs, golden: &std::path::Path) -> Result<Exit, StoreError> {
    let mut all = groups(golden)?;
    if !args.names.is_empty() {
        for group in &mut all {
            group
                .members
                .retain(|m| args.names.iter().any(|n| m.name.starts_with(n.as_str())));
        }
        all.retain(|group| !group.members.is_empty());
    }
    for name in &args.names {
        let is_there = |group: &Group| {
            group
                .members
                .iter()
                .any(|m| m.name.starts_with(name.as_str()))
        };
        if !all.iter().any(is_there) {
            let what = format!(
                "no pending golden begins with `{name}`\n  help: `review --list` names those there are; \
                 `check --subject codex` leaves them"
            );
            return Ok(Exit::usage(&what));
        }
    }
    let members = |list: &[Group]| list.iter().map(|g| g.members.len()).sum::<usize>();
    let count = members(&all);
    if args.accept || args.reject {
        if let Some(why) = refused_in_ci() {
            return Ok(Exit::usage(why));
        }
        if count == 0 {
            let what = "nothing is pending\n  help: `check --subject codex` leaves a pending golden where one \
                        differs";
            return Ok(Exit::usage(what));
        }
        let decision = if args.accept {
            Decision::Accept
        } else {
            Decision::Reject
        };
        for group in &all {
            decide(group, decision)?;
        }
        say!(
            "{count} {}",
            if args.accept { "accepted" } else { "rejected" }
        );
        return Ok(Exit::OK);
    }
    if args.list || !std::io::stdin().is_terminal() || refused_in_ci().is_some() {
        for group in &all {
            say!("{}", describe(group));
        }
        say!("{count} pending in {} groups", all.len());
        return Ok(if count == 0 { Exit::OK } else { Exit::FINDINGS });
    }
    let stdin = std::io::stdin();
    let (accepted, rejected) = interactive(&all, &mut stdin.lock(), &mut std::io::stdout())?;
    say!(
        "{accepted} accepted, {rejected} rejected, {} left",
        count - accepted - rejected
    );
    Ok(Exit::OK)
}
