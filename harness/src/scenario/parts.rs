//! Parts of a scenario one at a time, as plain values: for a session that is made while it runs.
//!
//! They become what the same text in a file would become: ids are numbered through all replies, so
//! the parts have to come in the order of the file.

use semver::Version;
use serde_json::Value;

use super::decode::decode;
use super::error::{Mark, Problem};
use super::events::Ids;
use super::plan::{Plan, PlanReply, PlanStep};
use super::reply::Reply;
use super::resolve::{self, Resolved};
use super::schema::{Scenario, Step};
use super::tree::{Key, Node, NodeKind};
use super::values::{Located, Many};

/// Where all parts stand: they have no file.
const NOWHERE: Mark = Mark { line: 1, column: 1 };

/// Reads the parts of one scenario for one version.
#[derive(Debug)]
pub(crate) struct Parts {
    version: Version,
    ids: Ids,
}

impl Parts {
    /// Nothing was read yet.
    pub(crate) fn new(version: Version) -> Self {
        let ids = Ids::default();
        Self { version, ids }
    }

    /// A scenario without steps.
    pub(crate) fn head(&self, scenario: &Value, id: &str) -> Result<Plan, String> {
        let scenario: Scenario = read(scenario)?;
        match resolve::plan(&scenario, id, &self.version).map_err(said)? {
            Resolved::Applicable(plan) => Ok(*plan),
            Resolved::NotApplicable(why) => Err(why),
        }
    }

    /// A step without replies, and its number from 1.
    pub(crate) fn step(step: &Value, number: usize) -> Result<PlanStep, String> {
        let step: Step = read(step)?;
        Ok(PlanStep {
            number,
            line: NOWHERE.line,
            action: resolve::action(&step)?,
            replies: Vec::new(),
            ends: None,
        })
    }

    /// The reply with a number from 1 of a step.
    pub(crate) fn reply(
        &mut self,
        reply: &Value,
        step: usize,
        number: usize,
    ) -> Result<PlanReply, String> {
        let reply: Reply = read(reply)?;
        let one = Many(vec![Located {
            at: NOWHERE,
            value: reply,
        }]);
        let made = resolve::replies(&one, step, &self.version, &mut self.ids).map_err(said)?;
        let made = made.into_iter().next().ok_or("it answers nothing")?;
        Ok(PlanReply {
            label: resolve::label(step, number),
            ..made
        })
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    decode(&node(value)).map_err(|problems| {
        let texts: Vec<String> = problems.into_iter().map(said).collect();
        format!("{}\n  in {value}", texts.join("; "))
    })
}

fn said(problem: Problem) -> String {
    problem.in_file("drawn", "").to_string()
}

fn node(value: &Value) -> Node {
    let kind = match value {
        Value::String(text) => NodeKind::Scalar {
            text: text.clone(),
            json: None,
        },
        Value::Array(items) => NodeKind::List(items.iter().map(node).collect()),
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| {
                let key = Key {
                    at: NOWHERE,
                    text: key.clone(),
                };
                (key, node(value))
            };
            NodeKind::Map(entries.iter().map(entry).collect())
        }
        typed => NodeKind::Scalar {
            text: typed.to_string(),
            json: Some(typed.clone()),
        },
    };
    Node { at: NOWHERE, kind }
}
