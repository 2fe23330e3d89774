//! The `turnproof` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use harness::cli::context::Context;
use harness::cli::{
    Exit, bench_resume, bless, calibrate, check, crash, diff, doctor, fuzz_history, import, lint,
    list, new, perturb, record, replay, review, schema, show, shrink, simulate,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Conformance tests for Codex's turn and compaction engine.
#[derive(Debug, Parser)]
#[command(
    name = "turnproof",
    version,
    after_help = "Exit codes: 0 all hold, 1 findings, \
    2 usage or invalid scenario, 3 could not run."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs scenarios and compares them with their goldens.
    Check(check::CheckArgs),
    /// Prints every difference of one scenario from its golden.
    Diff(diff::DiffArgs),
    /// Prints a golden, or one request as it was on the wire.
    Show(show::ShowArgs),
    /// Records goldens from a real binary.
    Bless(bless::BlessArgs),
    /// Lists, shows, accepts and rejects pending goldens.
    Review(review::ReviewArgs),
    /// Reads scenarios and reports every finding with its position.
    Lint(lint::LintArgs),
    /// Lists scenarios.
    List(list::ListArgs),
    /// Writes a new scenario.
    New(new::NewArgs),
    /// Prints the JSON Schema of scenarios, or writes and compares the generated documents.
    Schema(schema::SchemaArgs),
    /// Downloads a real binary and reads its fixed texts.
    Calibrate(calibrate::CalibrateArgs),
    /// Compares variants of scenarios live, with no golden between.
    Perturb(perturb::PerturbArgs),
    /// Compares drawn histories live, with no golden between.
    FuzzHistory(fuzz_history::FuzzHistoryArgs),
    /// Kills a subject at every append of its rollout, and lets the client come back.
    Crash(crash::CrashArgs),
    /// Reports what a rollout file holds and what is wrong with it.
    Doctor(doctor::DoctorArgs),
    /// Makes a scenario as small as it can be while it still shows something.
    Shrink(shrink::ShrinkArgs),
    /// Plays drawn sessions on our engine, and holds them to every law.
    Simulate(simulate::SimulateArgs),
    /// Plays one drawn session, and prints all that is known of it.
    Replay(replay::ReplayArgs),
    /// Runs a scenario on one subject and writes its rollout files.
    Record(record::RecordArgs),
    /// Makes a scenario that reproduces a recorded rollout.
    Import(import::ImportArgs),
    /// Measures the resume of a long rollout, for `cargo xtask bench resume`.
    #[command(hide = true)]
    BenchResume(bench_resume::BenchResumeArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match &cli.command {
        Command::Lint(args) => return lint::run(args),
        Command::List(args) => return list::run(args),
        Command::New(args) => return new::run(args),
        Command::Schema(args) => return schema::run(args),
        Command::Calibrate(args) => return calibrate::run(args).finish(),
        Command::Doctor(args) => return doctor::run(args).finish(),
        Command::Shrink(args) => return shrink::run(args).finish(),
        Command::Simulate(args) => return simulate::run(args).finish(),
        Command::Replay(args) => return replay::run(args).finish(),
        Command::Record(args) => return record::run(args).finish(),
        Command::Import(args) => return import::run(args).finish(),
        Command::BenchResume(args) => return bench_resume::run(args).finish(),
        Command::Check(_)
        | Command::Diff(_)
        | Command::Show(_)
        | Command::Bless(_)
        | Command::Review(_)
        | Command::Perturb(_)
        | Command::Crash(_)
        | Command::FuzzHistory(_) => {}
    }
    let exit = match Context::here() {
        Err(exit) => exit,
        Ok(context) => match &cli.command {
            Command::Check(args) => check::run(args, &context),
            Command::Diff(args) => diff::run(args, &context),
            Command::Show(args) => show::run(args, &context),
            Command::Bless(args) => bless::run(args, &context),
            Command::Review(args) => review::run(args, &context.root.join("golden")),
            Command::Perturb(args) => perturb::run(args, &context),
            Command::Crash(args) => crash::run(args, &context),
            Command::FuzzHistory(args) => fuzz_history::run(args, &context),
            Command::Lint(_)
            | Command::List(_)
            | Command::New(_)
            | Command::Schema(_)
            | Command::Calibrate(_)
            | Command::Doctor(_)
            | Command::Import(_)
            | Command::BenchResume(_)
            | Command::Shrink(_)
            | Command::Simulate(_)
            | Command::Replay(_)
            | Command::Record(_) => Exit::OK,
        },
    };
    exit.finish()
}
