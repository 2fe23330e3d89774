//! What the commands share: the checkout, its scenarios, its goldens, how a subject is opened.

use std::path::{Path, PathBuf};

use super::Exit;
use crate::cases::{self, Case, Cases, CasesError};
use crate::driver;
use crate::golden::gate::Gate;
use crate::golden::versions::Subject;
use crate::interrupt::{self, Interrupt};

/// The checkout a command works on.
pub struct Context {
    /// Its root folder.
    pub root: PathBuf,
    /// Its scenarios.
    pub cases: Box<dyn Cases>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// The checkout at or above the current folder.
    pub fn here() -> Result<Self, Exit> {
        let here = std::env::current_dir().map_err(|e| Exit::could_not_run(&e.to_string()))?;
        let root = here
            .ancestors()
            .find(|folder| folder.join("scenarios").is_dir());
        let root = root.ok_or_else(|| {
            Exit::could_not_run("find a `scenarios` folder in this folder or above it")
        })?;
        let cases = cases::open(root).map_err(|e| Exit::from(&e))?;
        Ok(Self {
            root: root.to_owned(),
            cases,
        })
    }

    /// Scenarios that match the patterns, and of these every n-th.
    pub fn select(&self, patterns: &[String], shard: Option<Shard>) -> Result<Vec<Case>, Exit> {
        let list = self.cases.select(patterns).map_err(|e| Exit::from(&e))?;
        Ok(match shard {
            None => list,
            Some(shard) => list
                .into_iter()
                .enumerate()
                .filter(|(index, _)| index % shard.of == shard.index - 1)
                .map(|(_, case)| case)
                .collect(),
        })
    }

    /// The goldens, set up for a subject.
    pub fn gate(&self, subject: &Subject) -> Result<Gate, Exit> {
        let scratch = scratch(&self.root);
        let remnants = Box::new(driver::remnants);
        let mut gate = Gate::open(&self.root.join("golden"), &scratch, remnants)
            .map_err(|e| Exit::usage(&e))?;
        gate.binary_sha256 = driver::binary_sha256(&subject.name);
        Ok(gate)
    }
}

/// Where an engine's output goes on a difference.
fn scratch(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), PathBuf::from)
        .join("turnproof")
}

impl From<&CasesError> for Exit {
    fn from(error: &CasesError) -> Self {
        match error {
            CasesError::Invalid(message) => Self::usage(message),
            CasesError::Unreadable(message) => Self::could_not_run(message),
        }
    }
}

/// Subjects as written on the command line.
pub fn subjects(names: &[String], default: &str) -> Result<Vec<Subject>, Exit> {
    let default = [default.to_owned()];
    let names = if names.is_empty() {
        &default[..]
    } else {
        names
    };
    let mut list = Vec::new();
    for name in names {
        for subject in Subject::expand(name).map_err(|e| Exit::usage(&e))? {
            if !list.contains(&subject) {
                list.push(subject);
            }
        }
    }
    Ok(list)
}

/// `2/4`: the second of four parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    of: usize,
}

impl Shard {
    /// Its number from 0, and how many there are.
    pub(super) fn place(self) -> (usize, usize) {
        (self.index - 1, self.of)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((index, of)) if 1 <= index && index <= of => Ok(Self { index, of }),
            _ => Err("expected I/N with 1 ≤ I ≤ N".to_owned()),
        }
    }
}

/// Runs a future on one thread. A signal drops it, with every process and folder that it holds.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Exit> {
    let watched = interrupt::watch();
    let _running = watched.map_err(|e| Exit::could_not_run(&format!("watch for signals: {e}")))?;
    block_on_until(future, interrupt::arrival())
}

fn block_on_until<T>(
    future: impl Future<Output = T>,
    interrupted: impl Future<Output = Interrupt>,
) -> Result<T, Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Exit::could_not_run(&e.to_string()))?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            interrupt = interrupted => Err(Exit {
                code: interrupt.exit_code,
                message: (!interrupt.is_mute()).then(|| {
                    format!(
                        "interrupted by {}: processes ended, folders removed, no verdict",
                        interrupt.name
                    )
                }),
            }),
            done = future => Ok(done),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says that it was dropped.
    struct Held<'a>(&'a std::cell::Cell<bool>);

    impl Drop for Held<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    #[test]
    fn a_signal_drops_what_runs_and_is_the_exit_code() {
        let dropped = std::cell::Cell::new(false);
        let run = async {
            let _held = Held(&dropped);
            std::future::pending::<()>().await;
        };
        let signal = async {
            tokio::task::yield_now().await;
            Interrupt {
                name: "SIGTERM",
                exit_code: 143,
            }
        };
        let exit = block_on_until(run, signal).expect_err("interrupted");
        assert_eq!(exit.code, 143);
        assert!(exit.message.is_some_and(|said| said.contains("SIGTERM")));
        assert!(dropped.get());
        assert_eq!(block_on_until(async { 1 }, std::future::pending()), Ok(1));
    }
}
