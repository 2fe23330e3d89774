//! `turnproof replay`: one drawn session, with all that is known of it.

use super::Exit;
use super::out::say;
use super::simulate::{PROFILE, profile, reach};
use crate::mask::mask;
use crate::recording::Finding;
use crate::scenario::plain::Tree;
use crate::scenario::write::write;
use crate::simulate::trial::{Engine, Played, runtime};
use crate::simulate::{Faults, Simulated, Unplayed, laws};

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Prints the drawn options, the scenario with the answers that were drawn, a \
    line for each request, and the broken laws: those without a known cause, and those that a rule \
    explains.\n\n\
    Exit codes: 0 no law is broken without a known cause, 1 findings, 2 wrong usage, 3 it has no \
    verdict."
)]
pub struct ReplayArgs {
    /// The seed.
    pub seed: u64,
    /// Engine that plays it: engine@V, engine@V+fixed, engine@V+planted:NAME.
    #[arg(long, value_name = "SUBJECT", default_value = PROFILE)]
    pub profile: String,
    /// Faults that may be drawn, as for `simulate`; others make another session.
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub faults: Faults,
    /// Plays it twice, and says where the second session is another one.
    #[arg(long)]
    pub twice: bool,
}

/// Runs the command.
pub fn run(args: &ReplayArgs) -> Exit {
    match replayed(args) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn replayed(args: &ReplayArgs) -> Result<Exit, Exit> {
    let engine = Engine::new(&profile(&args.profile)?).map_err(|why| Exit::usage(&why))?;
    let reach = reach(args.faults);
    let seed = args.seed;
    say!("seed {seed} on {}, faults {}", engine.name, reach.faults);
    let options = engine.options(reach, seed);
    say!(
        "{}\n",
        options.map_err(|why| Exit::could_not_run(&format!("draw it: {why}")))?
    );
    let runtime = runtime().map_err(|error| Exit::could_not_run(&error.to_string()))?;
    let mut is_sound = match engine.play(&runtime, reach, seed) {
        Played::ToItsEnd(simulated) => tell(&simulated, engine.family),
        Played::Panicked { said, scenario } => {
            if let Some(scenario) = scenario {
                say!("{}", write(&Tree::from(&scenario)));
            }
            say!("FAILED law.panics: {said}");
            false
        }
        Played::Not(why) => {
            if let Unplayed::NoVerdict(_, scenario) = &why {
                say!("{}", write(&Tree::from(&**scenario)));
            }
            return Err(Exit::could_not_run(&format!("play it: {why}")));
        }
    };
    if args.twice {
        match engine.trial(&runtime, reach, seed, true).divergence {
            None => say!("the second time it was the same session"),
            Some(found) => {
                say!("DIVERGED {found}");
                is_sound = false;
            }
        }
    }
    Ok(if is_sound { Exit::OK } else { Exit::FINDINGS })
}

/// Prints a session; whether no law is broken without a known cause.
fn tell(simulated: &Simulated, family: usize) -> bool {
    let Simulated {
        scenario,
        plan,
        outcome,
        draws,
        ..
    } = simulated;
    say!("{}", write(&Tree::from(scenario)));
    let masked = mask(&outcome.recording);
    let journal = outcome.recording.journal.iter().zip(&masked.wire);
    for (number, (exchange, request)) in journal.enumerate() {
        let header = |name: &str| {
            let found = request.headers.iter().find(|(known, _)| known == name);
            found.map_or("-", |(_, value)| value.as_str())
        };
        let items = request.body["input"].as_array().map_or(0, Vec::len);
        say!(
            "request {}: {} {}, {items} items, {} bytes, window {}, answered by {}",
            number + 1,
            request.kind,
            request.path,
            exchange.body.len(),
            header("x-codex-window-id"),
            exchange
                .reply
                .as_deref()
                .unwrap_or("nothing that was drawn")
        );
    }
    let verdict = laws::judge(plan, outcome, family);
    for (law, rule) in &verdict.explained {
        say!("explained: {law} by {rule}");
    }
    for Finding { id, message } in verdict.unexplained.values() {
        say!("FAILED {id}: {message}");
    }
    say!(
        "{draws} draws, {} steps, {} requests, {} findings unexplained, {} explained by rule",
        plan.steps.len(),
        outcome.recording.journal.len(),
        verdict.unexplained.len(),
        verdict.explained.len()
    );
    verdict.unexplained.is_empty()
}
