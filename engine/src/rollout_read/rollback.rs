//! What a rollback leaves of a history.

use crate::history::History;
use crate::items::Item;
use crate::profile::Profile;
use crate::{context, contextual};

/// Whether a turn is counted from this item: a message that the user wrote, also one that steered a
/// running turn, or a message of another agent. A summary counts on 0.144.
pub(super) fn is_boundary(item: &Item, profile: &Profile) -> bool {
    match item.kind() {
        "agent_message" => true,
        "message" if item.role() == "user" => {
            let summary = item.texts().first().is_some_and(|t| context::is_summary(t));
            !contextual::is_contextual(item) && (profile.counts_summaries_as_turns || !summary)
        }
        _ => false,
    }
}

/// Cuts the history at the n-th last boundary, or at the first where there are fewer.
pub(super) fn cut(history: &mut History, turns: u64, profile: &Profile) {
    let items = history.items();
    let boundaries: Vec<usize> = (0..items.len())
        .filter(|index| is_boundary(&items[*index], profile))
        .collect();
    let Some(first) = boundaries.first().copied().filter(|_| turns > 0) else {
        return;
    };
    let turns = usize::try_from(turns).unwrap_or(usize::MAX);
    let mut end = boundaries[boundaries.len().saturating_sub(turns)];
    // The context that was told for the turn goes with it; that of the thread stays.
    while end > first && context::is_context(&items[end - 1]) {
        end -= 1;
    }
    history.truncate(end);
}
