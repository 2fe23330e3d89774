//! Swarm: each session switches whole kinds off and weighs the others, so that rare mixes come up.
//!
//! All of it is drawn before anything else, and printed.

use std::fmt;

use super::dice::Dice;
use super::reach::{Group, Reach};

/// Largest weight of a kind.
const WEIGHT_MAX: u64 = 8;

/// Something that can be switched off, with a name.
pub(super) trait Kind: Copy + PartialEq + fmt::Debug + 'static {
    /// Every kind; the first one is never switched off.
    const ALL: &'static [Self];

    /// Its place in the list.
    fn index(self) -> u32;
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Set<K> {
    bits: u32,
    kind: std::marker::PhantomData<K>,
}

impl<K> Default for Set<K> {
    fn default() -> Self {
        Self {
            bits: 0,
            kind: std::marker::PhantomData,
        }
    }
}

impl<K: Kind> Set<K> {
    pub(super) fn add(&mut self, kind: K) {
        self.bits |= 1 << kind.index();
    }

    pub(super) fn has(self, kind: K) -> bool {
        self.bits & (1 << kind.index()) != 0
    }

    /// Those that are in it.
    pub(super) fn kinds(self) -> impl Iterator<Item = K> {
        K::ALL.iter().copied().filter(move |kind| self.has(*kind))
    }
}

macro_rules! kinds {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $one:literal])+ $variant:ident,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) enum $name { $($(#[doc = $one])+ $variant,)+ }

        impl Kind for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn index(self) -> u32 {
                self as u32
            }
        }
    };
}

kinds! {
    /// What a client does.
    StepKind {
        /// A turn.
        User,
        /// A manual compaction.
        Compact,
        /// Settings between turns.
        Settings,
        /// Items put into the history.
        Inject,
        /// The process ends, and the thread is resumed in a new one.
        Restart,
        /// The thread is resumed in the process that holds it.
        ResumeLive,
        /// A fork that is gone on with.
        Fork,
        /// A rollback or a revert.
        Back,
        /// The storage fails.
        Storage,
    }
}

kinds! {
    /// What a response holds.
    ReplyKind {
        /// A message.
        Say,
        /// A call.
        Call,
        /// Several calls.
        Calls,
        /// A call of a tool that there is not.
        UnknownTool,
        /// Reasoning before a message.
        Reasoning,
        /// Items of any kind, as a fuzzer draws them.
        Raw,
        /// No item at all.
        Nothing,
        /// A message that does not end the turn.
        NoEnd,
        /// Several messages.
        Messages,
    }
}

kinds! {
    /// What goes wrong with an answer.
    FaultKind {
        /// Nothing.
        None,
        /// A status instead of a stream.
        Http,
        /// The window is too small for the request.
        Window,
        /// The stream breaks.
        Cut,
        /// `response.failed`.
        Failed,
        /// `response.incomplete`.
        Incomplete,
        /// The stream ends without its last event.
        NoCompleted,
        /// The connection closes with nothing sent.
        Drop,
        /// A data line that is no JSON.
        Malformed,
        /// An event that comes twice.
        Duplicate,
        /// Too many requests.
        RateLimit,
    }
}

kinds! {
    /// What a client does in a stream or a call.
    ActKind {
        /// Nothing.
        None,
        /// More input.
        Steer,
        /// An interrupt.
        Interrupt,
        /// Settings of the thread.
        Settings,
        /// Settings of the turn.
        TurnSettings,
    }
}

kinds! {
    /// What a provider counts.
    UsageKind {
        /// A small number.
        Small,
        /// About what was sent.
        Honest,
        /// Next to a limit.
        Near,
        /// Over a limit.
        Over,
        /// Nothing.
        Zero,
        /// No usage.
        Absent,
        /// A usage of null.
        Null,
    }
}

kinds! {
    /// What a turn has besides its text.
    ExtraKind {
        /// Nothing.
        None,
        /// Another effort.
        Effort,
        /// Another summary.
        Summary,
        /// Another model.
        Model,
        /// Another folder.
        Cwd,
        /// Another sandbox.
        Sandbox,
        /// Another approval policy.
        Approval,
        /// Another service tier.
        Tier,
        /// A schema of the answer.
        Schema,
        /// Metadata of the client.
        Metadata,
        /// Context of the client.
        Context,
        /// An image.
        Image,
        /// A long text.
        Long,
        /// A text with a tag that the client itself writes.
        Contextual,
    }
}

kinds! {
    /// How a compaction is done, and when.
    Branch {
        /// None was asked for.
        None,
        /// By the model of the turn, before a turn.
        LocalPreTurn,
        /// In the middle of one.
        LocalMidTurn,
        /// On its own.
        LocalStandalone,
        /// Behind a turn.
        LocalPostTurn,
        /// By the provider (0.144), before a turn.
        RemoteV1PreTurn,
        /// In the middle of one.
        RemoteV1MidTurn,
        /// On its own.
        RemoteV1Standalone,
        /// By the provider, before a turn.
        RemoteV2PreTurn,
        /// In the middle of one.
        RemoteV2MidTurn,
        /// On its own.
        RemoteV2Standalone,
        /// Behind a turn.
        RemoteV2PostTurn,
    }
}

impl Branch {
    /// The branch that a request for a compaction tells of.
    pub(super) fn of(implementation: &str, phase: Option<&str>) -> Self {
        match (implementation, phase) {
            ("local", Some("pre_turn")) => Self::LocalPreTurn,
            ("local", Some("mid_turn")) => Self::LocalMidTurn,
            ("local", Some("post_turn")) => Self::LocalPostTurn,
            ("local", _) => Self::LocalStandalone,
            ("remote_v1", Some("pre_turn")) => Self::RemoteV1PreTurn,
            ("remote_v1", Some("mid_turn")) => Self::RemoteV1MidTurn,
            ("remote_v1", _) => Self::RemoteV1Standalone,
            (_, Some("pre_turn")) => Self::RemoteV2PreTurn,
            (_, Some("mid_turn")) => Self::RemoteV2MidTurn,
            (_, Some("post_turn")) => Self::RemoteV2PostTurn,
            (_, _) => Self::RemoteV2Standalone,
        }
    }
}

/// Kinds with their weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Weights<K>(Vec<(K, u64)>);

impl<K: Kind> Weights<K> {
    /// Half of the kinds that are allowed, each with a weight.
    fn draw(dice: &mut Dice, allowed: impl Fn(K) -> bool) -> Self {
        let first = K::ALL[0];
        let mut drawn = vec![(first, 1 + dice.below(WEIGHT_MAX))];
        for kind in K::ALL.iter().skip(1).filter(|kind| allowed(**kind)) {
            let weight = 1 + dice.below(WEIGHT_MAX);
            if dice.below(2) == 1 {
                drawn.push((*kind, weight));
            }
        }
        Self(drawn)
    }

    /// The weight of the first kind times so many.
    fn mostly_first(mut self, times: u64) -> Self {
        if let Some((_, weight)) = self.0.first_mut() {
            *weight *= times;
        }
        self
    }

    /// One of them.
    pub(super) fn pick(&self, dice: &mut Dice) -> K {
        let sum = self.0.iter().map(|(_, weight)| weight).sum();
        let mut at = dice.below(sum);
        for (kind, weight) in &self.0 {
            if at < *weight {
                return *kind;
            }
            at -= weight;
        }
        K::ALL[0]
    }
}

impl<K: Kind> fmt::Display for Weights<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, weight)) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { ", " };
            write!(f, "{gap}{kind:?} {weight}")?;
        }
        Ok(())
    }
}

/// All drawn options of a session.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Swarm {
    /// Steps that the session has at most.
    pub steps: usize,
    /// Requests behind which it ends.
    pub requests: usize,
    pub step: Weights<StepKind>,
    pub reply: Weights<ReplyKind>,
    pub fault: Weights<FaultKind>,
    pub act: Weights<ActKind>,
    pub usage: Weights<UsageKind>,
    pub extra: Weights<ExtraKind>,
}

/// Steps of a session, at least and at most.
const STEPS: (u64, u64) = (5, 60);
/// Requests of a session, at least and at most.
const REQUESTS: (u64, u64) = (8, 34);
/// The same where each of them costs a real binary's time.
const REQUESTS_REAL: (u64, u64) = (4, 14);
/// How much likelier nothing is than each fault, act and extra.
const NOTHING_TIMES: u64 = 6;

impl Swarm {
    pub(super) fn draw(dice: &mut Dice, reach: Reach) -> Self {
        let requests = if reach.repeatable {
            REQUESTS_REAL
        } else {
            REQUESTS
        };
        let mut between = |(low, high): (u64, u64)| {
            let number = low + dice.below(high - low + 1);
            usize::try_from(number).unwrap_or(usize::MAX)
        };
        let (steps, requests) = (between(STEPS), between(requests));
        let storage = reach.faults.has(Group::Storage);
        Self {
            steps,
            requests,
            step: Weights::draw(dice, |kind| storage || kind != StepKind::Storage).mostly_first(3),
            reply: Weights::draw(dice, |_| true),
            fault: Weights::draw(dice, |kind| reach.allows(kind)).mostly_first(NOTHING_TIMES),
            act: Weights::draw(dice, |_| true).mostly_first(NOTHING_TIMES),
            usage: Weights::draw(dice, |_| true).mostly_first(2),
            extra: Weights::draw(dice, |_| true).mostly_first(2),
        }
    }
}

impl fmt::Display for Swarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "at most {} steps, {} requests",
            self.steps, self.requests
        )?;
        writeln!(f, "steps:  {}", self.step)?;
        writeln!(f, "items:  {}", self.reply)?;
        writeln!(f, "faults: {}", self.fault)?;
        writeln!(f, "acts:   {}", self.act)?;
        writeln!(f, "usage:  {}", self.usage)?;
        write!(f, "extras: {}", self.extra)
    }
}
