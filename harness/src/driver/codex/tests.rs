//! The driver on every real version: a hand-made plan against what the facts say.

mod shared;

use serde_json::{Value, json};

use super::{CodexDriver, Source, slug};
use crate::driver::{Driver as _, Outcome};
use crate::recording::ClientEvent;
use crate::scenario::plan::{
    Action, Answers, ConfigSpec, Ending, Ends, Expect, Gate, ModelSpec, Overrides, Plan, PlanReply,
    PlanStep, ReplyBody, ResumeStep, StepAction, StopKind, ToolAnswer, ToolSpec, Truncation,
    TruncationMode, TurnStatus, UserStep,
};

const VERSIONS: [&str; 3] = ["0.144.6", "0.164.0", "0.171.0"];

fn model(name: &str) -> ModelSpec {
    ModelSpec {
        name: name.into(),
        context_window: Some(100_000),
        max_context_window: Some(100_000),
        effective_context_window_percent: 95,
        auto_compact_token_limit: Some(90_000),
        base_instructions: "Be brief.".into(),
        truncation: Truncation {
            mode: TruncationMode::Bytes,
            limit: 10_000,
        },
        input_modalities: vec!["text".into()],
        comp_hash: None,
        supports_parallel_tool_calls: false,
        supports_reasoning_summaries: false,
        default_reasoning_level: None,
        extra: vec![],
    }
}

fn message(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "id": "msg_1",
        "content": [{"type": "output_text", "text": text}]})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "lookup",
        "arguments": "{\"path\":\"README.md\"}"})
}

fn reply(label: &str, items: &[Value], usage: i64) -> PlanReply {
    let mut events = vec![json!({"type": "response.created", "response": {"id": "resp_1"}})];
    for item in items {
        events.push(json!({"type": "response.output_item.done", "item": item}));
    }
    let usage = json!({"input_tokens": usage, "input_tokens_details": null, "output_tokens": 0,
        "output_tokens_details": null, "total_tokens": usage});
    let response = json!({"id": "resp_1", "usage": usage});
    events.push(json!({"type": "response.completed", "response": response}));
    PlanReply {
        label: label.into(),
        line: 0,
        answers: Answers::Turn,
        attempts: 1,
        body: ReplyBody::Stream {
            headers: vec![],
            events,
            ending: Ending::Complete,
        },
        gate: None,
        delivered_cut: false,
        tool_answers: vec![],
        answer_order: None,
        request: None,
    }
}

fn local(mut reply: PlanReply, phase: &str) -> PlanReply {
    reply.answers = Answers::Compaction {
        implementation: "local".into(),
        phase: Some(phase.into()),
        reason: None,
        model: Some("main".into()),
    };
    reply
}

fn answer(call_id: &str, text: &str, while_running: Vec<Action>) -> ToolAnswer {
    ToolAnswer {
        call_id: call_id.into(),
        while_running,
        content: vec![json!({"type": "inputText", "text": text})],
        success: true,
        rpc_error: false,
    }
}

fn parts(text: &str) -> Vec<Value> {
    vec![json!({"type": "text", "text": text})]
}

fn user(text: &str) -> StepAction {
    StepAction::User(UserStep {
        input: parts(text),
        ..UserStep::default()
    })
}

fn plan(id: &str, steps: Vec<(StepAction, Vec<PlanReply>)>) -> Plan {
    let steps = steps.into_iter().enumerate();
    Plan {
        id: id.into(),
        models: vec![model("main")],
        config: ConfigSpec::default(),
        tools: vec![ToolSpec {
            name: "lookup".into(),
            description: "look up".into(),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}},
                "required": ["path"], "additionalProperties": false}),
            namespace: None,
            defer_loading: false,
        }],
        files: vec![],
        steps: steps
            .map(|(place, (action, replies))| PlanStep {
                number: place + 1,
                line: place + 1,
                action,
                replies,
                ends: None,
            })
            .collect(),
        expect: Expect::default(),
    }
}

/// One tool call, a steer inside it, and a compaction before the next turn.
fn steer_and_compact() -> Plan {
    let mut first = reply("step 1 reply 1", &[call("call_1")], 1_000);
    first.tool_answers = vec![answer(
        "call_1",
        "absent",
        vec![Action::Steer(parts("Hurry"))],
    )];
    plan(
        "steer_and_compact",
        vec![
            (
                user("Create it"),
                vec![first, reply("step 1 reply 2", &[message("Done.")], 95_000)],
            ),
            (
                user("Again"),
                vec![
                    local(
                        reply("step 2 reply 1", &[message("So far.")], 200),
                        "pre_turn",
                    ),
                    reply("step 2 reply 2", &[message("Fine.")], 300),
                ],
            ),
        ],
    )
}

/// Two calls answered in the reverse order (the newer versions run calls together).
fn parallel() -> Plan {
    let mut first = reply("step 1 reply 1", &[call("call_1"), call("call_2")], 1_000);
    first.tool_answers = vec![
        answer("call_1", "one", vec![]),
        answer("call_2", "two", vec![]),
    ];
    first.answer_order = Some(vec!["call_2".into(), "call_1".into()]);
    let second = reply("step 1 reply 2", &[message("Done.")], 2_000);
    plan("parallel", vec![(user("Both"), vec![first, second])])
}

/// A steer at a gate, then an interrupt at a gate.
fn gates() -> Plan {
    let gate = |actions| {
        Some(Gate {
            after_events: 2,
            actions,
        })
    };
    let mut steered = reply("step 1 reply 1", &[message("One."), message("Two.")], 1_000);
    steered.gate = gate(vec![Action::Steer(parts("Hurry"))]);
    let mut stopped = reply(
        "step 2 reply 1",
        &[message("Three."), message("Four.")],
        1_000,
    );
    stopped.gate = gate(vec![Action::Interrupt]);
    let mut plan = plan(
        "gates",
        vec![
            (
                user("a"),
                vec![steered, reply("step 1 reply 2", &[message("Five.")], 1_000)],
            ),
            (user("b"), vec![stopped]),
            (
                user("c"),
                vec![reply("step 3 reply 1", &[message("Six.")], 1_000)],
            ),
        ],
    );
    plan.steps[1].ends = Some(Ends {
        status: TurnStatus::Interrupted,
        message: None,
    });
    plan
}

/// A cut stream with one retry, an HTTP error, and a dropped connection.
fn faults() -> Plan {
    let mut cut = reply("step 1 reply 1", &[message("One.")], 1_000);
    if let ReplyBody::Stream { ending, .. } = &mut cut.body {
        *ending = Ending::Cut { after_events: 1 };
    }
    let mut refused = reply("step 2 reply 1", &[], 0);
    refused.body = ReplyBody::Http {
        status: 400,
        headers: vec![],
        body: "{\"error\":\"no\"}".into(),
    };
    let mut dropped = reply("step 3 reply 1", &[], 0);
    dropped.body = ReplyBody::DropConnection;
    let mut plan = plan(
        "faults",
        vec![
            (
                user("a"),
                vec![cut, reply("step 1 reply 2", &[message("Two.")], 1_000)],
            ),
            (user("b"), vec![refused]),
            (
                user("c"),
                vec![
                    dropped,
                    reply("step 3 reply 2", &[message("Three.")], 1_000),
                ],
            ),
        ],
    );
    plan.config.stream_max_retries = 1;
    plan.steps[1].ends = Some(Ends {
        status: TurnStatus::Failed,
        message: Some("error".into()),
    });
    plan
}

/// A process that ends, and three ways to resume.
fn resumes() -> Plan {
    let turn = |number: usize| {
        let label = format!("step {number} reply 1");
        (
            user("Go on"),
            vec![reply(&label, &[message("Done.")], 1_000)],
        )
    };
    let item = json!({"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": "Supplied."}]});
    plan(
        "resumes",
        vec![
            turn(1),
            (StepAction::Stop(StopKind::Eof), vec![]),
            (StepAction::Resume(ResumeStep::Id), vec![]),
            turn(4),
            (StepAction::Stop(StopKind::Kill), vec![]),
            (StepAction::Resume(ResumeStep::Path), vec![]),
            turn(7),
            (StepAction::Stop(StopKind::Term), vec![]),
            (StepAction::Resume(ResumeStep::History(vec![item])), vec![]),
            turn(10),
        ],
    )
}

async fn run(version: &str, plans: &[Plan]) -> Vec<Outcome> {
    let source = Source::Version(version.into());
    let driver = CodexDriver::new(&source, plans, 4).await.expect("a driver");
    let mut outcomes = Vec::new();
    for plan in plans {
        let outcome = driver.run(plan).await.expect("a verdict");
        assert_eq!(outcome.findings, [], "{version} {}", plan.id);
        outcomes.push(outcome);
    }
    driver.close().await;
    outcomes
}

/// What the items of a request say, without base instructions.
fn inputs(outcome: &Outcome) -> Vec<Vec<String>> {
    let text = |item: &Value| {
        let shown = [
            item.pointer("/content/0/text"),
            item.get("output"),
            item.get("call_id"),
        ];
        shown
            .into_iter()
            .flatten()
            .next()
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    outcome
        .recording
        .journal
        .iter()
        .map(|exchange| {
            let body: Value = serde_json::from_slice(&exchange.body).expect("JSON");
            let items = body["input"].as_array().expect("a list").iter();
            items
                .filter(|item| item["role"] != "developer")
                .map(text)
                .collect()
        })
        .collect()
}

#[tokio::test]
#[ignore = "needs a real binary: run by cargo xtask ci"]
async fn a_steer_inside_a_tool_and_a_pre_turn_compaction_on_every_version() {
    for version in VERSIONS {
        let outcome = run(version, &[steer_and_compact()]).await.remove(0);
        let prefix = engine::texts::SUMMARY_PREFIX;
        let summary = format!("{prefix}\nSo far.");
        let prompt = engine::texts::COMPACTION_PROMPT;
        assert_eq!(
            inputs(&outcome),
            [
                vec!["Create it"],
                vec!["Create it", "call_1", "absent", "Hurry"],
                vec!["Create it", "call_1", "absent", "Hurry", "Done.", prompt],
                vec!["Create it", "Hurry", &summary, "Again"],
            ],
            "{version}"
        );
        let recording = &outcome.recording;
        assert_eq!(recording.rollouts.len(), 1);
        assert!(
            recording.rollouts[0]
                .text
                .contains("\"type\":\"compacted\""),
            "{version}"
        );
        let ended = recording.events.iter().filter(
            |event| matches!(event, ClientEvent::TurnEnded { status, .. } if status == "completed"),
        );
        assert_eq!(ended.count(), 2, "{version}");
        assert_eq!(
            recording.places.models,
            [(slug(&model("main")), "main".to_owned())]
        );
    }
}

#[tokio::test]
#[ignore = "needs a real binary: run by cargo xtask ci"]
async fn gates_faults_and_resumes_on_every_version() {
    for version in VERSIONS {
        // Races show only when a thing is done often.
        let many = vec![gates(); 8];
        for outcome in run(version, &many).await {
            assert_eq!(outcome.recording.journal.len(), 4, "{version}");
            let dropped = !inputs(&outcome)[1].contains(&"Two.".to_owned());
            assert_eq!(dropped, version != "0.144.6", "{version}");
        }
        let outcomes = run(version, &[gates(), faults(), resumes()]).await;
        let requests: Vec<usize> = outcomes
            .iter()
            .map(|outcome| outcome.recording.journal.len())
            .collect();
        assert_eq!(requests, [4, 5, 4], "{version}");
        let gates = inputs(&outcomes[0]);
        // The newer versions drop the stream at once; the older one reads it to its end.
        let second: &[&str] = if version == "0.144.6" {
            &["a", "One.", "Two.", "Hurry"]
        } else {
            &["a", "One.", "Hurry"]
        };
        assert_eq!(gates[1], second, "{version}");
        assert!(
            gates[3].contains(&engine::texts::TURN_ABORTED.to_owned()),
            "{version}"
        );
        let resumed = inputs(&outcomes[2]);
        assert_eq!(resumed[2].len(), 5, "{version}: {resumed:?}");
        assert_eq!(resumed[3], ["Supplied.", "Go on"], "{version}");
        assert_eq!(outcomes[2].recording.rollouts.len(), 2, "{version}");
    }
}

#[tokio::test]
#[ignore = "needs a real binary: run by cargo xtask ci"]
async fn calls_are_answered_in_the_order_of_the_plan() {
    for version in &VERSIONS[1..] {
        let outcome = run(version, &[parallel()]).await.remove(0);
        let ended: Vec<&str> = outcome
            .recording
            .events
            .iter()
            .filter_map(|event| match event {
                ClientEvent::ItemCompleted { kind, id, .. } if kind == "dynamicToolCall" => {
                    Some(id.as_str())
                }
                _ => None,
            })
            .collect();
        assert_eq!(ended, ["call_2", "call_1"], "{version}");
        assert_eq!(
            inputs(&outcome)[1],
            ["Both", "call_1", "call_2", "one", "two"],
            "{version}"
        );
    }
}

#[tokio::test(flavor = "current_thread")]
#[ignore = "needs a real binary: run by cargo xtask ci"]
async fn cases_share_one_process_at_the_same_time() {
    let plans: Vec<Plan> = (0..12)
        .map(|number| {
            let mut plan = steer_and_compact();
            plan.id = format!("{number}");
            plan
        })
        .collect();
    for version in VERSIONS {
        let source = Source::Version(version.into());
        let driver = CodexDriver::new(&source, &plans, 4)
            .await
            .expect("a driver");
        let runs = plans.iter().map(|plan| driver.run(plan));
        let start = std::time::Instant::now();
        for outcome in futures_util::future::join_all(runs).await {
            let outcome = outcome.expect("a verdict");
            assert_eq!(outcome.findings, [], "{version}");
            assert_eq!(outcome.recording.journal.len(), 4, "{version}");
        }
        eprintln!("{version}: 12 cases in {:?}", start.elapsed());
        driver.close().await;
    }
}

#[tokio::test]
#[ignore = "needs a real binary: run by cargo xtask ci"]
async fn what_the_script_did_not_foresee_is_found() {
    let mut plan = steer_and_compact();
    plan.steps[1].replies.remove(0);
    plan.steps[0].replies[0].tool_answers.clear();
    let source = Source::Version("0.171.0".into());
    let driver = CodexDriver::new(&source, &[], 1).await.expect("a driver");
    let outcome = driver.run(&plan).await.expect("a verdict");
    let ids: Vec<&str> = outcome
        .findings
        .iter()
        .map(|finding| finding.id.as_str())
        .collect();
    assert_eq!(
        ids,
        [
            "script.unanswered_call",
            "step.ends",
            "script.wrong_kind",
            "script.unused_reply"
        ]
    );
    driver.close().await;
}

/// Every setting that reaches a thread.
fn settings() -> Plan {
    let mut other = model("other");
    other.auto_compact_token_limit = None;
    let mut first = reply("step 1 reply 1", &[call("call_1")], 1_000);
    first.tool_answers = vec![answer("call_1", &"x".repeat(5_000), vec![])];
    let switched = StepAction::User(UserStep {
        input: parts("Switch"),
        overrides: Overrides {
            model: Some("other".into()),
            effort: Some("high".into()),
            cwd: Some("sub".into()),
            sandbox: Some("read-only".into()),
            ..Overrides::default()
        },
        ..UserStep::default()
    });
    let inject = json!({"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": engine::texts::SUMMARY_PREFIX}]});
    let mut plan = plan(
        "settings",
        vec![
            (
                user("a"),
                vec![first, reply("step 1 reply 2", &[message("One.")], 1_000)],
            ),
            (StepAction::Inject(vec![inject]), vec![]),
            (
                switched,
                vec![reply("step 3 reply 1", &[message("Two.")], 50_000)],
            ),
            (
                user("c"),
                vec![
                    reply("step 4 reply 1", &[message("Sum.")], 200),
                    reply("step 4 reply 2", &[message("Three.")], 300),
                ],
            ),
        ],
    );
    plan.steps[3].replies[0].answers = Answers::Compaction {
        implementation: "remote_v2".into(),
        phase: Some("pre_turn".into()),
        reason: None,
        model: Some("other".into()),
    };
    if let ReplyBody::Stream { events, .. } = &mut plan.steps[3].replies[0].body {
        events[1]["item"] = json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "E"});
    }
    plan.models.push(other);
    plan.files = vec![
        ("AGENTS.md".into(), "Be careful.".into()),
        ("sub/AGENTS.md".into(), "Here too.".into()),
    ];
    plan.config = ConfigSpec {
        provider_name: "OpenAI".into(),
        environment_context: true,
        permissions_instructions: true,
        project_doc: true,
        auto_compact_token_limit: Some(40_000),
        context_window: Some(80_000),
        tool_output_token_limit: Some(1_000),
        developer_instructions: Some("Mind the gap.".into()),
        base_instructions: Some("Be very brief.".into()),
        instant_interrupt: Some(false),
        ..ConfigSpec::default()
    };
    plan
}

/// Ids, times and places out of a body.
fn blurred(outcome: &Outcome) -> Vec<String> {
    let places = &outcome.recording.places;
    outcome
        .recording
        .journal
        .iter()
        .map(|exchange| {
            let mut body: Value = serde_json::from_slice(&exchange.body).expect("JSON");
            body["client_metadata"].take();
            body["prompt_cache_key"].take();
            for item in body["input"].as_array_mut().into_iter().flatten() {
                item["id"].take();
                item["internal_chat_message_metadata_passthrough"].take();
            }
            body.to_string().replace(&places.workspace, "<cwd>")
        })
        .collect()
}

#[tokio::test]
#[ignore = "needs a real binary: run by cargo xtask ci"]
async fn settings_of_a_thread_and_of_a_process_give_the_same_requests() {
    for version in VERSIONS {
        let shared = settings();
        let mut own = settings();
        own.config.own_process = true;
        let outcomes = run(version, &[shared, own]).await;
        let (shared, own) = (blurred(&outcomes[0]), blurred(&outcomes[1]));
        assert_eq!(shared.len(), 5, "{version}");
        for (number, (shared, own)) in shared.iter().zip(&own).enumerate() {
            assert_eq!(shared, own, "{version} request {number}");
        }
        for said in [
            "Be very brief.",
            "Mind the gap.",
            "Be careful.",
            "<permissions instructions>",
        ] {
            assert!(shared[0].contains(said), "{version}: {said}: {}", shared[0]);
        }
        assert!(shared[1].contains(" truncated…"), "{version}");
        assert!(
            shared[2].contains("Earlier calls") && shared[2].contains("<cwd>/sub"),
            "{version}"
        );
        assert!(shared[3].contains("compaction_trigger"), "{version}");
    }
}

#[tokio::test]
#[ignore = "needs a real binary: run by cargo xtask ci"]
async fn a_stall_ends_by_the_idle_limit_and_a_local_build_runs() {
    let mut stalled = reply("step 1 reply 1", &[message("One.")], 1_000);
    if let ReplyBody::Stream { ending, .. } = &mut stalled.body {
        *ending = Ending::Stall { after_events: 1 };
    }
    stalled.delivered_cut = true;
    let mut plan = plan("stall", vec![(user("a"), vec![stalled])]);
    plan.config.stream_idle_timeout_ms = Some(300);
    plan.steps[0].ends = Some(Ends {
        status: TurnStatus::Failed,
        message: Some("idle timeout".into()),
    });
    let path = super::install::ensure("0.171.0").expect("a binary").path;
    let driver = CodexDriver::new(&Source::Path(path), &[], 1)
        .await
        .expect("a driver");
    let outcome = driver.run(&plan).await.expect("a verdict");
    assert_eq!(outcome.findings, []);
    assert!(driver.subject().starts_with("codex@/"));
    driver.close().await;
}

#[tokio::test]
#[ignore = "needs a real binary: run by cargo xtask ci"]
async fn a_plan_may_begin_with_a_supplied_history() {
    let item = json!({"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": "Supplied."}]});
    let steps = vec![
        (StepAction::Resume(ResumeStep::History(vec![item])), vec![]),
        (
            user("Go on"),
            vec![reply("step 2 reply 1", &[message("Done.")], 1_000)],
        ),
    ];
    for version in VERSIONS {
        let outcome = run(version, &[plan("history", steps.clone())])
            .await
            .remove(0);
        assert_eq!(inputs(&outcome), [["Supplied.", "Go on"]], "{version}");
    }
}

/// Runs another test of this file in a process of its own and kills that process.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs a real binary: run by cargo xtask ci"]
fn a_killed_harness_leaves_no_process() {
    use std::time::{Duration, Instant};
    /// Longest wait for the child of the child, and for its end.
    const WAIT_MAX: Duration = Duration::from_secs(10);
    let poll = |what: &str, done: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < WAIT_MAX, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut harness = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--include-ignored",
            "cases_share_one_process_at_the_same_time",
        ])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    let id = harness.id();
    let children = || {
        let tasks = std::fs::read_dir(format!("/proc/{id}/task"))
            .into_iter()
            .flatten()
            .flatten();
        tasks
            .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
            .flat_map(|list| {
                list.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect::<Vec<String>>()
    };
    poll("no codex was started", &|| !children().is_empty());
    let codex = children().remove(0);
    harness.kill().expect("SIGKILL");
    harness.wait().expect("gone");
    // A zombie that nobody collects has ended too: it has no command line any more.
    poll("codex outlived the harness", &|| {
        std::fs::read(format!("/proc/{codex}/cmdline")).map_or(true, |line| line.is_empty())
    });
}
