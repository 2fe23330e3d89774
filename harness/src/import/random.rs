//! Sessions drawn from a seed, for the law that an import plays the same thread again.
//!
//! Every kind of step that a rollout tells of is drawn: texts, images, calls, reasoning, steers,
//! interrupts, failures, injected items, changed settings, compactions in every phase, resumes.
//! Retries are not drawn: no record tells of them.

use serde_json::{Map, Value, json};

use crate::perturb::Draw;
use crate::scenario::plain::Tree;
use crate::scenario::write::write;

/// Tokens that make a session compact.
const LIMIT: u64 = 50_000;
/// Usages are far enough from the limit that no estimate of drawn texts crosses it.
const MARGIN: u64 = 20_000;
/// Steps of a session: so many, and up to so many more.
const STEPS: (u64, u64) = (3, 9);

/// The session of a seed, as a scenario.
pub(super) fn session(seed: u64) -> String {
    let mut drawn = Session {
        draw: Draw::new(seed),
        is_full: false,
        answered: false,
        calls: 0,
        steps: Vec::new(),
    };
    let count = STEPS.0 + drawn.draw.below(STEPS.1);
    for _ in 0..count {
        drawn.step();
    }
    // A thread without a turn makes no rollout.
    drawn.turn();
    let mut config = Map::new();
    for key in ["environment_context", "permissions_instructions"] {
        if drawn.draw.below(2) == 0 {
            config.insert(key.to_owned(), json!(true));
        }
    }
    let window = 150_000 + 1000 * drawn.draw.below(50);
    let model = json!({"context_window": window, "auto_compact_token_limit": LIMIT,
        "input_modalities": ["text", "image"]});
    let scenario = json!({
        "description": format!("Session {seed} is drawn."),
        "models": {"main": model},
        "config": config,
        "tools": {"lookup": {"path": "string"}},
        "steps": drawn.steps,
    });
    write(&Tree::from(&scenario))
}

struct Session {
    draw: Draw,
    /// The last usage lies over the limit.
    is_full: bool,
    /// A response was completed: what can be compacted and resumed.
    answered: bool,
    calls: u64,
    steps: Vec<Value>,
}

impl Session {
    fn step(&mut self) {
        match self.draw.below(12) {
            0 if self.answered && !self.is_full => self.compact(),
            1 if self.answered => {
                self.steps.push(json!({"stop": "eof"}));
                self.steps.push(json!({"resume": {"by": "id"}}));
            }
            2 => {
                let content = [json!({"type": "input_text", "text": self.text("Known")})];
                let item = json!({"type": "message", "role": "user", "content": content});
                self.steps.push(json!({"inject": [item]}));
            }
            _ => self.turn(),
        }
    }

    fn text(&mut self, head: &str) -> String {
        // A first word keeps it from being blank, and a last one from ending in a blank.
        format!("{head} {}.", self.draw.text())
    }

    fn compact(&mut self) {
        let summary = self.text("Summary");
        let reply = json!({"for": {"compaction": "local", "phase": "standalone_turn"},
            "say": summary, "usage": 300});
        self.steps
            .push(json!({"compact": true, "replies": [reply]}));
    }

    fn compaction(&mut self, phase: &str) -> Value {
        let summary = self.text("Summary");
        self.is_full = false;
        json!({"for": {"compaction": "local", "phase": phase}, "say": summary, "usage": 400})
    }

    fn usage(&mut self, may_fill: bool) -> u64 {
        let fills = may_fill && self.draw.below(4) == 0;
        self.is_full = fills;
        let within = self.draw.below(LIMIT - 2 * MARGIN);
        within + if fills { LIMIT + MARGIN } else { MARGIN / 2 }
    }

    fn turn(&mut self) {
        let mut replies = Vec::new();
        if self.is_full {
            replies.push(self.compaction("pre_turn"));
        }
        let mut step = Map::new();
        step.insert("user".to_owned(), self.input());
        if self.draw.below(6) == 0 {
            let effort = ["low", "high"][self.draw.below(2) as usize];
            step.insert("effort".to_owned(), json!(effort));
        }
        for _ in 0..self.draw.below(3) {
            let reply = self.called();
            replies.push(reply);
            if self.is_full {
                let compaction = self.compaction("mid_turn");
                replies.push(compaction);
            }
        }
        match self.draw.below(8) {
            0 => {
                replies.push(json!({"say": self.text("Cut"),
                    "gate": {"after_events": 1, "do": [{"interrupt": true}]}}));
                step.insert("ends".to_owned(), json!("interrupted"));
            }
            1 => {
                replies.push(json!({"fault": {"http": 400}}));
                step.insert("ends".to_owned(), json!("failed"));
            }
            _ => {
                let reply = self.said();
                replies.push(reply);
            }
        }
        step.insert("replies".to_owned(), Value::Array(replies));
        self.steps.push(Value::Object(step));
    }

    fn input(&mut self) -> Value {
        let text = self.text("Do");
        if self.draw.below(5) > 0 {
            return json!(text);
        }
        let size = format!("{}x{}", 1 + self.draw.below(9), 1 + self.draw.below(9));
        json!([{"text": text}, {"image": {"png": size}}])
    }

    /// A reply that ends the turn.
    fn said(&mut self) -> Value {
        let say = self.text("Done");
        let usage = self.usage(true);
        self.answered = true;
        if self.draw.below(4) > 0 {
            return json!({"say": say, "usage": usage});
        }
        let reasoning = json!({"reasoning": {"summary": [self.text("Why")],
            "encrypted_content": "c2VjcmV0"}});
        json!({"items": [reasoning, {"say": say}], "usage": usage})
    }

    /// A reply with calls; a steer may come while they run.
    fn called(&mut self) -> Value {
        let mut items = Vec::new();
        for _ in 0..=self.draw.below(2) {
            self.calls += 1;
            let (path, output) = (self.text("path"), self.text("Found"));
            items.push(
                json!({"call": {"tool": "lookup", "arguments": {"path": path},
                "call_id": format!("call_{}", self.calls), "output": output}}),
            );
        }
        let usage = self.usage(true);
        self.answered = true;
        // On 0.144 a turn that compacts takes what was said only behind its answer.
        if self.draw.below(5) == 0
            && !self.is_full
            && let Some(call) = items.last_mut()
        {
            let steer = self.text("And");
            call["call"]["while_running"] = json!([{"steer": steer}]);
        }
        json!({"items": items, "usage": usage})
    }
}
