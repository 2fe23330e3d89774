//! What a case does to the process that it shares is not the fate of its neighbours.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{Plan, message, plan, reply, steer_and_compact, user};
use crate::driver::codex::{CodexDriver, Source};
use crate::driver::{Driver as _, NoVerdict};
use crate::scenario::plan::{Ending, Ends, ReplyBody, TurnStatus};

/// Between two looks for the process.
const POLL: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "current_thread")]
#[ignore = "needs a real binary: run by cargo xtask ci"]
async fn a_model_that_no_server_starts_with_fails_alone() {
    let mut bad = steer_and_compact();
    bad.id = "bad".to_owned();
    bad.models[0].extra = vec![("visibility".to_owned(), json!(4))];
    let plans: Vec<Plan> = vec![steer_and_compact(), bad, steer_and_compact()];
    let source = Source::Version("0.171.0".into());
    let driver = CodexDriver::new(&source, &plans, 4)
        .await
        .expect("a driver");
    let runs = plans.iter().map(|plan| driver.run(plan));
    let outcomes = futures_util::future::join_all(runs).await;
    for good in [&outcomes[0], &outcomes[2]] {
        assert_eq!(good.as_ref().expect("a verdict").findings, []);
    }
    let why = match &outcomes[1] {
        Err(NoVerdict::Refused(why)) => why,
        other => panic!("refused, not {other:?}"),
    };
    assert!(
        why.contains("not with the `models` and the `config` of bad"),
        "{why}"
    );
    assert!(why.contains("invalid type: integer `4`"), "{why}");
    driver.close().await;
}

#[tokio::test(flavor = "current_thread")]
#[ignore = "needs a real binary: run by cargo xtask ci"]
async fn a_case_whose_shared_process_died_runs_again() {
    let mut stalled = reply("step 1 reply 1", &[message("One.")], 1_000);
    if let ReplyBody::Stream { ending, .. } = &mut stalled.body {
        *ending = Ending::Stall { after_events: 1 };
    }
    stalled.delivered_cut = true;
    let mut plan = plan("stall", vec![(user("a"), vec![stalled])]);
    plan.config.stream_idle_timeout_ms = Some(1_500);
    plan.steps[0].ends = Some(Ends {
        status: TurnStatus::Failed,
        message: Some("idle timeout".into()),
    });
    let source = Source::Version("0.171.0".into());
    let driver = CodexDriver::new(&source, &[], 1).await.expect("a driver");
    let kill = async {
        let pid = loop {
            match driver.pool.shared_process().await.and_then(Pid::from_raw) {
                Some(pid) => break pid,
                None => tokio::time::sleep(POLL).await,
            }
        };
        kill_process(pid, Signal::KILL).expect("the process is there");
    };
    let (outcome, ()) = tokio::join!(driver.run(&plan), kill);
    assert_eq!(outcome.expect("a verdict").findings, []);
    driver.close().await;
}
