//! The law holds on `engine@V+fixed` and is broken on a release that has the faults.

use super::*;
use crate::driver::engine::EngineDriver;
use crate::scenario::{Suite, VERSIONS};

fn plan(id: &str, version: usize) -> Plan {
    let suite = Suite::find(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))).expect("a suite");
    let files = suite.select(&[id.to_owned()]).expect("the scenario");
    let loaded = suite.load(files[0]).expect("valid");
    match loaded.plan(&VERSIONS[version]).expect("resolves") {
        Resolved::Applicable(plan) => *plan,
        Resolved::NotApplicable(why) => panic!("{why}"),
    }
}

async fn summary(subject: &str, version: usize) -> Summary {
    let driver = EngineDriver::new(subject).expect("a subject");
    let plan = plan("rollout/resumes_after_a_kill", version);
    points(&driver, &plan).await.expect("runs")
}

#[tokio::test(flavor = "current_thread")]
async fn nothing_acknowledged_is_lost_where_the_faults_are_mended() {
    for (version, subject) in ["0.144+fixed", "0.164+fixed", "0.171+fixed"]
        .iter()
        .enumerate()
    {
        let summary = summary(subject, version).await;
        assert!(summary.points > 30, "{subject}: {}", summary.points);
        assert_eq!(summary.broken, [], "{subject}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_release_loses_a_thread_without_metadata_and_0_144_what_it_glues() {
    let old = summary("0.144", 0).await;
    let told = format!("{:?}", old.broken);
    assert!(told.contains("is empty"), "{told}");
    assert!(old.broken.len() > 2, "{told}");
    let new = summary("0.171", 2).await;
    let told = format!("{:?}", new.broken);
    assert!(told.contains("is empty"), "{told}");
    assert!(new.broken.len() <= 2, "{told}");
}
