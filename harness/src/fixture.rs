//! Synthetic recordings for tests: shaped like the real ones, worded by us, ids drawn from a salt.

use serde_json::{Value, json};

use crate::recording::{ClientEvent, Exchange, Places, Recording, RolloutFile};
use crate::scenario::plan::{
    Answers, ConfigSpec, Ending, Expect, ModelSpec, Plan, PlanReply, PlanStep, ReplyBody,
    StepAction, ToolAnswer, Truncation, TruncationMode, UserStep,
};

/// A UUID made of a salt and a number.
pub(crate) fn id(salt: u32, n: u32) -> String {
    format!("{salt:08x}-0000-7000-8000-{n:012x}")
}

/// Two turns with a call and a compaction between them, shaped like a late version.
pub(crate) fn recording(salt: u32) -> Recording {
    let texts = Texts {
        user: "Create it".into(),
        output: "out".into(),
        usage: 1000,
    };
    with_texts(salt, &texts)
}

/// What a test may change.
#[derive(Debug, Clone)]
pub(crate) struct Texts {
    pub(crate) user: String,
    pub(crate) output: String,
    pub(crate) usage: i64,
}

/// [`recording`] with other texts.
pub(crate) fn with_texts(salt: u32, texts: &Texts) -> Recording {
    let u = |n| id(salt, n);
    let home = format!("/h{salt:07}");
    let workspace = format!("{home}/wd");
    let msg = |n, role: &str, kind: &str, text: &str| {
        json!({"type": "message", "id": format!("msg_{}", u(n)), "role": role,
            "content": [{"type": kind, "text": text}]})
    };
    let base = msg(9, "developer", "input_text", "Be brief.");
    let user = msg(10, "user", "input_text", &texts.user);
    let call = json!({"type": "function_call", "id": "fc_1", "name": "lookup",
        "arguments": "{\"id\":\"<time>\"}", "call_id": "call_1"});
    let output = json!({"type": "function_call_output", "id": format!("fco_{}", u(11)),
        "call_id": "call_1", "output": texts.output});
    let prompt = json!({"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": "Summarise."}]});
    let summary = msg(12, "user", "input_text", "Summary: done.");
    let next = msg(13, "user", "input_text", "and <cwd>?");
    let inputs = [
        ("turn", 0, 2, vec![&base, &user]),
        ("turn", 0, 2, vec![&base, &user, &call, &output]),
        (
            "compaction",
            0,
            3,
            vec![&base, &user, &call, &output, &prompt],
        ),
        ("turn", 1, 3, vec![&base, &user, &summary, &next]),
    ];
    let journal = inputs
        .iter()
        .map(|(kind, window, turn, input)| exchange(salt, kind, *window, *turn, input))
        .collect();
    let records = records(salt, texts, &workspace, &[&user, &call, &output]);
    let mut text = String::new();
    for record in records {
        text.push_str(&record.to_string());
        text.push('\n');
    }
    Recording {
        journal,
        rewrites: Vec::new(),
        edits: Vec::new(),
        rollouts: vec![RolloutFile {
            name: format!("rollout-2026-01-02T03-04-{:02}-{}.jsonl", salt % 60, u(1)),
            text,
        }],
        events: events(salt),
        places: Places {
            workspace,
            home,
            models: vec![(slug(salt), "main".into())],
            installation_id: u(99),
            base_url: format!("http://127.0.0.1:{}/c{salt:06}/v1", 30000 + salt % 999),
        },
    }
}

fn slug(salt: u32) -> String {
    format!("m-{salt:08x}")
}

fn events(salt: u32) -> Vec<ClientEvent> {
    vec![
        ClientEvent::TurnStarted { turn: id(salt, 2) },
        ClientEvent::ItemCompleted {
            kind: "agentMessage".into(),
            id: "msg_1".into(),
            shown: json!("Done."),
        },
        ClientEvent::TurnEnded {
            turn: id(salt, 2),
            status: "completed".into(),
            error: None,
        },
    ]
}

fn exchange(salt: u32, kind: &str, window: i64, turn: u32, input: &[&Value]) -> Exchange {
    let u = |n| id(salt, n);
    let window_name = format!("{}:{window}", u(1));
    let mut meta = json!({
        "installation_id": u(99), "session_id": u(1), "thread_id": u(1), "turn_id": u(turn),
        "window_id": window_name, "window_number": window,
        "context_window_id": u(20 + window as u32), "request_kind": kind,
        "turn_started_at_unix_ms": 1_700_000_000_000_i64 + i64::from(salt), "model": slug(salt),
    });
    if kind == "compaction" {
        meta["compaction"] = json!({"trigger": "auto", "phase": "pre_turn"});
    }
    let tools = json!([{"type": "function", "name": "lookup", "strict": false,
        "parameters": {"type": "object", "$ref": "#/x"}}]);
    let mut client = vec![
        ("thread_id", json!(u(1))),
        ("turn_id", json!(u(turn))),
        ("x-codex-window-id", json!(window_name)),
        ("x-codex-turn-metadata", json!(meta.to_string())),
    ];
    // The real binary writes these keys in any order.
    client.rotate_left((salt % 4) as usize);
    let body = json!({
        "model": slug(salt), "stream": true, "input": input,
        "tools": if kind == "compaction" { json!([]) } else { tools },
        "prompt_cache_key": u(1),
        "client_metadata": client.into_iter().map(|(k, v)| (k.to_owned(), v))
            .collect::<serde_json::Map<_, _>>(),
    });
    let body = body.to_string().into_bytes();
    let headers = [
        ("x-codex-window-id", window_name),
        ("x-codex-turn-metadata", meta.to_string()),
        ("session-id", u(1)),
        (
            "user-agent",
            "turnproof/0.171.0 (Some 1.0; x86_64) dumb (turnproof; 0.1.0)".into(),
        ),
        ("host", format!("127.0.0.1:{}", 30000 + salt % 999)),
        ("content-length", body.len().to_string()),
    ];
    Exchange {
        method: "POST".into(),
        path: "/responses".into(),
        headers: headers.map(|(k, v)| (k.to_owned(), v)).to_vec(),
        body,
        reply: Some("step 1 reply 1".into()),
        answer: None,
    }
}

fn records(salt: u32, texts: &Texts, workspace: &str, items: &[&Value]) -> Vec<Value> {
    let u = |n| id(salt, n);
    let stamp = format!("2026-01-02T03:04:{:02}.123Z", salt % 60);
    let usage = json!({"input_tokens": texts.usage, "total_tokens": texts.usage});
    let mut list = vec![
        (
            "session_meta",
            json!({"id": u(1), "cwd": workspace, "cli_version": "0.171.0"}),
        ),
        (
            "event_msg",
            json!({"type": "task_started", "turn_id": u(2), "started_at": salt}),
        ),
    ];
    for item in items {
        let mut payload = (*item).clone();
        payload["passthrough"] =
            json!({"turn_id": u(2), "create_time": 1_700_000_000.25 + f64::from(salt)});
        list.push(("response_item", payload));
    }
    list.push((
        "event_msg",
        json!({"type": "token_count", "info": {"last_token_usage": usage}}),
    ));
    list.push((
        "compacted",
        json!({"message": "Summary: done.", "window_id": u(21)}),
    ));
    list.into_iter()
        .enumerate()
        .map(|(n, (kind, payload))| {
            json!({"timestamp": stamp, "ordinal": n, "type": kind, "payload": payload})
        })
        .collect()
}

/// A plan with one model, one tool and one user step with a call.
pub(crate) fn plan() -> Plan {
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "lookup",
        "arguments": "{}"});
    let events = vec![
        json!({"type": "response.output_item.done", "item": call}),
        json!({"type": "response.completed", "response": {"id": "resp_1",
            "usage": {"input_tokens": 100, "output_tokens": 0, "total_tokens": 100}}}),
    ];
    let reply = PlanReply {
        label: "step 1 reply 1".into(),
        line: 3,
        answers: Answers::Turn,
        attempts: 1,
        body: ReplyBody::Stream {
            headers: vec![],
            events,
            ending: Ending::Complete,
        },
        gate: None,
        delivered_cut: false,
        tool_answers: vec![ToolAnswer {
            call_id: "call_1".into(),
            while_running: vec![],
            content: vec![json!({"type": "inputText", "text": "out"})],
            success: true,
            rpc_error: false,
        }],
        answer_order: None,
        request: None,
    };
    let input = vec![json!({"type": "text", "text": "Create it"})];
    Plan {
        id: "turn/one_call".into(),
        models: vec![ModelSpec {
            name: "main".into(),
            context_window: Some(100_000),
            max_context_window: None,
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
        }],
        config: ConfigSpec::default(),
        tools: vec![],
        files: vec![],
        steps: vec![PlanStep {
            number: 1,
            line: 2,
            action: StepAction::User(UserStep {
                input,
                ..UserStep::default()
            }),
            replies: vec![reply],
            ends: None,
        }],
        expect: Expect::default(),
    }
}
