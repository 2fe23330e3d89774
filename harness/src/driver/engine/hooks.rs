//! Hooks for our engine: no command runs, the scenario says what each would leave.

use engine::hooks::{Hook, HookOutput};
use engine::ports::Hooks;
use serde_json::Value;

use crate::scenario::plan::{ConfigSpec, HookSpec};

/// The hooks that the user trusts.
pub(super) fn trusted_hooks(config: &ConfigSpec) -> Vec<Hook> {
    trusted(config)
        .map(|hook| Hook {
            event: hook.event,
            matcher: hook.matcher.clone(),
        })
        .collect()
}

fn trusted(config: &ConfigSpec) -> impl Iterator<Item = &HookSpec> {
    config.hooks.iter().filter(|hook| hook.trusted)
}

/// Hooks that do as the scenario says.
pub(super) struct Commands(Vec<HookOutput>);

impl Commands {
    pub(super) fn new(config: &ConfigSpec) -> Self {
        let outputs = trusted(config).map(|hook| HookOutput {
            printed: hook.prints.clone(),
            complained: hook.complains.clone(),
            exit: hook.exit,
        });
        Self(outputs.collect())
    }
}

impl Hooks for Commands {
    fn run(&self, place: usize, _input: &Value) -> HookOutput {
        self.0.get(place).cloned().unwrap_or_default()
    }
}
