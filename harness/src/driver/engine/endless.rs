//! A turn that a release never ends is ended by our engine, and says so (upstream finding 31).

use super::{Profile, Run, Version};
use crate::scenario::{Resolved, load_bytes};

const PLAN: &str = "\
description: A steer waits while the compaction of its turn fails.
rules: [steer.failed_turn]
config: {request_max_retries: 0, stream_max_retries: 0}
models: {main: {auto_compact_token_limit: 500}}
tools: {lookup: {path: string}}
steps:
  - user: Look.
    ends: failed
    replies:
      - {call: {tool: lookup, arguments: {}, output: o, while_running: [{steer: More.}]}, usage: 600}
";

#[tokio::test(flavor = "current_thread")]
async fn a_turn_that_is_begun_anew_for_ever_ends() {
    let loaded = load_bytes("case", "endless", PLAN.as_bytes(), None).expect("a scenario");
    let resolved = loaded.plan(&semver::Version::new(0, 144, 6));
    let Resolved::Applicable(plan) = resolved.expect("resolves") else {
        panic!("it holds for 0.144.6");
    };
    let mut run = Run::new(Profile::of(Version::V144), &plan);
    run.step(&plan.steps[0]).await.expect("the turn ends");
    let events = format!("{:?}", run.seen.take());
    assert!(
        events.contains("times anew (SAMPLINGS_MAX)"),
        "{} bytes",
        events.len()
    );
}
