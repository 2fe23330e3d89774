//! The small plans on which a binary says its fixed texts.

use serde_json::{Value, json};

use crate::scenario::plan::{
    Action, Answers, ConfigSpec, Ending, Ends, Expect, Gate, ModelSpec, Overrides, Plan, PlanReply,
    PlanStep, ReplyBody, ResumeStep, StepAction, StopKind, Truncation, TruncationMode, TurnStatus,
    UserStep,
};

/// The summary that the plan scripts; the prefix is what stands before it.
pub(super) const SUMMARY: &str = "calibration summary";
/// Budget of the plan's session, in tokens; its last response alone uses it up.
const BUDGET: u64 = 50_000;

/// Every plan.
pub(super) fn all() -> [Plan; 4] {
    [plan(), reminder_plan(), permissions_plan(), resume_plan()]
}

/// A compaction, a change of the sandbox, an interrupted turn, a response that the content filter
/// stopped, asked again and answered by another model, a change of the model, and a response that
/// uses up the session's budget.
fn plan() -> Plan {
    let read_only = Overrides {
        sandbox: Some("read-only".to_owned()),
        ..Overrides::default()
    };
    let user = |text: &str, overrides: Overrides| {
        StepAction::User(UserStep {
            input: vec![json!({"type": "text", "text": text})],
            overrides,
            ..UserStep::default()
        })
    };
    let mut summary = say("summary", SUMMARY);
    summary.answers = Answers::Compaction {
        implementation: "local".to_owned(),
        phase: None,
        reason: None,
        model: None,
    };
    let mut held = say("held", "three");
    held.gate = Some(Gate {
        after_events: 1,
        actions: vec![Action::Interrupt],
    });
    let mut interrupted = step(4, user("three", Overrides::default()), held);
    interrupted.ends = Some(Ends {
        status: TurnStatus::Interrupted,
        message: None,
    });
    let mut filtered = step(6, user("five", Overrides::default()), filtered());
    let mut rerouted = say("five", "five");
    if let ReplyBody::Stream { headers, .. } = &mut rerouted.body {
        headers.push(("openai-model".to_owned(), "another-model".to_owned()));
    }
    filtered.replies.push(rerouted);
    let other = Overrides {
        model: Some("other".to_owned()),
        ..Overrides::default()
    };
    let switched = step(7, user("six", other), say("six", "six"));
    let mut last = step(
        8,
        user("seven", Overrides::default()),
        reply("seven", answer("seven", BUDGET)),
    );
    last.ends = Some(Ends {
        status: TurnStatus::Failed,
        message: None,
    });
    let budget = json!({"enabled": true, "limit_tokens": BUDGET,
        "reminder_at_remaining_tokens": [1]});
    Plan {
        id: "calibration".to_owned(),
        models: vec![model("main"), model("other")],
        config: ConfigSpec {
            stream_max_retries: 1,
            permissions_instructions: true,
            features: vec![("rollout_budget".to_owned(), budget)],
            ..ConfigSpec::default()
        },
        tools: Vec::new(),
        files: Vec::new(),
        steps: vec![
            step(1, user("one", Overrides::default()), say("one", "one")),
            step(2, StepAction::Compact, summary),
            step(3, user("two", read_only), say("two", "two")),
            interrupted,
            step(5, user("four", Overrides::default()), say("four", "four")),
            filtered,
            switched,
            last,
        ],
        expect: Expect::default(),
    }
}

/// A turn that leaves few tokens of a token budget: the next one sends the reminder.
fn reminder_plan() -> Plan {
    let user = |text: &str| {
        StepAction::User(UserStep {
            input: vec![json!({"type": "text", "text": text})],
            ..UserStep::default()
        })
    };
    let budget = json!({"enabled": true, "reminder_threshold_tokens": BUDGET});
    Plan {
        id: "calibration of the reminder".to_owned(),
        models: vec![model("main")],
        config: ConfigSpec {
            features: vec![("token_budget".to_owned(), budget)],
            ..ConfigSpec::default()
        },
        tools: Vec::new(),
        files: Vec::new(),
        steps: vec![
            step(1, user("one"), reply("one", answer("one", BUDGET))),
            step(2, user("two"), say("two", "two")),
        ],
        expect: Expect::default(),
    }
}

/// A turn with each approval policy, in a sandbox that the other plans have not.
fn permissions_plan() -> Plan {
    let turn = |number: usize, approval: &str| {
        let action = StepAction::User(UserStep {
            input: vec![json!({"type": "text", "text": approval})],
            overrides: Overrides {
                sandbox: Some("workspace-write".to_owned()),
                approval: Some(approval.to_owned()),
                ..Overrides::default()
            },
            ..UserStep::default()
        });
        step(number, action, say(approval, "yes"))
    };
    Plan {
        id: "calibration of the permissions".to_owned(),
        models: vec![model("main")],
        config: ConfigSpec {
            permissions_instructions: true,
            ..ConfigSpec::default()
        },
        tools: Vec::new(),
        files: Vec::new(),
        steps: vec![
            turn(1, "on-request"),
            turn(2, "untrusted"),
            turn(3, "never"),
        ],
        expect: Expect::default(),
    }
}

/// A service tier that the model lacks, and a resume with another model than that of the last turn.
fn resume_plan() -> Plan {
    let user = |text: &str| {
        StepAction::User(UserStep {
            input: vec![json!({"type": "text", "text": text})],
            ..UserStep::default()
        })
    };
    let bare = |number, action| PlanStep {
        replies: Vec::new(),
        ..step(number, action, say("none", "none"))
    };
    let other = Overrides {
        model: Some("other".to_owned()),
        ..Overrides::default()
    };
    Plan {
        id: "calibration of a resume".to_owned(),
        models: vec![model("main"), model("other")],
        config: ConfigSpec {
            extra: vec![("service_tier".to_owned(), json!("priority"))],
            own_process: true,
            ..ConfigSpec::default()
        },
        tools: Vec::new(),
        files: Vec::new(),
        steps: vec![
            step(1, user("one"), say("one", "one")),
            bare(2, StepAction::Settings(other)),
            bare(3, StepAction::Stop(StopKind::Eof)),
            bare(4, StepAction::Resume(ResumeStep::Id)),
            step(5, user("two"), say("two", "two")),
        ],
        expect: Expect::default(),
    }
}

fn model(name: &str) -> ModelSpec {
    ModelSpec {
        name: name.to_owned(),
        context_window: Some(100_000),
        max_context_window: Some(100_000),
        effective_context_window_percent: 95,
        auto_compact_token_limit: None,
        base_instructions: "Be brief.".to_owned(),
        truncation: Truncation {
            mode: TruncationMode::Bytes,
            limit: 10_000,
        },
        input_modalities: vec!["text".to_owned()],
        comp_hash: None,
        supports_parallel_tool_calls: false,
        supports_reasoning_summaries: false,
        default_reasoning_level: None,
        extra: Vec::new(),
    }
}

fn step(number: usize, action: StepAction, reply: PlanReply) -> PlanStep {
    PlanStep {
        number,
        line: 0,
        action,
        replies: vec![reply],
        ends: None,
    }
}

/// A response that the content filter stopped.
fn filtered() -> PlanReply {
    let details = json!({"reason": "content_filter"});
    let response = json!({"id": "resp_1", "incomplete_details": details});
    let events = vec![json!({"type": "response.incomplete", "response": response})];
    reply("filtered", events)
}

fn say(label: &str, text: &str) -> PlanReply {
    reply(label, answer(text, 100))
}

fn answer(text: &str, input_tokens: u64) -> Vec<Value> {
    let item = json!({"type": "message", "role": "assistant", "id": "msg_1",
        "content": [{"type": "output_text", "text": text}]});
    let usage = json!({"input_tokens": input_tokens, "input_tokens_details": null,
        "output_tokens": 0, "output_tokens_details": null, "total_tokens": input_tokens});
    vec![
        json!({"type": "response.created", "response": {"id": "resp_1"}}),
        json!({"type": "response.output_item.done", "item": item}),
        json!({"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}),
    ]
}

fn reply(label: &str, events: Vec<Value>) -> PlanReply {
    PlanReply {
        label: label.to_owned(),
        line: 0,
        answers: Answers::Turn,
        attempts: 1,
        body: ReplyBody::Stream {
            headers: Vec::new(),
            events,
            ending: Ending::Complete,
        },
        gate: None,
        delivered_cut: false,
        tool_answers: Vec::new(),
        answer_order: None,
        request: None,
    }
}
