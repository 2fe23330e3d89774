//! Tests of loading, errors and resolving.

use std::collections::BTreeSet;
use std::path::PathBuf;

use semver::Version;
use serde_json::json;

use super::plan::{Answers, Ending, Plan, ReplyBody};
use super::{
    Loaded, Resolved, SCENARIO_BYTES_MAX, Suite, SuiteFile, load_bytes, rule_ids, template,
};

fn rules() -> BTreeSet<String> {
    rule_ids("| rule | x |\n| --- | --- |\n| compaction.trigger.at_limit | … |\n")
}

fn load(source: &str) -> Result<Loaded, Vec<String>> {
    load_bytes("a.yaml", "turn/a", source.as_bytes(), Some(&rules()))
        .map_err(|errors| errors.iter().map(|e| format!("{e} [{}]", e.help)).collect())
}

fn errors(source: &str) -> Vec<String> {
    load(source).expect_err("the source is wrong")
}

fn plan_on(source: &str, version: &Version) -> Plan {
    match load(source)
        .expect("the source is valid")
        .plan(version)
        .expect("it resolves")
    {
        Resolved::Applicable(plan) => *plan,
        Resolved::NotApplicable(reason) => panic!("not applicable: {reason}"),
    }
}

fn with_replies(replies: &str) -> String {
    format!(
        "description: A turn that answers.\ntools: {{lookup: {{path: string}}}}\n\
         steps:\n  - user: Hi\n    replies:\n{replies}"
    )
}

static NEWEST: Version = Version::new(0, 171, 0);
static OLDEST: Version = Version::new(0, 144, 6);

#[test]
fn all_unknown_keys_are_named_at_once() {
    let found = errors(
        "description: A turn that answers.\nstep: []\nsteps:\n  - usr: Hi\n    replies:\n      \
         - sya: x\n      - call: {tool: a, argument: {}}\n",
    );
    let wanted = [
        "a.yaml:2:1: unknown key `step` [did you mean `steps`?]",
        "a.yaml:4:5: unknown key `usr` [did you mean `user`?]",
        "a.yaml:6:9: unknown key `sya` [did you mean `say`?]",
        "a.yaml:7:25: unknown key `argument` [did you mean `arguments`?]",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn yaml_errors_have_a_position_and_no_panic() {
    let cases: [(&str, &str); 6] = [
        (
            "description: a\nsteps:\n\t- user: x\n",
            "a.yaml:3:1: a tab in the indentation",
        ),
        (
            "description: a\ndescription: b\n",
            "a.yaml:2:1: duplicate key `description`",
        ),
        (
            "description: a\nsteps:\n  - user: x\n   replies: []\n",
            "a.yaml:4:",
        ),
        ("", "a.yaml:1:1: the file is empty"),
        ("# only a comment\n\n", "a.yaml:1:1: the file is empty"),
        ("[[[[\n", "a.yaml:"),
    ];
    for (source, wanted) in cases {
        let found = errors(source);
        assert!(found[0].starts_with(wanted), "{source:?}: {found:?}");
    }
}

#[test]
fn garbage_and_wrong_bytes_are_refused() {
    let garbage = vec![b'['; 10 * 1024 * 1024];
    let found = load_bytes("a.yaml", "a", &garbage, None).expect_err("too long");
    assert_eq!((found[0].line, found[0].column), (1, 1));
    let found = load_bytes("a.yaml", "a", &garbage[..SCENARIO_BYTES_MAX], None);
    assert_eq!(found.expect_err("garbage").len(), 1);
    let found = load_bytes("a.yaml", "a", b"description: a\nsteps: \xff\n", None);
    let found = found.expect_err("not UTF-8");
    assert_eq!(found[0].to_string(), "a.yaml:2:8: not valid UTF-8");
}

#[test]
fn an_unknown_rule_names_the_nearest() {
    let source = with_replies("      - say: x\n") + "rules: [compaction.trigger.at_limt]\n";
    let found = errors(&source);
    assert!(
        found[0].starts_with("a.yaml:7:9: unknown rule"),
        "{found:?}"
    );
    assert!(
        found[0].contains("did you mean `compaction.trigger.at_limit`?"),
        "{found:?}"
    );
}

#[test]
fn unreachable_replies_are_errors() {
    let found = errors(&with_replies("      - say: x\n      - say: y\n"));
    assert!(
        found[0].starts_with("a.yaml:7:9: unreachable reply"),
        "{found:?}"
    );
    let found = errors(
        "description: A process stops.\nsteps:\n  - stop: eof\n    replies: [{say: x}]\n  - user: a\n",
    );
    assert!(
        found[0].starts_with("a.yaml:4:15: unreachable reply"),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("a.yaml:5:5: unreachable step"),
        "{found:?}"
    );
}

#[test]
fn settings_inside_a_turn_are_checked() {
    let found = |action: &str| {
        let gate = format!("gate: {{after_events: 1, do: [{action}]}}");
        errors(&with_replies(&format!("      - {{say: x, {gate}}}\n"))).join("\n")
    };
    assert!(found("{settings: {model: other}}").contains("unknown model `other`"));
    let wrong = found("{turn_settings: {cwd: a}}");
    assert!(wrong.contains("`turn_settings` are `model`"), "{wrong}");
    assert!(wrong.contains("step_model_switching"), "{wrong}");
    assert!(wrong.contains("on a version that has none"), "{wrong}");
}

#[test]
fn a_config_says_untrusted_to_the_oldest_version_alone() {
    let found = |head: &str| {
        load(&format!(
            "description: A policy of the config holds.\n{head}config: {{approval: untrusted}}\n\
             steps: [{{user: x, replies: [{{say: y}}]}}]\n"
        ))
    };
    let wrong = found("").expect_err("later versions refuse it");
    assert!(
        wrong[0].starts_with("a.yaml:2:20: the approval policy `untrusted`"),
        "{wrong:?}"
    );
    assert!(found("versions: \"<0.164\"\nreason: later ones refuse it\n").is_ok());
}

#[test]
fn a_range_without_a_pinned_version_is_refused() {
    let text = "description: A range holds nothing.\nversions: \">0.171\"\nreason: none yet\n\
                steps: [{user: x, replies: [{say: y}]}]\n";
    let found = errors(text).concat();
    assert!(
        found.starts_with("a.yaml:2:11: no pinned version is in the range"),
        "{found}"
    );
}

#[test]
fn what_no_engine_can_run_is_refused() {
    let found = |head: &str| {
        let tail = "steps: [{user: x, replies: [{say: y}]}]\n";
        load(&format!("description: A key of the head.\n{head}\n{tail}"))
    };
    let wrong = |head: &str| found(head).expect_err("it is refused").concat();
    let blank = wrong("config: {compact_prompt_file: \" \"}");
    assert!(
        blank.starts_with("a.yaml:2:31: `compact_prompt_file` is blank"),
        "{blank}"
    );
    for key in [
        "apply_patch_tool_type: freeform",
        "tool_mode: code_mode",
        "experimental_supported_tools: [test_sync_tool]",
    ] {
        let own = wrong(&format!("models: {{main: {{extra: {{{key}}}}}}}"));
        assert!(
            own.contains("switches on a tool of the client's own"),
            "{own}"
        );
    }
    assert!(
        found("models: {main: {extra: {tool_mode: direct, apply_patch_tool_type: null}}}").is_ok()
    );
}

#[test]
fn what_no_client_sends_and_no_server_answers_is_refused() {
    let turn = |rest: &str| format!("description: A turn that answers.\n{rest}");
    let reply = |reply: &str| with_replies(&format!("      - {reply}\n"));
    let plain = "steps: [{user: hi, replies: [{say: a}]}]\n";
    for (source, what) in [
        (
            turn(&format!("files: {{/tmp/x: a}}\n{plain}")),
            "a.yaml:2:17: `/tmp/x`",
        ),
        (
            turn(&format!("files: {{../x: a}}\n{plain}")),
            "it has a `..`",
        ),
        (turn(&format!("files: {{\"\": a}}\n{plain}")), "it is empty"),
        (
            turn(&format!("files: {{a: x, a/b: y}}\n{plain}")),
            "cannot both be files",
        ),
        (
            turn("steps: [{user: hi, cwd: ../.., replies: [{say: a}]}]\n"),
            "no path below",
        ),
        (
            turn("steps: [{user: hi, summary: long, replies: [{say: a}]}]\n"),
            "unknown word `long`",
        ),
        (
            turn("steps: [{user: [{image: \"https://x/a.png\"}], replies: [{say: a}]}]\n"),
            "every version refuses the image",
        ),
        (
            turn(&format!("config: {{request_max_retries: 13}}\n{plain}")),
            "more than 12",
        ),
        (
            turn(&format!(
                "config: {{extra: {{model_provider: x}}}}\n{plain}"
            )),
            "set by the harness",
        ),
        (
            turn(&format!(
                "models: {{m: {{input_modalities: [smell]}}}}\n{plain}"
            )),
            "a.yaml:2:33:",
        ),
        (
            turn(&format!(
                "rules: [{0}, {0}]\n{plain}",
                "compaction.trigger.at_limit"
            )),
            "twice",
        ),
        (reply("fault: {http: 99}"), "99 is no status"),
        (reply("fault: {http: 101}"), "101 is for a handshake"),
        (
            reply("{say: a, headers: {\"b c\": x}}"),
            "no name of a header",
        ),
        (
            reply("{say: a, headers: {b: \"x\\ny\"}}"),
            "not visible ASCII",
        ),
        (
            reply("{say: a, headers: {Content-Length: 5}}"),
            "belongs to the server",
        ),
        (
            reply("{say: a, attempts: {}}"),
            "leaves no request to answer",
        ),
        (reply("{say: a, attempts: 4294967297}"), "more than 10000"),
        (
            reply("{say: a, gate: {after_events: 3, do: [{interrupt: }]}}"),
            "behind the 3 events",
        ),
        (
            reply("{say: a, gate: {after_events: 1, do: [{steer: []}]}}"),
            "without input",
        ),
    ] {
        let found = errors(&source);
        assert!(
            found.iter().any(|error| error.contains(what)),
            "{what}: {found:?}"
        );
    }
}

#[test]
fn contents_exclude_each_other() {
    let found = errors(&with_replies(
        "      - {say: x, reasoning: y}\n      - {usage: 3}\n",
    ));
    assert!(
        found[0].contains("two contents: `say` and `reasoning`"),
        "{found:?}"
    );
    assert!(found[1].contains("a reply without content"), "{found:?}");
}

#[test]
fn scalars_stay_as_written_and_json_is_typed() {
    let plan = plan_on(
        &with_replies(
            "      - call: {tool: lookup, arguments: {path: a, n: 1.10, b: yes, z: 0123, t: true}, \
             output: 1.10}\n      - say: no\n",
        ),
        &NEWEST,
    );
    let ReplyBody::Stream { events, .. } = &plan.steps[0].replies[0].body else {
        panic!()
    };
    let arguments = &events[1]["item"]["arguments"];
    assert_eq!(
        arguments,
        r#"{"path":"a","n":1.1,"b":"yes","z":"0123","t":true}"#
    );
    assert_eq!(
        plan.steps[0].replies[0].tool_answers[0].content[0]["text"],
        "1.10"
    );
    let ReplyBody::Stream { events, .. } = &plan.steps[0].replies[1].body else {
        panic!()
    };
    assert_eq!(events[1]["item"]["content"][0]["text"], "no");
    assert_eq!(events[1]["item"]["id"], "msg_1");
    assert_eq!(events[2]["response"]["id"], "resp_2");
}

#[test]
fn usage_has_four_forms() {
    let plan = plan_on(
        &with_replies(
            "      - {call: {tool: lookup, output: a}, usage: null}\n\
             \x20     - {call: {tool: lookup, output: a}, usage: absent}\n\
             \x20     - {call: {tool: lookup, output: a}, usage: {input: 5, cached: 2, output: 3}}\n\
             \x20     - {say: x, usage: 7}\n",
        ),
        &NEWEST,
    );
    let usage: Vec<_> = plan.steps[0]
        .replies
        .iter()
        .map(|reply| match &reply.body {
            ReplyBody::Stream { events, .. } => events[2]["response"].get("usage").cloned(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(usage[0], Some(json!(null)));
    assert_eq!(usage[1], None);
    let third = usage[2].as_ref().expect("usage");
    assert_eq!(third["total_tokens"], 8);
    assert_eq!(third["input_tokens_details"], json!({"cached_tokens": 2}));
    assert_eq!(usage[3].as_ref().expect("usage")["input_tokens"], 7);
}

#[test]
fn versions_choose_replies_and_ids_stay() {
    let source = with_replies(
        "      - {say: a, versions: '<0.164', reason: only there, end_turn: false}\n\
         \x20     - {say: b, attempts: {'<0.164': 3, '*': 1}, fault: {cut: {after_events: 1}}}\n",
    );
    let old = plan_on(&source, &OLDEST);
    let new = plan_on(&source, &NEWEST);
    assert_eq!(
        (old.steps[0].replies.len(), new.steps[0].replies.len()),
        (2, 1)
    );
    assert_eq!(
        (
            old.steps[0].replies[1].attempts,
            new.steps[0].replies[0].attempts
        ),
        (3, 1)
    );
    assert_eq!(old.steps[0].replies[1].body, new.steps[0].replies[0].body);
    let ReplyBody::Stream { ending, .. } = &new.steps[0].replies[0].body else {
        panic!()
    };
    assert_eq!(*ending, Ending::Cut { after_events: 1 });
}

#[test]
fn a_reply_that_closes_the_socket_parses() {
    let plan = plan_on(
        "description: A socket closes.\nsteps:\n  - user: a\n    client_context: {a: {untrusted: b}}\n    \
         replies: [{fault: {websocket_close: 1011}}]\n",
        &NEWEST,
    );
    let reply = &plan.steps[0].replies[0];
    let ReplyBody::Stream { ending, .. } = &reply.body else {
        panic!("{reply:?}")
    };
    assert_eq!(*ending, Ending::Close { code: 1011 });
    assert_eq!(reply.answers, Answers::Turn);
}

#[test]
fn a_scenario_outside_its_versions_is_not_applicable() {
    let source = with_replies("      - say: x\n") + "versions: '>=0.164'\nreason: newer\n";
    let resolved = load(&source)
        .expect("valid")
        .plan(&OLDEST)
        .expect("resolves");
    assert_eq!(
        resolved,
        Resolved::NotApplicable(">=0.164 only: newer".to_owned())
    );
}

#[test]
fn the_template_is_a_valid_short_scenario() {
    let text = template("A turn that calls a tool answers after it.");
    assert!(text.lines().count() < 10);
    load(&text).expect("the template is valid");
}

#[test]
fn generated_files_equal_the_types() {
    let root = checkout();
    let suite = Suite::open(&root).expect("a suite");
    for (name, text) in crate::cli::schema::generated(&suite).expect("generated texts") {
        let found = std::fs::read_to_string(root.join(name)).expect("a generated file");
        assert!(
            found == text,
            "{name} differs; run: cargo turnproof schema --write"
        );
    }
}

#[test]
fn every_scenario_of_the_checkout_is_valid() {
    let suite = Suite::open(&checkout()).expect("a suite");
    assert!(suite.files.len() >= 45, "{} scenarios", suite.files.len());
    assert!(suite.files.iter().any(SuiteFile::is_canary));
    let errors = crate::cli::lint::lint(&suite.files, Some(&suite));
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn patterns_select_ids_folders_and_globs() {
    let suite = Suite::open(&checkout()).expect("a suite");
    let count = |pattern: &str| suite.select(&[pattern.to_owned()]).map(|files| files.len());
    let one = "turn/answers_a_plain_question";
    assert_eq!(count(one).expect("an id"), 1);
    assert_eq!(
        count(&format!("scenarios/{one}.yaml")).expect("a file name"),
        1
    );
    assert!(count("turn").expect("a folder") > 1 && count("*/resumes_*").expect("a glob") > 1);
    let error = count("turn/answers_a_plain_questio")
        .expect_err("no such id")
        .to_string();
    assert!(error.contains(one), "{error}");
}

/// The checkout, found at run time: tests run in the folder of their package.
fn checkout() -> PathBuf {
    let here = std::env::current_dir().expect("a current folder");
    let root = here
        .ancestors()
        .find(|folder| folder.join("scenarios").is_dir());
    root.expect("a checkout").to_owned()
}

/// Scenarios that differ from a valid one in one line, and what is said of each.
fn said_of(lines: &[(&str, &str)]) {
    for (line, wanted) in lines {
        let source = format!(
            "description: A thing that is wrong.\ntools: {{lookup: {{path: string}}}}\n{line}"
        );
        let found = errors(&source);
        assert!(
            found.iter().any(|error| error.contains(wanted)),
            "{line}: {found:?}"
        );
        let types = ["u64", "usize", "i64", "invalid type", "Some("];
        let said = found.concat();
        assert!(!types.iter().any(|word| said.contains(word)), "{said}");
    }
}

#[test]
fn values_of_a_wrong_type_are_named_in_the_words_of_the_file() {
    said_of(&[
        (
            "steps:\n  - rollback: -3\n",
            "a.yaml:4:15: a mapping is expected here [valid keys: turns]",
        ),
        (
            "steps:\n  - rollback: {turns: -3}\n",
            "a.yaml:4:23: expected a whole number, 0 or more, found `-3`",
        ),
        ("steps:\n  - rollback:\n", "missing key `turns`"),
        (
            "steps:\n  - revert: huh\n",
            "a.yaml:4:13: a mapping is expected here [valid keys: before_turn]",
        ),
        (
            "steps:\n  - revert: {before_turn: huh}\n",
            "expected a whole number, 0 or more, found `huh`",
        ),
        (
            "steps:\n  - fork: {through_turn: 1.5}\n",
            "expected a whole number, 0 or more, found `1.5`",
        ),
        ("steps: 5\n", "expected a list, found `5`"),
        (
            "config: {websockets: maybe}\nsteps: []\n",
            "expected `true` or `false`, found `maybe`",
        ),
        (
            "steps:\n  - {user: a, replies: [{say: b, fault: {http: 99999}}]}\n",
            "expected a whole number from 0 to 65535, found `99999`",
        ),
        (
            "steps:\n  - {user: a, replies: [{say: b, gate: {after_events: 1, do: }}]}\n",
            "expected a list, found nothing",
        ),
    ]);
}

#[test]
fn a_catalogue_that_no_version_starts_with_is_refused() {
    let model = |extra: &str| {
        format!(
            "models: {{main: {{extra: {{{extra}}}}}}}\nsteps:\n  - {{user: a, replies: [{{say: b}}]}}\n"
        )
    };
    let (visibility, slug) = (model("visibility: 4"), model("slug: x"));
    said_of(&[
        (
            &visibility,
            "a.yaml:3:37: `visibility` of a model has to be one of list, hide, none, not `4`",
        ),
        (&slug, "`slug` is set by the harness itself"),
    ]);
}

#[test]
fn what_can_do_nothing_is_refused() {
    let edit = |edit: &str| {
        format!("steps:\n  - {{user: a, replies: [{{say: b}}]}}\n  - edit_rollout: {{{edit}}}\n")
    };
    let reply = |keys: &str| format!("steps:\n  - {{user: a, replies: [{{say: b, {keys}}}]}}\n");
    let no_version = "`attempts` leaves no request to answer on any version";
    said_of(&[
        (&reply("attempts: 0"), no_version),
        (&reply("attempts: {\"<0.1\": 3}"), no_version),
        (&reply("attempts: {}"), no_version),
        (
            "steps:\n  - user: a\n    replies:\n      - {call: {tool: lookup, output: x, \
             while_running: []}}\n      - {say: b}\n",
            "`while_running` says nothing to do",
        ),
        (
            &edit("record: {last: respones_item}, drop: {record: true}"),
            "a.yaml:5:5: no version writes a record `respones_item` [did you mean `response_item`",
        ),
        (
            &edit("record: {last: event_msg/}, drop: {record: true}"),
            "a part of the kind is empty",
        ),
        (
            &edit("record: {last: any}, drop: {key: ordinal}"),
            "`ordinal` is no JSON pointer to a key: it begins with `/`",
        ),
        (
            &edit("record: {last: any}, replace: {key: /a~b, value: 1}"),
            "`/a~b` is no JSON pointer to a key: `~` is written `~0`",
        ),
        (
            &(reply("usage: 1") + "expect: {rollout: {event_msg/turn_abortd: 0}}\n"),
            "did you mean `turn_aborted` for `turn_abortd`?",
        ),
    ]);
    // A kind that the scenario itself brings is known to it.
    let own = edit("append: {line: '{\"type\": \"weather\"}'}")
        + "  - edit_rollout: {record: {last: weather}, drop: {record: true}}\n";
    let source = format!("description: A thing that is right.\n{own}");
    assert_eq!(load(&source).map(|_| ()), Ok(()));
}
