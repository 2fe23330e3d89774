//! What parses but makes no sense: every finding of a file at once, each with its position.

use std::collections::BTreeSet;

use semver::Version;

use super::bounds;
use super::catalogue;
use super::error::{Mark, Problem, nearest};
use super::events::content_keys;
use super::load::VERSIONS as PINNED;
use super::record_kinds;
use super::reply::{Assertion, Call, ClientAction, For, Item, Reply};
use super::resolve::step_keys;
use super::schema::{Approval, EndsWith, Scenario, Step};
use super::texts::text;
use super::values::{Located, Many, OneOrMany, version_range};
use crate::golden::versions::VERSIONS;

/// Start of the file, for findings that belong to no line.
const TOP: Mark = Mark { line: 1, column: 1 };

/// Whether a range holds the oldest version; a range that does not parse has its own finding.
fn meets_oldest(range: &str) -> bool {
    let oldest = VERSIONS[0].real.parse();
    let (Ok(range), Ok(oldest)) = (version_range(range), oldest) else {
        return false;
    };
    range.matches(&oldest)
}

/// Whether a range holds any pinned version but the oldest.
fn meets_newer(range: &str) -> bool {
    let Ok(range) = version_range(range) else {
        return false;
    };
    let newer = VERSIONS[1..].iter().filter_map(|v| v.real.parse().ok());
    newer.into_iter().any(|version| range.matches(&version))
}

/// Finds what does not fit together.
pub(super) fn validate(scenario: &Scenario, rules: Option<&BTreeSet<String>>) -> Vec<Problem> {
    let mut found = Found::default();
    found.head(scenario, rules);
    let mut stopped: Option<usize> = None;
    for step in &scenario.steps.0 {
        found.step(scenario, step);
        if step.value.resume.is_some() {
            // A resume that is refused leaves no thread to go on with.
            let refused = matches!(step.value.ends, Some(EndsWith::Failed(_)));
            stopped = refused.then_some(step.at.line);
        } else if let Some(line) = stopped {
            if step.value.edit_rollout.is_none() && step.value.storage.is_none() {
                let what = "unreachable step: no process holds the thread";
                let why = format!("it ended in line {line}");
                found.add(
                    Problem::new(step.at, what)
                        .why(why)
                        .help("put a `resume:` before it"),
                );
            }
        } else if step.value.stop.is_some() {
            stopped = Some(step.at.line);
        }
    }
    found.0
}

#[derive(Default)]
struct Found(Vec<Problem>);

impl Found {
    fn add(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    fn head(&mut self, scenario: &Scenario, rules: Option<&BTreeSet<String>>) {
        let description = scenario.description.trim();
        if !description.ends_with(['.', '。']) || description.len() < 10 {
            let what = "the description is not one sentence";
            self.add(Problem::new(TOP, what).help("say the behaviour in one sentence with a `.`"));
        }
        for rule in &scenario.rules.0 {
            if let Some(known) = rules
                && !known.contains(&rule.value)
            {
                let near = nearest(&rule.value, known.iter().map(String::as_str));
                let help = near.map_or_else(
                    || "rules stand in docs/rules.md".to_owned(),
                    |near| format!("did you mean `{near}`? rules stand in docs/rules.md"),
                );
                let what = format!("unknown rule `{}`", rule.value);
                self.add(Problem::new(rule.at, what).help(help));
            }
        }
        let rules = scenario.rules.0.iter().enumerate();
        for (_, twice) in rules.filter(|(at, rule)| {
            let before = &scenario.rules.0[..*at];
            before.iter().any(|other| other.value == rule.value)
        }) {
            let what = format!("the rule `{}` stands there twice", twice.value);
            self.add(Problem::new(twice.at, what).help("remove one of the two"));
        }
        self.range(scenario.versions.as_ref(), scenario.reason.as_ref());
        let blank = scenario
            .reason
            .as_ref()
            .is_none_or(|why| why.trim().is_empty());
        if scenario.only.is_some() && blank {
            self.add(Problem::new(TOP, "`only` without `reason`").help("say why in `reason:`"));
        }
        self.approval(scenario);
        self.prompt_file(scenario);
        self.own_tools(scenario);
        self.0.extend(bounds::files(scenario));
        self.0.extend(bounds::extra(scenario));
        self.0.extend(catalogue::problems(scenario));
        self.0.extend(record_kinds::problems(scenario));
        if scenario.steps.0.is_empty() {
            self.add(Problem::new(TOP, "no steps").help("add a step: `- user: …`"));
        }
    }

    /// Later versions do not start with a configuration that says `untrusted`.
    fn approval(&mut self, scenario: &Scenario) {
        let Some(approval) = &scenario.config.approval else {
            return;
        };
        let versions = scenario.versions.as_ref();
        if approval.value == Approval::Untrusted
            && versions.is_none_or(|range| meets_newer(&range.value))
        {
            let what = "the approval policy `untrusted` in the config of a version that refuses it";
            let help = "add `versions: \"<0.164\"` and a `reason` to the scenario, or let a turn ask \
                        for it: `{user: …, approval: untrusted}`";
            self.add(Problem::new(approval.at, what).help(help));
        }
    }

    /// No version starts with a prompt file that says nothing.
    fn prompt_file(&mut self, scenario: &Scenario) {
        let Some(file) = &scenario.config.compact_prompt_file else {
            return;
        };
        if text(&file.value).is_ok_and(|text| text.trim().is_empty()) {
            let what = "`compact_prompt_file` is blank, and no version starts with such a file";
            let help = "write a prompt, or leave the key out for the built-in one";
            self.add(Problem::new(file.at, what).help(help));
        }
    }

    /// Keys that switch on tools which only the client itself can run, in its own words.
    fn own_tools(&mut self, scenario: &Scenario) {
        let models = scenario.models.0.iter();
        for (key, value) in models.flat_map(|(_, model)| &model.extra.0) {
            let switched_on = match key.as_str() {
                "apply_patch_tool_type" => !value.value.is_null(),
                "tool_mode" => value.value != "direct" && !value.value.is_null(),
                "experimental_supported_tools" => value
                    .value
                    .as_array()
                    .is_some_and(|tools| !tools.is_empty()),
                _ => false,
            };
            if switched_on {
                let what = format!("`{key}` switches on a tool of the client's own");
                let help = "script a tool of the scenario instead: `tools: {NAME: {…}}`";
                let why = "its description is not ours to keep, and no engine runs it";
                self.add(Problem::new(value.at, what).why(why).help(help));
            }
        }
    }

    fn range(&mut self, versions: Option<&Located<String>>, reason: Option<&String>) {
        let Some(range) = versions else { return };
        match version_range(&range.value) {
            Err(what) => {
                self.add(Problem::new(range.at, what).help("for instance `>=0.164` or `<0.171`"));
            }
            Ok(versions) if !PINNED.iter().any(|pinned| versions.matches(pinned)) => {
                let what = format!("no pinned version is in the range `{}`", range.value);
                let pinned: Vec<String> = PINNED.iter().map(ToString::to_string).collect();
                let help = format!("pinned are {}", pinned.join(", "));
                self.add(Problem::new(range.at, what).help(help));
            }
            Ok(_) => {}
        }
        if reason.is_none_or(|reason| reason.trim().is_empty()) {
            let problem = Problem::new(range.at, "`versions` without `reason`");
            self.add(problem.help("say in `reason:` why it is there"));
        }
    }

    fn model(&mut self, scenario: &Scenario, name: Option<&String>, at: Mark) {
        let Some(name) = name else { return };
        let known = scenario.models.0.iter().map(|(known, _)| known.as_str());
        let mut known: Vec<&str> = known.collect();
        if known.is_empty() {
            known.push("main");
        }
        if !known.contains(&name.as_str()) {
            let problem = Problem::new(at, format!("unknown model `{name}`"));
            self.add(problem.help(super::error::suggest(name, &known)));
        }
    }

    fn step(&mut self, scenario: &Scenario, step: &Located<Step>) {
        let Located { at, value: step } = step;
        let keys = step_keys(step);
        match keys[..] {
            [_] => {}
            [] => self.add(Problem::new(*at, "a step without an action").help("add `user: …`")),
            [first, second, ..] => {
                let what = format!("a step with two actions: `{first}` and `{second}`");
                self.add(Problem::new(*at, what).help("make two steps of it"));
            }
        }
        self.ways_back(scenario, step);
        let overrides = step.model.is_some()
            || step.effort.is_some()
            || step.summary.is_some()
            || step.service_tier.is_some()
            || !step.client_metadata.0.is_empty()
            || step.client_message_id.is_some();
        if step.user.is_none() && (overrides || step.cwd.is_some() || step.sandbox.is_some()) {
            let problem = Problem::new(*at, "overrides belong to a `user` step");
            self.add(problem.help("use `settings: {...}` for a step of its own"));
        }
        self.model(scenario, step.model.as_ref(), *at);
        if let Some(settings) = &step.settings {
            self.model(scenario, settings.model.as_ref(), *at);
        }
        if step.storage.is_some() && scenario.only.is_none() {
            let what = "a `storage` fault in a scenario for real binaries";
            let help = "add `only: engine` and a `reason`: a real binary has its own disk";
            self.add(Problem::new(*at, what).help(help));
        }
        let quiet = [
            "settings",
            "inject",
            "stop",
            "edit_rollout",
            "storage",
            "rollback",
            "revert",
        ];
        // A thread that begins, or is loaded anew, opens its WebSocket.
        let opens = |reply: &&Located<Reply>| {
            matches!(reply.value.answers, Some(For::Prewarm))
                || reply
                    .value
                    .fault
                    .as_ref()
                    .is_some_and(|fault| fault.handshake.is_some())
        };
        let sockets = scenario.config.websockets == Some(true);
        let mut replies = step.replies.0.iter();
        if let Some(key) = keys.first().filter(|key| quiet.contains(key))
            && let Some(reply) = replies.find(|reply| !sockets || !opens(reply))
        {
            let why = format!("a `{key}` step sends no request");
            let problem = Problem::new(reply.at, "unreachable reply").why(why);
            self.add(problem.help("move it to the step that sends the request"));
        }
        for reply in &step.replies.0 {
            self.reply(scenario, reply);
        }
        self.unreachable(step);
    }

    /// Forks, rollbacks and reverts: what they name, and versions that know them.
    fn ways_back(&mut self, scenario: &Scenario, step: &Step) {
        let range = scenario.versions.as_ref().map(|range| range.value.as_str());
        let old = range
            .is_none_or(|range| version_range(range).is_ok_and(|range| range.matches(&PINNED[0])));
        let new = range.is_none_or(meets_newer);
        let only_newer = "add `versions: \">=0.164\"` and a `reason` to the scenario";
        if let Some(Located { at, value }) = &step.fork {
            if value.through_turn.is_some() && value.before_turn.is_some() {
                let problem = Problem::new(*at, "a fork through one turn and before another");
                self.add(problem.help("take `through_turn` or `before_turn`"));
            }
            if value.before_turn.is_some() && old {
                let problem = Problem::new(*at, "`before_turn` on a version that forks all of it");
                self.add(problem.help(only_newer));
            }
            self.turn_number(value.through_turn.or(value.before_turn), *at);
        }
        if let Some(Located { at, value }) = &step.rollback {
            if new {
                let problem = Problem::new(*at, "`rollback` on a version that has none");
                self.add(
                    problem.help("add `versions: \"<0.164\"` and a `reason`, or use `revert`"),
                );
            }
            if value.turns == 0 {
                let problem = Problem::new(*at, "a rollback of no turn, which is refused");
                self.add(problem.help("say how many turns: 1 or more"));
            }
        }
        if let Some(Located { at, value }) = &step.revert {
            if old {
                let problem = Problem::new(*at, "`revert` on a version that has none");
                self.add(problem.help(only_newer));
            }
            self.turn_number(Some(value.before_turn), *at);
        }
    }

    fn turn_number(&mut self, turn: Option<usize>, at: Mark) {
        if turn == Some(0) {
            let problem = Problem::new(at, "there is no turn 0");
            self.add(problem.help("turns are counted from 1"));
        }
    }

    /// A reply behind one that surely ends the step. Only where nothing else can make a request.
    fn unreachable(&mut self, step: &Step) {
        let replies = &step.replies.0;
        if !replies.iter().all(|reply| is_simple(&reply.value)) {
            return;
        }
        let last = replies
            .iter()
            .position(|reply| ends_step(step, &reply.value));
        if let Some(index) = last
            && let Some(extra) = replies.get(index + 1)
            && !is_post_turn(&extra.value)
        {
            let why = format!("the reply in line {} ends the turn", replies[index].at.line);
            let problem = Problem::new(extra.at, "unreachable reply").why(why);
            self.add(problem.help("remove it, or give the reply before it a call"));
        }
    }

    fn reply(&mut self, scenario: &Scenario, reply: &Located<Reply>) {
        let Located { at, value: reply } = reply;
        self.range(reply.versions.as_ref(), reply.reason.as_ref());
        if let Some(For::Compaction(asked)) = &reply.answers {
            self.model(scenario, asked.model.as_ref(), *at);
        }
        self.attempts(scenario, *at, reply);
        self.content(*at, reply);
        let calls = calls(reply);
        for call in &calls {
            self.call(scenario, *at, call);
            if call
                .while_running
                .as_ref()
                .is_some_and(|list| list.0.is_empty())
            {
                let problem = Problem::new(*at, "`while_running` says nothing to do");
                self.add(
                    problem.help("for instance `while_running: [{steer: …}]`, or leave it out"),
                );
            }
            self.actions(scenario, reply, call.while_running.as_ref());
        }
        let gate = reply.gate.as_ref();
        self.actions(scenario, reply, gate.map(|gate| &gate.actions));
        for assertion in reply.request.iter().flat_map(OneOrMany::as_slice) {
            self.assertion(*at, assertion);
        }
    }

    /// A reply that answers no request on any version that it is for.
    fn attempts(&mut self, scenario: &Scenario, at: Mark, reply: &Reply) {
        let Some(count) = &reply.attempts else { return };
        let ranges = [&scenario.versions, &reply.versions];
        let is_for = |version: &&Version| {
            let mut ranges = ranges.iter().copied().flatten();
            ranges
                .all(|range| version_range(&range.value).is_ok_and(|range| range.matches(version)))
        };
        let answered = |version: &Version| count.on(version).unwrap_or(0) > 0;
        if !PINNED.iter().filter(is_for).any(answered) {
            let what = "`attempts` leaves no request to answer on any version";
            let help = "1 or more, or by version: `attempts: {\"<0.171\": 3, \"*\": 1}`";
            self.add(Problem::new(at, what).help(help));
        }
    }

    /// Settings that change inside a turn.
    fn actions(
        &mut self,
        scenario: &Scenario,
        reply: &Reply,
        actions: Option<&Many<ClientAction>>,
    ) {
        for Located { at, value: action } in actions.into_iter().flat_map(|list| &list.0) {
            for settings in [&action.settings, &action.turn_settings]
                .into_iter()
                .flatten()
            {
                self.model(scenario, settings.model.as_ref(), *at);
            }
            let Some(settings) = &action.turn_settings else {
                continue;
            };
            if settings.cwd.is_some() || settings.sandbox.is_some() || settings.approval.is_some() {
                let what = "`turn_settings` are `model`, `effort`, `summary` and `service_tier`";
                let help = "change the rest for the thread: `settings: {...}`";
                self.add(Problem::new(*at, what).help(help));
            }
            let ranges = [&scenario.versions, &reply.versions];
            if ranges
                .into_iter()
                .flatten()
                .all(|range| meets_oldest(&range.value))
            {
                let what = "`turn_settings` on a version that has none";
                let help = "add `versions: \">=0.164\"` and a `reason` to the scenario";
                self.add(Problem::new(*at, what).help(help));
            }
            let features = &scenario.config.features.0;
            if !features
                .iter()
                .any(|(name, _)| name == "step_model_switching")
            {
                let what = "`turn_settings` without the feature that allows them";
                let help = "add `config: {features: {step_model_switching: true}}`";
                self.add(Problem::new(*at, what).help(help));
            }
        }
    }

    fn assertion(&mut self, at: Mark, assertion: &Assertion) {
        self.range(assertion.versions.as_ref(), assertion.reason.as_ref());
        let Assertion {
            input,
            prefix,
            contains,
            ..
        } = assertion;
        let given = [input.is_some(), prefix.is_some(), contains.is_some()];
        if given.iter().filter(|is_there| **is_there).count() != 1 {
            let what = "a request assertion has exactly one of `input`, `prefix`, `contains`";
            self.add(Problem::new(at, what));
        }
    }

    fn content(&mut self, at: Mark, reply: &Reply) {
        let mut keys = content_keys(&single(reply));
        keys.extend(reply.items.as_ref().map(|_| "items"));
        keys.extend(reply.events.as_ref().map(|_| "events"));
        let whole = reply.fault.as_ref().is_some_and(|fault| {
            let status = fault.http.is_some() || fault.handshake.is_some();
            status || fault.drop_connection.is_some()
        });
        if keys.len() > 1 {
            let what = format!("a reply with two contents: `{}` and `{}`", keys[0], keys[1]);
            self.add(Problem::new(at, what).help("put several items under `items: [...]`"));
        } else if keys.is_empty() && reply.fault.is_none() {
            let problem = Problem::new(at, "a reply without content");
            self.add(problem.help("add `say: …`, `call: …`, `items: […]` or `fault: …`"));
        } else if whole && !keys.is_empty() {
            let what = format!("`{}` beside a fault that sends no stream", keys[0]);
            self.add(Problem::new(at, what).help("remove one of the two"));
        }
        for item in reply.items.iter().flat_map(|items| items.0.iter()) {
            let keys = content_keys(&item.value);
            if keys.len() != 1 {
                let what = format!("an item holds exactly one content, not {}", keys.len());
                self.add(Problem::new(item.at, what).help("one of `say`, `call`, `reasoning`, …"));
            }
        }
        self.fault(at, reply);
    }

    fn fault(&mut self, at: Mark, reply: &Reply) {
        let Some(fault) = &reply.fault else { return };
        let kinds = [
            ("http", fault.http.is_some()),
            ("handshake", fault.handshake.is_some()),
            ("failed", fault.failed.is_some()),
            ("incomplete", fault.incomplete.is_some()),
            ("cut", fault.cut.is_some()),
            ("stall", fault.stall.is_some()),
            ("drop_connection", fault.drop_connection.is_some()),
            ("no_completed", fault.no_completed.is_some()),
            ("malformed_event", fault.malformed_event.is_some()),
            ("duplicate_event", fault.duplicate_event.is_some()),
            ("websocket_close", fault.websocket_close.is_some()),
            ("error_frame", fault.error_frame.is_some()),
        ];
        let named: Vec<&str> = kinds
            .iter()
            .filter_map(|(kind, is_there)| is_there.then_some(*kind))
            .collect();
        if named.len() != 1 {
            let valid: Vec<&str> = kinds.iter().map(|(kind, _)| *kind).collect();
            let what = format!("a fault is exactly one kind, not {}", named.len());
            self.add(Problem::new(at, what).help(format!("valid kinds: {}", valid.join(", "))));
        }
    }

    fn call(&mut self, scenario: &Scenario, at: Mark, call: &Call) {
        if call.arguments.is_some() && call.arguments_text.is_some() {
            let what = "`arguments` and `arguments_text` exclude each other";
            self.add(Problem::new(at, what).help("remove one of the two"));
        }
        let declared = scenario.tools.0.iter().any(|(name, _)| *name == call.tool);
        let runs = declared && call.arguments_text.is_none();
        if runs && call.output.is_none() && call.while_running.is_none() {
            let what = format!("the call of `{}` has no `output`", call.tool);
            self.add(Problem::new(at, what).help("say what the client answers: `output: …`"));
        }
        if !declared && call.output.is_some() {
            let what = format!(
                "unreachable output: the tool `{}` is not declared",
                call.tool
            );
            let names: Vec<&str> = scenario
                .tools
                .0
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            self.add(Problem::new(at, what).help(super::error::suggest(&call.tool, &names)));
        }
    }
}

fn single(reply: &Reply) -> Item {
    Item {
        say: reply.say.clone(),
        phase: None,
        item_id: None,
        call: reply.call.clone(),
        custom_call: reply.custom_call.clone(),
        reasoning: reply.reasoning.clone(),
        compaction: reply.compaction.clone(),
        raw: reply.raw.clone(),
    }
}

fn calls(reply: &Reply) -> Vec<&Call> {
    let items = reply.items.iter().flat_map(|items| items.0.iter());
    reply
        .call
        .iter()
        .chain(items.filter_map(|item| item.value.call.as_ref()))
        .collect()
}

/// A reply after which the next request can be told from the reply alone.
fn is_simple(reply: &Reply) -> bool {
    let steered = calls(reply).iter().any(|call| call.while_running.is_some());
    let open = reply.raw.is_some() || reply.events.is_some() || reply.custom_call.is_some();
    let raw = reply
        .items
        .iter()
        .flat_map(|items| items.0.iter())
        .any(|item| item.value.raw.is_some() || item.value.custom_call.is_some());
    let scripted = reply.fault.is_some() || reply.gate.is_some() || reply.delivered.is_some();
    !(steered || open || raw || scripted || reply.attempts.is_some() || reply.versions.is_some())
}

fn is_post_turn(reply: &Reply) -> bool {
    matches!(&reply.answers, Some(For::Compaction(asked))
        if asked.phase == Some(super::reply::Phase::PostTurn))
}

fn ends_step(step: &Step, reply: &Reply) -> bool {
    if step.compact.is_some() {
        return true;
    }
    let is_turn = reply.answers.is_none();
    is_turn && calls(reply).is_empty() && reply.end_turn != Some(false)
}
