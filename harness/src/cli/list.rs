//! `turnproof list`: the scenarios of the checkout.

use crate::cli::out::{complain, say};
use std::process::ExitCode;

use clap::Args;
use engine::profile::faults::FAULTS;
use engine::profile::{Profile, Version};

use super::{EXIT_COULD_NOT_RUN, EXIT_USAGE, report, suite};
use crate::coverage::{Coverage, of_golden, of_plan};
use crate::golden::gate::Gate;
use crate::golden::versions::VERSIONS;
use crate::scenario::{Resolved, Suite};

/// Arguments of `turnproof list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Ids, folders or globs; everything without one.
    pub scenarios: Vec<String>,
    /// Adds the description.
    #[arg(long, short)]
    pub long: bool,
    /// Prints what the scenarios cover on each version; 1 where a cell is empty without a reason.
    #[arg(long, conflicts_with_all = ["scenarios", "long"])]
    pub coverage: bool,
    /// Prints the persistence faults of the releases that `engine@V+fixed` has mended.
    #[arg(long, conflicts_with_all = ["scenarios", "long", "coverage"])]
    pub faults: bool,
}

/// Runs the command: 0 listed, 2 nothing selected or an invalid scenario.
pub fn run(args: &ListArgs) -> ExitCode {
    if args.faults {
        faults();
        return ExitCode::SUCCESS;
    }
    let suite = match suite() {
        Ok(suite) => suite,
        Err(code) => return code,
    };
    if args.coverage {
        return coverage(&suite);
    }
    let files = match suite.select(&args.scenarios) {
        Ok(files) => files,
        Err(error) => return report(&error),
    };
    let mut code = ExitCode::SUCCESS;
    for file in files {
        if !args.long {
            say!("{}", file.id);
            continue;
        }
        match suite.load(file) {
            Ok(loaded) => say!("{}\n    {}", file.id, loaded.scenario.description),
            Err(errors) => {
                for error in errors {
                    complain!("{error}");
                }
                code = ExitCode::from(EXIT_USAGE);
            }
        }
    }
    code
}

/// Prints the faults with the releases that have them.
fn faults() {
    for fault in FAULTS {
        let families = VERSIONS
            .iter()
            .zip([Version::V144, Version::V164, Version::V171]);
        let having = families.filter(|(_, version)| (fault.is_in)(&Profile::of(*version)));
        let having: Vec<&str> = having.map(|(family, _)| family.name).collect();
        let finding = fault.finding.map_or(String::new(), |number| {
            format!(", docs/upstream-findings.md number {number}")
        });
        say!("{} ({})", fault.id, having.join(", "));
        say!("    {}", fault.sentence);
        say!("    mended: {}", fault.mended);
        say!("    rule {}{finding}", fault.rule);
    }
}

/// Counts goldens and scripts, prints the table, then what is wrong with it.
fn coverage(suite: &Suite) -> ExitCode {
    let scratch = suite.root.join("target/turnproof");
    let gate = match Gate::open(
        &suite.root.join("golden"),
        &scratch,
        Box::new(crate::driver::remnants),
    ) {
        Ok(gate) => gate,
        Err(error) => {
            complain!("failed to {error}");
            return ExitCode::from(EXIT_COULD_NOT_RUN);
        }
    };
    let mut table = Coverage::new();
    for file in suite.files.iter().filter(|file| !file.is_canary()) {
        let Ok(loaded) = suite.load(file) else {
            continue;
        };
        for (index, version) in VERSIONS.iter().enumerate() {
            let Ok(real) = semver::Version::parse(version.real) else {
                continue;
            };
            let Ok(Resolved::Applicable(_)) = loaded.plan(&real) else {
                continue;
            };
            let mut rows = of_plan(&loaded.scenario, &real);
            rows.extend(gate.golden(&file.id, index).iter().flat_map(of_golden));
            table.count(version.name, rows);
        }
    }
    let gaps = std::fs::read_to_string(suite.root.join("docs/coverage-gaps.toml"));
    let (text, findings) = table.render(&gaps.unwrap_or_default());
    crate::cli::out::write(format_args!("{text}"));
    for finding in &findings {
        say!("{finding}");
    }
    if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
