//! Planted faults: what an engine can be made to do wrong, one rule at a time.
//!
//! A test that looks for faults (a checker, a shrinker, a fuzzer) is itself tested by an engine that
//! has one. Each fault breaks one rule in one place and nothing else; `Profile::plants` is asked
//! there. Nothing but a test plants one: the rows of [`Profile::of`] have none.

use crate::profile::Profile;

/// What a fault goes against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// Calls and outputs belong together.
    Pairing,
    /// Where an item stands.
    Order,
    /// What a compaction keeps.
    Retention,
    /// When a compaction is due.
    Trigger,
    /// What comes back from a rollout.
    Resume,
    /// What the model is told of its surroundings.
    Context,
    /// How much of an output is sent.
    Truncation,
    /// What is written down.
    Records,
    /// What is counted.
    Usage,
    /// How a turn ends.
    Ending,
}

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $area:ident;)+) => {
        /// A fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Planted {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Planted {
            /// Every fault, by area.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name on a command line.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// What it goes against.
            pub fn area(self) -> Area {
                match self { $(Self::$variant => Area::$area),+ }
            }
        }
    };
}

faults! {
    /// A call without an output is sent without one.
    CallLeftOpen = "call_left_open", Pairing;
    /// An output without its call is sent.
    LoneOutputKept = "lone_output_kept", Pairing;
    /// An output is recorded twice.
    OutputTwice = "output_twice", Pairing;
    /// The stand-in for an output stands at the end and not behind its call.
    OutputAtEnd = "output_at_end", Order;
    /// Outputs of one response come in reverse.
    OutputsReversed = "outputs_reversed", Order;
    /// Kept texts come newest first.
    KeptReversed = "kept_reversed", Order;
    /// The summary stands before what was kept.
    SummaryFirst = "summary_first", Order;
    /// A local compaction loses the oldest of several kept texts.
    OldestTextLost = "oldest_text_lost", Retention;
    /// A local compaction keeps images.
    ImagesKept = "images_kept", Retention;
    /// A remote compaction keeps no text of the user.
    RemoteTextsLost = "remote_texts_lost", Retention;
    /// What the user said while a turn ran is lost when the turn compacts.
    SteerLost = "steer_lost", Retention;
    /// The limit has to be passed, and not only reached.
    LimitPassed = "limit_passed", Trigger;
    /// Only the usage of the server counts toward the limit.
    EstimateIgnored = "estimate_ignored", Trigger;
    /// A turn never compacts in its middle.
    MidTurnSkipped = "mid_turn_skipped", Trigger;
    /// A model with a smaller window does not make the one before compact.
    SwitchIgnored = "switch_ignored", Trigger;
    /// A checkpoint is added to the history and does not replace it.
    CheckpointAdded = "checkpoint_added", Resume;
    /// What stands behind the newest checkpoint does not come back.
    SuffixForgotten = "suffix_forgotten", Resume;
    /// Token counts do not come back.
    UsageForgotten = "usage_forgotten", Resume;
    /// The thread goes on with the model of the config.
    ModelForgotten = "model_forgotten", Resume;
    /// What the model was told does not come back.
    BaselineForgotten = "baseline_forgotten", Resume;
    /// A change of the surroundings is not told.
    ChangeUntold = "change_untold", Context;
    /// A replacement history holds no context.
    ContextLost = "context_lost", Context;
    /// Every turn is told everything.
    ContextTwice = "context_twice", Context;
    /// A model that takes no images gets them.
    ImagesToBlind = "images_to_blind", Context;
    /// Outputs are not cut.
    OutputUncut = "output_uncut", Truncation;
    /// A checkpoint is not written.
    CheckpointUnwritten = "checkpoint_unwritten", Records;
    /// A compaction opens no new window.
    WindowStuck = "window_stuck", Records;
    /// Usage is added to the thread's total twice.
    UsageDoubled = "usage_doubled", Usage;
    /// A stream that broke off is not asked for again.
    RetryForgotten = "retry_forgotten", Ending;
    /// The model does not learn that a turn was interrupted.
    AbortUntold = "abort_untold", Ending;
    /// An interrupted turn waits for ever.
    WaitsForEver = "waits_for_ever", Ending;
}

impl Planted {
    /// The fault of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.name() == name)
    }
}

impl Profile {
    /// Whether this engine was given that fault.
    pub(crate) fn plants(&self, fault: Planted) -> bool {
        self.planted == Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Version;

    #[test]
    fn every_fault_has_a_name_of_its_own_and_no_family_has_one() {
        let mut names: Vec<&str> = Planted::ALL.iter().map(|fault| fault.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Planted::ALL.len());
        for fault in Planted::ALL {
            assert_eq!(Planted::named(fault.name()), Some(*fault));
        }
        assert!(Planted::ALL.is_sorted_by_key(|fault| fault.area()));
        for version in [Version::V144, Version::V164, Version::V171] {
            assert_eq!(Profile::of(version).planted, None);
        }
    }
}
