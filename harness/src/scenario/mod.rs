//! Scenarios: YAML files, their errors, and the plan a driver runs.

pub mod plan;
