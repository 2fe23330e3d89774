//! Scenarios: YAML files, their errors, and the plan a driver runs.
//!
//! `load` reads a file (`tree` → `decode` → `schema`), `validate` finds what makes no sense,
//! `resolve` fills in a [`plan::Plan`] for one version. `suite` finds the files.

mod assertions;
pub mod bounds;
mod catalogue;
mod decode;
mod docs;
mod error;
mod events;
pub mod hooks;
mod json_schema;
mod load;
pub(crate) mod parts;
pub mod plain;
pub mod plan;
pub(crate) mod png;
mod record_kinds;
pub mod reply;
mod resolve;
mod rollout_steps;
mod rules_index;
mod said;
pub mod schema;
mod short_forms;
mod suite;
mod template;
mod texts;
pub(crate) mod tree;
mod validate;
pub mod values;
pub mod write;

#[cfg(test)]
mod tests;

pub use docs::format_markdown;
pub use error::{Mark, ScenarioError};
pub use json_schema::json_schema_text;
pub use load::{Loaded, SCENARIO_BYTES_MAX, VERSIONS, load_bytes, load_file, rule_ids};
pub use resolve::Resolved;
#[cfg(test)]
pub(crate) use rollout_steps::edit_rollout;
pub use rules_index::{RulesIndex, rules_index};
pub(crate) use said::quoted;
pub use suite::{Suite, SuiteError, SuiteFile};
pub use template::template;
