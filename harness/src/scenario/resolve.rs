//! A scenario for one version: every default filled in, ids numbered, generators run.

use semver::Version;
use serde_json::{Value, json};

use super::assertions::request;
use super::bounds::ATTEMPTS_MAX;
use super::error::{Mark, Problem, ScenarioError};
use super::events::{Built, Ids, actions, build};
use super::load::Loaded;
use super::plan::{
    Answers, ConfigSpec, Ends, Expect, ForkPoint, Gate, ModelSpec, Overrides, Plan, PlanReply,
    PlanStep, ReplyBody, ResumeStep, StepAction, StopKind, ToolSpec, Truncation, TruncationMode,
    TurnStatus, UserStep,
};
use super::reply::{Delivered, For, Reply};
use super::schema::{
    Config, EndsWith, HistoryMode, LimitScope, Model, ResumeBy, Scenario, Settings, Step, Stop,
    Window,
};
use super::texts::{expand, text, user_input};
use super::values::{Count, Located, Many, Ordered, version_range};

/// Window of a model that says nothing, in tokens.
const CONTEXT_WINDOW_DEFAULT: i64 = 100_000;
/// Truncation limit of a model that says nothing, in bytes.
const TRUNCATION_BYTES_DEFAULT: u64 = 10_000;
/// First version with instant interrupts, post-turn compaction and paginated history.
const SECOND_FAMILY: Version = Version::new(0, 164, 0);

/// A plan, or the reason why the scenario does not apply.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolved {
    /// What a driver runs.
    Applicable(Box<Plan>),
    /// Why this version is left out.
    NotApplicable(String),
}

impl Loaded {
    /// Resolves the scenario for one version.
    pub fn plan(&self, version: &Version) -> Result<Resolved, Box<ScenarioError>> {
        plan(&self.scenario, &self.id, version)
            .map_err(|problem| Box::new(problem.in_file(&self.file, &self.source)))
    }
}

/// Resolves `scenario` for `version`.
pub(super) fn plan(scenario: &Scenario, id: &str, version: &Version) -> Result<Resolved, Problem> {
    if let Some(range) = &scenario.versions
        && !applies(Some(&range.value), version).map_err(|what| Problem::new(range.at, what))?
    {
        let reason = scenario.reason.as_deref().unwrap_or("no reason given");
        return Ok(Resolved::NotApplicable(format!(
            "{} only: {reason}",
            range.value
        )));
    }
    let top = |what: String| Problem::new(Mark { line: 1, column: 1 }, what);
    let mut ids = Ids::default();
    let mut steps = Vec::new();
    for (index, step) in scenario.steps.0.iter().enumerate() {
        let number = index + 1;
        let action = action(&step.value).map_err(|what| Problem::new(step.at, what))?;
        let replies = replies(&step.value.replies, number, version, &mut ids)?;
        let ends = step.value.ends.as_ref().map(ends);
        steps.push(PlanStep {
            number,
            line: step.at.line,
            action,
            replies,
            ends,
        });
    }
    let files = scenario
        .files
        .0
        .iter()
        .map(|(path, content)| Ok((path.clone(), text(&content.value)?)));
    Ok(Resolved::Applicable(Box::new(Plan {
        id: id.to_owned(),
        models: models(&scenario.models).map_err(top)?,
        config: config(&scenario.config, version).map_err(top)?,
        tools: tools(&scenario.tools).map_err(top)?,
        files: files.collect::<Result<_, String>>().map_err(top)?,
        steps,
        expect: expect(scenario, version),
    })))
}

/// Whether a range, if there is one, holds this version.
pub(super) fn applies(range: Option<&String>, version: &Version) -> Result<bool, String> {
    range.map_or(Ok(true), |range| {
        version_range(range).map(|range| range.matches(version))
    })
}

fn models(written: &Ordered<Model>) -> Result<Vec<ModelSpec>, String> {
    if written.0.is_empty() {
        return Ok(vec![model("main", &Model::default())?]);
    }
    written
        .0
        .iter()
        .map(|(name, spec)| model(name, spec))
        .collect()
}

fn model(name: &str, spec: &Model) -> Result<ModelSpec, String> {
    let window = spec
        .context_window
        .map_or(Some(CONTEXT_WINDOW_DEFAULT), |Window(given)| given);
    let truncation = match spec.truncation {
        None => Truncation {
            mode: TruncationMode::Bytes,
            limit: TRUNCATION_BYTES_DEFAULT,
        },
        Some(limit) => match (limit.bytes, limit.tokens) {
            (Some(limit), None) => Truncation {
                mode: TruncationMode::Bytes,
                limit,
            },
            (None, Some(limit)) => Truncation {
                mode: TruncationMode::Tokens,
                limit,
            },
            _ => return Err(format!("model `{name}`: truncation is `bytes` or `tokens`")),
        },
    };
    let base = spec.base_instructions.as_ref().map(text).transpose()?;
    Ok(ModelSpec {
        name: name.to_owned(),
        context_window: window,
        max_context_window: spec
            .max_context_window
            .map_or(window, |Window(given)| given),
        effective_context_window_percent: spec.effective_context_window_percent.unwrap_or(95),
        auto_compact_token_limit: spec.auto_compact_token_limit,
        base_instructions: base.unwrap_or_else(|| "Be brief.".to_owned()),
        truncation,
        input_modalities: match &spec.input_modalities {
            Some(words) => words.0.iter().map(|word| word.value.clone()).collect(),
            None => vec!["text".to_owned()],
        },
        comp_hash: spec.comp_hash.clone(),
        supports_parallel_tool_calls: spec.supports_parallel_tool_calls.unwrap_or(false),
        supports_reasoning_summaries: spec.supports_reasoning_summaries.unwrap_or(false),
        default_reasoning_level: spec.default_reasoning_level.clone(),
        extra: plain(&spec.extra),
    })
}

/// Keys that a version does not know are left out for it: strict configuration would refuse them.
fn config(written: &Config, version: &Version) -> Result<ConfigSpec, String> {
    let later = *version >= SECOND_FAMILY;
    let scope = written
        .auto_compact_token_limit_scope
        .map(|scope| match scope {
            LimitScope::Total => "total".to_owned(),
            LimitScope::BodyAfterPrefix => "body_after_prefix".to_owned(),
        });
    let history = written.history_mode.map(|mode| match mode {
        HistoryMode::Legacy => "legacy".to_owned(),
        HistoryMode::Paginated => "paginated".to_owned(),
    });
    let sandbox = written
        .sandbox
        .map_or("danger-full-access", super::schema::Sandbox::as_str);
    let approval = written
        .approval
        .as_ref()
        .map_or("never", |approval| approval.value.as_str());
    Ok(ConfigSpec {
        provider_name: written
            .provider_name
            .clone()
            .unwrap_or_else(|| "mock".to_owned()),
        provider_path: written.provider_path.clone().unwrap_or_default(),
        request_max_retries: written.request_max_retries.map_or(0, |retries| retries.0),
        stream_max_retries: written.stream_max_retries.map_or(0, |retries| retries.0),
        stream_idle_timeout_ms: written.stream_idle_timeout_ms,
        unreachable: written.unreachable.unwrap_or(false),
        websockets: written.websockets.unwrap_or(false),
        environment_context: written.environment_context.unwrap_or(false),
        permissions_instructions: written.permissions_instructions.unwrap_or(false),
        project_doc: written.project_doc.unwrap_or(false),
        sandbox_mode: sandbox.to_owned(),
        approval_policy: approval.to_owned(),
        auto_compact_token_limit: written.auto_compact_token_limit,
        auto_compact_token_limit_scope: scope,
        context_window: written.context_window,
        post_turn_compact_threshold_percent: written
            .post_turn_compact_threshold_percent
            .filter(|_| later),
        compact_prompt: written.compact_prompt.as_ref().map(text).transpose()?,
        compact_prompt_file: written
            .compact_prompt_file
            .as_ref()
            .map(|file| text(&file.value))
            .transpose()?,
        tool_output_token_limit: written.tool_output_token_limit,
        developer_instructions: written
            .developer_instructions
            .as_ref()
            .map(text)
            .transpose()?,
        base_instructions: written.base_instructions.as_ref().map(text).transpose()?,
        instant_interrupt: written.instant_interrupt.filter(|_| later),
        history_mode: history.filter(|_| later),
        unbounded_connection_retries: written.unbounded_connection_retries.filter(|_| later),
        features: written.features.0.clone(),
        extra: plain(&written.extra),
        hooks: written.hooks.plan(),
        own_process: written.own_process.unwrap_or(false),
    })
}

fn tools(written: &Ordered<Ordered<Value>>) -> Result<Vec<ToolSpec>, String> {
    written
        .0
        .iter()
        .map(|(name, fields)| tool(name, &fields.0))
        .collect()
}

/// With `parameters` the mapping is the long form, otherwise parameter names and types.
fn tool(name: &str, fields: &[(String, Value)]) -> Result<ToolSpec, String> {
    let get = |key: &str| {
        fields
            .iter()
            .find(|(found, _)| found == key)
            .map(|(_, value)| value)
    };
    let Some(parameters) = get("parameters") else {
        let properties = fields.iter().map(|(parameter, kind)| {
            let known = matches!(
                kind.as_str(),
                Some("string" | "integer" | "number" | "boolean")
            );
            if known {
                Ok((parameter.clone(), json!({"type": kind})))
            } else {
                Err(format!(
                    "tool `{name}`: type of `{parameter}` is string, integer, number or \
                             boolean; use `parameters` for a full schema"
                ))
            }
        });
        let properties: serde_json::Map<String, Value> = properties.collect::<Result<_, _>>()?;
        let required: Vec<&String> = properties.keys().collect();
        let parameters = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        return Ok(ToolSpec {
            name: name.to_owned(),
            description: name.to_owned(),
            parameters,
            namespace: None,
            defer_loading: false,
        });
    };
    let valid = ["parameters", "description", "namespace", "defer_loading"];
    if let Some((key, _)) = fields
        .iter()
        .find(|(key, _)| !valid.contains(&key.as_str()))
    {
        return Err(format!(
            "tool `{name}`: unknown key `{key}`; valid: {}",
            valid.join(", ")
        ));
    }
    let string = |key: &str| get(key).and_then(Value::as_str).map(str::to_owned);
    Ok(ToolSpec {
        name: name.to_owned(),
        description: string("description").unwrap_or_else(|| name.to_owned()),
        parameters: parameters.clone(),
        namespace: string("namespace"),
        defer_loading: get("defer_loading")
            .and_then(Value::as_bool)
            .unwrap_or(false),
    })
}

fn client_context(step: &Step) -> Result<Vec<(String, bool, String)>, String> {
    let entries = step.client_context.0.iter();
    entries
        .map(
            |(name, entry)| match (&entry.untrusted, &entry.application) {
                (Some(value), None) => Ok((name.clone(), false, text(value)?)),
                (None, Some(value)) => Ok((name.clone(), true, text(value)?)),
                _ => Err(format!(
                    "`client_context.{name}` holds exactly one of `untrusted` and `application`"
                )),
            },
        )
        .collect()
}

pub(super) fn action(step: &Step) -> Result<StepAction, String> {
    if let Some(parts) = &step.user {
        let settings = Settings {
            model: step.model.clone(),
            effort: step.effort.clone(),
            summary: step.summary,
            cwd: step.cwd.clone(),
            sandbox: step.sandbox,
            approval: step.approval,
            service_tier: step.service_tier.clone(),
        };
        let output_schema = step.output_schema.clone();
        let overrides = Overrides {
            output_schema,
            ..overrides(&settings)
        };
        return Ok(StepAction::User(UserStep {
            input: user_input(parts)?,
            overrides,
            client_context: client_context(step)?,
            client_metadata: step.client_metadata.0.clone(),
            client_message_id: step.client_message_id.clone(),
        }));
    }
    if step.compact.is_some() {
        return Ok(StepAction::Compact);
    }
    if let Some(settings) = &step.settings {
        return Ok(StepAction::Settings(overrides(settings)));
    }
    if let Some(items) = &step.inject {
        let items = items.0.iter().map(|item| expand(&item.value));
        return items.collect::<Result<_, _>>().map(StepAction::Inject);
    }
    if let Some(stop) = step.stop {
        return Ok(StepAction::Stop(match stop {
            Stop::Eof => StopKind::Eof,
            Stop::Term => StopKind::Term,
            Stop::Kill => StopKind::Kill,
        }));
    }
    if let Some(resume) = &step.resume {
        return Ok(StepAction::Resume(match resume.by.unwrap_or_default() {
            ResumeBy::Id => ResumeStep::Id,
            ResumeBy::Path => ResumeStep::Path,
            ResumeBy::History => {
                let items = resume.history.iter().flatten().map(expand);
                ResumeStep::History(items.collect::<Result<_, _>>()?)
            }
        }));
    }
    if let Some(fork) = &step.fork {
        return Ok(StepAction::Fork(
            match (fork.value.through_turn, fork.value.before_turn) {
                (Some(turn), _) => ForkPoint::Through(turn),
                (None, Some(turn)) => ForkPoint::Before(turn),
                (None, None) => ForkPoint::Whole,
            },
        ));
    }
    if let Some(rollback) = &step.rollback {
        return Ok(StepAction::Rollback(rollback.value.turns));
    }
    if let Some(revert) = &step.revert {
        return Ok(StepAction::Revert(revert.value.before_turn));
    }
    if let Some(edit) = &step.edit_rollout {
        return edit.resolve().map(StepAction::EditRollout);
    }
    if let Some(storage) = &step.storage {
        return storage.resolve().map(StepAction::Storage);
    }
    Err("a step without an action".to_owned())
}

/// The actions that a step names.
pub(super) fn step_keys(step: &Step) -> Vec<&'static str> {
    [
        ("user", step.user.is_some()),
        ("compact", step.compact.is_some()),
        ("settings", step.settings.is_some()),
        ("inject", step.inject.is_some()),
        ("stop", step.stop.is_some()),
        ("resume", step.resume.is_some()),
        ("edit_rollout", step.edit_rollout.is_some()),
        ("fork", step.fork.is_some()),
        ("rollback", step.rollback.is_some()),
        ("revert", step.revert.is_some()),
        ("storage", step.storage.is_some()),
    ]
    .into_iter()
    .filter_map(|(key, is_there)| is_there.then_some(key))
    .collect()
}

/// Settings in plan form.
pub(super) fn overrides(settings: &Settings) -> Overrides {
    Overrides {
        model: settings.model.clone(),
        effort: settings.effort.clone(),
        summary: settings.summary.map(|summary| summary.as_str().to_owned()),
        cwd: settings.cwd.as_ref().map(|below| below.0.clone()),
        sandbox: settings.sandbox.map(|sandbox| sandbox.as_str().to_owned()),
        approval: settings
            .approval
            .map(|approval| approval.as_str().to_owned()),
        output_schema: None,
        service_tier: settings.service_tier.clone(),
    }
}

fn ends(written: &EndsWith) -> Ends {
    match written {
        EndsWith::Completed => Ends {
            status: TurnStatus::Completed,
            message: None,
        },
        EndsWith::Interrupted => Ends {
            status: TurnStatus::Interrupted,
            message: None,
        },
        EndsWith::Failed(message) => Ends {
            status: TurnStatus::Failed,
            message: message.clone(),
        },
    }
}

pub(super) fn replies(
    written: &Many<Reply>,
    step: usize,
    version: &Version,
    ids: &mut Ids,
) -> Result<Vec<PlanReply>, Problem> {
    let mut kept = Vec::new();
    for (index, reply) in written.0.iter().enumerate() {
        let placed = |what: String| Problem::new(reply.at, what);
        let built = build(&reply.value, ids).map_err(placed)?;
        let range = reply.value.versions.as_ref().map(|range| &range.value);
        let attempts = match &reply.value.attempts {
            None => 1,
            Some(count) => attempts(count, version).map_err(placed)?,
        };
        if applies(range, version).map_err(placed)? && attempts > 0 {
            let label = label(step, index + 1);
            let made = plan_reply(&reply.value, built, version).map_err(placed)?;
            kept.push(PlanReply {
                label,
                line: reply.at.line,
                attempts,
                ..made
            });
        }
    }
    Ok(kept)
}

/// How a reply is called in findings.
pub(super) fn label(step: usize, reply: usize) -> String {
    format!("step {step} reply {reply}")
}

fn plain(keys: &Ordered<Located<Value>>) -> Vec<(String, Value)> {
    let keys = keys.0.iter();
    keys.map(|(key, value)| (key.clone(), value.value.clone()))
        .collect()
}

/// Requests that a reply answers on a version; none where its numbers do not name the version.
fn attempts(count: &Count, version: &Version) -> Result<u32, String> {
    let attempts = count.on(version).unwrap_or(0);
    if attempts > ATTEMPTS_MAX {
        return Err(format!(
            "`attempts: {attempts}` is more than {ATTEMPTS_MAX}"
        ));
    }
    Ok(attempts as u32)
}

fn plan_reply(reply: &Reply, built: Built, version: &Version) -> Result<PlanReply, String> {
    let handshake = reply
        .fault
        .as_ref()
        .is_some_and(|fault| fault.handshake.is_some());
    let answers = match &reply.answers {
        _ if handshake => Answers::Handshake,
        None => Answers::Turn,
        Some(For::Prewarm) => Answers::Prewarm,
        Some(For::Compaction(asked)) => Answers::Compaction {
            implementation: asked.compaction.as_str().to_owned(),
            phase: asked.phase.map(|phase| phase.as_str().to_owned()),
            reason: asked.reason.map(|reason| reason.as_str().to_owned()),
            model: asked.model.clone(),
        },
    };
    let gate = match &reply.gate {
        None => None,
        Some(gate) => {
            if let ReplyBody::Stream { events, .. } = &built.body
                && gate.after_events >= events.len()
            {
                return Err(format!(
                    "the gate is behind the {} events of this reply: with the last one the response \
                     ends, and the client acts or not as it happens",
                    events.len()
                ));
            }
            let actions = actions(&gate.actions)?;
            Some(Gate {
                after_events: gate.after_events,
                actions,
            })
        }
    };
    let delivered_cut = match &reply.delivered {
        None => false,
        Some(Delivered::Cut) => true,
        Some(Delivered::CutOn(range)) => range.matches(version),
    };
    let unknown = reply
        .answer_order
        .iter()
        .flatten()
        .find(|id| !built.call_ids.contains(id));
    if let Some(id) = unknown {
        let ids = built.call_ids.join(", ");
        return Err(format!(
            "`answer_order` names `{id}`; the calls of this reply: {ids}"
        ));
    }
    Ok(PlanReply {
        label: String::new(),
        line: 0,
        answers,
        attempts: 1,
        body: built.body,
        gate,
        delivered_cut,
        tool_answers: built.answers,
        answer_order: reply
            .answer_order
            .clone()
            .filter(|_| *version >= SECOND_FAMILY),
        request: request(reply, version)?,
    })
}

fn expect(scenario: &Scenario, version: &Version) -> Expect {
    let Some(written) = &scenario.expect else {
        return Expect::default();
    };
    let rollout = written.rollout.0.iter();
    Expect {
        requests: written
            .requests
            .as_ref()
            .and_then(|count| count.on(version)),
        compacted: written
            .compacted
            .as_ref()
            .and_then(|count| count.on(version)),
        rollout: rollout
            .filter_map(|(record, count)| Some((record.clone(), count.on(version)?)))
            .collect(),
    }
}
