//! `turnproof crash`: kills a subject at every append of its rollout and lets the client come back.

use std::path::PathBuf;

use super::Exit;
use super::context::{Context, block_on};
use crate::cases::{Case, PlanFor};
use crate::cli::out::say;
use crate::crash::{self, Summary};
use crate::driver;
use crate::golden::versions::{Arm, Subject, VERSIONS};
use crate::scenario::plan::Plan;

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct CrashArgs {
    /// Scenario ids, folders or globs; the chosen ten, or two for a real binary, without one.
    pub patterns: Vec<String>,
    /// `engine@V+fixed` (all three without one), `engine@V`, `codex@V`; repeatable.
    #[arg(long = "subject", value_name = "SUBJECT")]
    pub subjects: Vec<String>,
    /// Fails if fewer crash points than this were tried.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_points: usize,
    /// Writes a table: how many points each scenario has, and what is broken where.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
}

/// What was counted.
#[derive(Debug, Default)]
struct Counted {
    points: usize,
    broken: usize,
    skipped: usize,
    lines: String,
}

/// Runs the command: 0 the law holds everywhere, 1 it is broken somewhere, 3 something could not run.
pub fn run(args: &CrashArgs, context: &Context) -> Exit {
    match crash(args, context) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn crash(args: &CrashArgs, context: &Context) -> Result<Exit, Exit> {
    let names = if args.subjects.is_empty() {
        let fixed = VERSIONS.iter().map(|v| format!("engine@{}+fixed", v.name));
        fixed.collect()
    } else {
        args.subjects.clone()
    };
    let mut counted = Counted::default();
    for name in &names {
        for subject in Subject::expand(name).map_err(|why| Exit::usage(&why))? {
            one_subject(args, context, &subject, &mut counted)?;
        }
    }
    if let Some(path) = &args.write {
        let text = format!(
            "subject\tscenario\tcrash points\twhat is broken\n{}",
            counted.lines
        );
        std::fs::write(path, text).map_err(|error| Exit::unwritten(path, &error))?;
    }
    if counted.points == 0 && counted.skipped == 0 {
        let what = "none of the scenarios has a crash point on a subject: name others, or others with \
                    --subject";
        return Err(Exit::usage(what));
    }
    let enough = counted.points >= args.min_points;
    if !enough {
        say!(
            "{} crash points were tried, at least {} are wanted",
            counted.points,
            args.min_points
        );
    }
    let Counted {
        points,
        broken,
        skipped,
        ..
    } = counted;
    say!("{points} crash points, {broken} broken");
    say!(
        "{} passed, {broken} failed, {skipped} skipped",
        points - broken
    );
    Ok(if broken > 0 || !enough {
        Exit::FINDINGS
    } else if skipped > 0 {
        Exit::NOT_RUN
    } else {
        Exit::OK
    })
}

fn one_subject(
    args: &CrashArgs,
    context: &Context,
    subject: &Subject,
    counted: &mut Counted,
) -> Result<(), Exit> {
    let chosen: &[&str] = match subject.arm {
        Arm::Engine => &crash::SCENARIOS,
        Arm::Codex => &crash::REAL_SCENARIOS,
    };
    let patterns = if args.patterns.is_empty() {
        chosen.iter().map(|id| (*id).to_owned()).collect()
    } else {
        args.patterns.clone()
    };
    let mut plans = Vec::new();
    for Case { id, .. } in context.select(&patterns, None)? {
        let plan = context.cases.plan(&id, subject.family().real);
        match plan.map_err(|error| Exit::from(&error))? {
            PlanFor::Applicable(plan) => plans.push(*plan),
            PlanFor::NotApplicable(why) => say!("{id} {}: not applicable: {why}", subject.name),
        }
    }
    block_on(async {
        let driver = match driver::open_crash(&subject.name, &plans).await {
            Ok(driver) => driver,
            Err(reason) => {
                say!("NOT RUN: {reason}");
                counted.skipped += plans.len();
                return;
            }
        };
        for plan in &plans {
            match crash::points(&*driver, plan).await {
                Ok(summary) => counted.take(plan, subject, &summary),
                Err(reason) => {
                    say!("NOT RUN {} on {}: {reason}", plan.id, subject.name);
                    counted.skipped += 1;
                }
            }
        }
    })
}

impl Counted {
    fn take(&mut self, plan: &Plan, subject: &Subject, summary: &Summary) {
        let (id, name) = (&plan.id, &subject.name);
        let broken = summary.broken.len();
        say!(
            "{id} {name}: {} crash points, {broken} broken",
            summary.points
        );
        self.points += summary.points;
        self.broken += broken;
        let points = summary.points;
        let mut line = |what: &[&str]| {
            self.lines.push_str(&what.join("\t"));
            self.lines.push('\n');
        };
        line(&[name, id, &points.to_string(), &format!("{broken} points")]);
        for (point, found) in &summary.broken {
            say!("FAILED {id} on {name}, {point}");
            for what in found {
                say!("  {what}");
                line(&[name, id, &point.to_string(), &in_a_line(what)]);
            }
            say!("  rerun: cargo turnproof crash {id} --subject {name}");
        }
    }
}

fn in_a_line(text: &str) -> String {
    text.replace(['\n', '\t'], " ")
}
