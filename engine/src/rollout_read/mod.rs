//! From rollout lines back to the state of a thread.
//!
//! A thread is read from its end, and no further than it has to be:
//!
//! ```text
//! Lines (parts.rs, lines.rs, blocks.rs) ─ newest first ─► Record (records.rs) ─► Scan (scan.rs)
//!     ├─ which turns survive, where the replay begins       scan.rs
//!     ├─ what the model was last told                       baseline.rs
//!     ├─ the window                                         windows.rs
//!     └─ usage, settings, sequences, retained texts         counted.rs
//!   until nothing is missing; then from the checkpoint on, oldest first ─► Rebuilt (rebuild.rs)
//! ```
//!
//! In a file as the binaries write it that is the newest checkpoint, the rest of its turn and what
//! follows. Where something stands further back the reading goes on, at worst to the first line, and
//! [`Reach`] says for what. Which lines of a damaged file are records is said in lines.rs. Of the records before the checkpoint nothing is kept but what is sought.

mod baseline;
mod blocks;
mod counted;
mod lineage;
pub mod lines;
mod parts;
mod rebuild;
mod records;
mod rollback;
mod scan;
mod stored;
#[cfg(test)]
mod tests;
mod windows;

use std::fmt;
use std::io;

use serde_json::Value;

pub use self::blocks::BLOCK_BYTES;
pub use self::lineage::{Rollouts, lineage};
pub use self::parts::{Part, Place};

use self::lines::Skipped;
use self::parts::{InFiles, InMemory, Lines};
use self::rebuild::Rebuilt;
use self::records::Record;
use self::scan::Scan;
use crate::context;
use crate::history::History;
use crate::planted::Planted;
use crate::profile::Profile;
use crate::rollout::{ForkedFrom, TokenInfo};
use crate::session::{Baseline, Counters, RetainedTexts, Window};
use crate::settings::Truncation;
use crate::tokens::Usage;

/// Why a rollout is no thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// No line is a record.
    Empty,
    /// The first record is not `session_meta`.
    NoMeta,
    /// The release does not know paginated threads.
    Paginated,
    /// The history mode is none that is known.
    UnknownMode,
    /// A line is not UTF-8.
    NotUtf8,
    /// The last record of a paginated thread has no ordinal to go on from.
    NoOrdinal,
    /// The metadata names another thread than the file.
    OtherThread,
    /// The file cannot be written to; what the system says.
    NotWritable(String),
    /// A file that it stands on is not there.
    Lineage,
    /// The file could not be read.
    Io(io::ErrorKind),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "is empty",
            Self::NoMeta => "does not start with session metadata",
            Self::Paginated => "paginated_threads is not supported yet",
            Self::UnknownMode => "unknown variant",
            Self::NotUtf8 => "stream did not contain valid UTF-8",
            Self::NoOrdinal => "is missing an ordinal",
            Self::OtherThread => "belongs to thread",
            Self::NotWritable(reason) => reason,
            Self::Lineage => "stands on a rollout that is missing",
            Self::Io(kind) => return write!(f, "could not be read: {kind}"),
        })
    }
}

impl std::error::Error for Unreadable {}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::Io(error.kind())
    }
}

/// What had to be asked of records before the turn of the newest surviving checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// No checkpoint says what the history was replaced with.
    Checkpoint,
    /// Those that do were rolled back (0.144).
    RolledBackCheckpoint,
    /// Number or id of the window.
    Window,
    /// The turn context that says what the model was told.
    TurnContext,
    /// A whole world state.
    WorldState,
    /// The model of the newest turn of the user.
    Model,
    /// Token numbers of the thread.
    TokenInfo,
    /// Usage of the thread.
    ThreadUsage,
    /// Settings of the thread.
    Settings,
    /// Sequences of the items.
    Sequences,
    /// Order of the inputs.
    Order,
    /// Texts that are retained.
    RetainedTexts,
    /// The last ordinal.
    Ordinal,
}

impl Need {
    /// What is missing, in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Checkpoint => "no checkpoint with a replacement history",
            Self::RolledBackCheckpoint => "the checkpoints were rolled back",
            Self::Window => "number or id of the window",
            Self::TurnContext => "a turn context",
            Self::WorldState => "a whole world state",
            Self::Model => "the model of the newest turn",
            Self::TokenInfo => "token numbers",
            Self::ThreadUsage => "usage of the thread",
            Self::Settings => "settings of the thread",
            Self::Sequences => "sequences of the items",
            Self::Order => "order of the inputs",
            Self::RetainedTexts => "retained texts",
            Self::Ordinal => "the last ordinal",
        }
    }
}

/// How far back a thread was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The oldest record that was looked at.
    pub from: Place,
    /// Bytes from there to the end.
    pub bytes: u64,
    /// It is the first record of the thread.
    pub whole: bool,
    /// For what it went on behind the turn of the newest surviving checkpoint.
    pub needs: Vec<Need>,
}

/// A thread, and how far back it had to be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The thread.
    pub found: Found,
    /// How far back.
    pub reach: Reach,
}

/// What the lines say of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Thread id.
    pub thread: String,
    /// Session id.
    pub session_id: String,
    /// The thread that it was forked from.
    pub forked_from: Option<ForkedFrom>,
    /// Newest turn that the user began, as far as it was read.
    pub attributed_turn: Option<String>,
    /// Id of the first window.
    pub first_window: String,
    /// Current window.
    pub window: Window,
    /// Live history.
    pub history: History,
    /// Token numbers.
    pub info: Option<TokenInfo>,
    /// A checkpoint came behind the token numbers.
    pub uncounted: bool,
    /// Usage of the thread, compactions included.
    pub thread_usage: Usage,
    /// Running numbers.
    pub counters: Counters,
    /// Retained texts.
    pub retained: RetainedTexts,
    /// Base instructions that the thread began with.
    pub base: Option<String>,
    /// Model whose base instructions they are, where it is said.
    pub base_model: Option<String>,
    /// Working directory of the thread.
    pub cwd: Option<String>,
    /// Sandbox mode of the thread; `None` where the config says it.
    pub sandbox: Option<String>,
    /// Approval policy of the thread; `None` where the config says it.
    pub approval: Option<String>,
    /// Model of the newest turn.
    pub model: Option<String>,
    /// Model that the context was last told of.
    pub told_model: Option<String>,
    /// Reasoning effort last recorded.
    pub effort: Option<String>,
    /// Model that the thread was last given.
    pub given_model: Option<String>,
    /// Service tier of the thread; `None` where the config says it.
    pub service_tier: Option<String>,
    /// Summaries of reasoning that the newest settings ask for.
    pub summary: Option<String>,
    /// The event that last said the settings of the thread, for a release that goes by it.
    pub applied: Option<Value>,
    /// What the model was told; `None` where it has to be told everything.
    pub baseline: Option<Baseline>,
    /// Next ordinal; `None` in a thread without ordinals.
    pub next_ordinal: Option<u64>,
    /// The metadata was found.
    pub begun: bool,
    /// The newest file ends inside a line.
    pub open_end: bool,
    /// Lines that were left out, where they are told.
    pub skipped: Vec<Skipped>,
}

/// Reads a thread from its lines; outputs are cut by the policy in force.
pub fn read(lines: &[Value], profile: &Profile, policy: Truncation) -> Result<Found, Unreadable> {
    reading(&mut InMemory::new(lines), profile, policy).map(|reading| reading.found)
}

/// Reads a thread from its files, the oldest first, in blocks of so many bytes. What damage further
/// back would do to it is not looked for: [`read_thread`] does.
pub fn read_files(
    parts: &[Part],
    block_bytes: usize,
    profile: &Profile,
    policy: Truncation,
) -> Result<Reading, Unreadable> {
    let mut lines = InFiles::new(parts, block_bytes, profile);
    reading(&mut lines, profile, policy)
}

/// Lines of a thread that are no records, where the profile tells them.
fn skipped(parts: &[Part], profile: &Profile) -> Result<Vec<Skipped>, Unreadable> {
    if profile.skips_silently {
        return Ok(Vec::new());
    }
    InFiles::new(parts, BLOCK_BYTES, profile).skipped()
}

/// Reads the thread that its files name, the oldest first, as a resume does. All bytes are looked at
/// only where one of them can refuse the thread (0.144), or where every line that is left out is told.
pub fn read_thread(
    thread: &str,
    parts: &[Part],
    profile: &Profile,
    policy: Truncation,
) -> Result<Reading, Unreadable> {
    if profile.refuses_invalid_utf8 {
        InFiles::new(parts, BLOCK_BYTES, profile).all_utf8()?;
    }
    let skipped = skipped(parts, profile)?;
    let mut reading = read_files(parts, BLOCK_BYTES, profile, policy)?;
    let found = &mut reading.found;
    if !found.begun {
        thread.clone_into(&mut found.thread);
        thread.clone_into(&mut found.session_id);
    }
    if found.thread != thread && profile.checks_thread_id {
        return Err(Unreadable::OtherThread);
    }
    found.skipped = skipped;
    found.open_end = match parts.last() {
        Some(newest) => newest.open_end()?,
        None => false,
    };
    Ok(reading)
}

/// Shows every record of a thread, oldest first.
pub fn each_line(
    parts: &[Part],
    profile: &Profile,
    show: &mut dyn FnMut(Place, &Value),
) -> Result<(), Unreadable> {
    let lines = InFiles::new(parts, BLOCK_BYTES, profile);
    lines.from(Place::default(), &mut |place, line| {
        show(place, line);
        false
    })
}

fn reading(
    lines: &mut dyn Lines,
    profile: &Profile,
    policy: Truncation,
) -> Result<Reading, Unreadable> {
    let meta = meta(lines, profile)?;
    let meta = meta.as_ref().map(|line| &line["payload"]);
    let mode = meta.map_or(&Value::Null, |meta| &meta["history_mode"]);
    if !(mode.is_null() || mode == "legacy" || mode == "paginated") {
        return Err(if profile.usage_records {
            Unreadable::UnknownMode
        } else {
            Unreadable::NoMeta
        });
    }
    if mode == "paginated" && !profile.usage_records {
        return Err(Unreadable::Paginated);
    }
    let paginated = (meta.is_none() || mode == "paginated") && profile.usage_records;
    let oldest = first(lines, Place::default(), &mut |line| {
        Record::of(line, profile).is_some()
    })?;
    let oldest = oldest.map_or_else(Place::default, |(at, _)| at);
    let mut found = Found::of(meta.unwrap_or(&Value::Null));
    found.begun = meta.is_some();
    let (scan, reach, ordinals) = scan(lines, oldest, paginated, profile)?;
    if paginated {
        if !ordinals.at_end && profile.needs_last_ordinal {
            return Err(Unreadable::NoOrdinal);
        }
        let next = ordinals.last.map_or(0, |last| last.saturating_add(1));
        found.next_ordinal = Some(next);
    }
    let (mut from, mut behind) = scan.start.replay();
    if profile.plants(Planted::CheckpointAdded) {
        (from, behind) = (Place::default(), false);
    }
    let mut forgets = false;
    let mut rebuilt = Rebuilt {
        summarised_anew: scan.start.summarised_before(),
        ..Rebuilt::default()
    };
    lines.from(from, &mut |place, line| {
        if !(behind && place == from)
            && let Some(record) = Record::of(line, profile)
            && !forgets
        {
            let installs = place == from && matches!(record, Record::Checkpoint(_));
            forgets = installs && profile.plants(Planted::SuffixForgotten);
            rebuilt.take(record, policy, profile);
        }
        false
    })?;
    found.history = rebuilt.history;
    found.uncounted = rebuilt.uncounted;
    found.attributed_turn = scan.attributed;
    let (model, baseline) = scan.told.told();
    found.baseline = baseline.filter(|_| !rebuilt.summarised_anew);
    found.model = model;
    found.window = scan.windows.window(&found.first_window);
    scan.counted.into_found(&mut found);
    found.told_model = found.announced_model().or(found.model.clone());
    Ok(Reading { found, reach })
}

/// The metadata of the newest file: its first record, or the first that is metadata where their place
/// is not held to.
fn meta(lines: &dyn Lines, profile: &Profile) -> Result<Option<Value>, Unreadable> {
    let from = lines.newest_part();
    let is_meta = |line: &Value| matches!(Record::of(line, profile), Some(Record::Meta(_)));
    if !profile.needs_meta_first {
        let meta = first(lines, from, &mut |line| is_meta(line))?;
        return Ok(meta.map(|(_, meta)| meta));
    }
    let is_record = &mut |line: &Value| Record::of(line, profile).is_some();
    let (_, meta) = first(lines, from, is_record)?.ok_or(Unreadable::Empty)?;
    if !is_meta(&meta) {
        return Err(Unreadable::NoMeta);
    }
    Ok(Some(meta))
}

/// The first line from a place on that is wanted.
fn first(
    lines: &dyn Lines,
    from: Place,
    wanted: &mut dyn FnMut(&Value) -> bool,
) -> Result<Option<(Place, Value)>, Unreadable> {
    let mut first = None;
    lines.from(from, &mut |place, line| {
        if wanted(line) {
            first = Some((place, line.clone()));
        }
        first.is_some()
    })?;
    Ok(first)
}

/// The ordinals at the end of a thread.
struct Ordinals {
    /// The newest one.
    last: Option<u64>,
    /// The newest line has it, or there is none.
    at_end: bool,
}

/// Reads back until nothing is missing.
fn scan<'p>(
    lines: &mut dyn Lines,
    oldest: Place,
    paginated: bool,
    profile: &'p Profile,
) -> Result<(Scan<'p>, Reach, Ordinals), Unreadable> {
    let mut scan = Scan::new(profile);
    let mut ordinals = Ordinals {
        last: None,
        at_end: true,
    };
    let mut needs = None;
    let mut from = oldest;
    while let Some((place, line)) = lines.before()? {
        if line.is_object() && ordinals.last.is_none() {
            ordinals.last = line["ordinal"].as_u64();
            ordinals.at_end &= ordinals.last.is_some();
        }
        let Some(record) = Record::of(&line, profile) else {
            continue;
        };
        from = place;
        let ends = scan.take(place, &record, place == oldest);
        if place == oldest {
            break;
        }
        if ends && scan.start.may_suffice() {
            let mut open = scan.needs();
            open.extend((paginated && ordinals.last.is_none()).then_some(Need::Ordinal));
            if open.is_empty() {
                break;
            }
            needs.get_or_insert(open);
        }
    }
    let whole = from == oldest;
    let mut needs = needs.unwrap_or_default();
    needs.extend(scan.start.need().filter(|_| whole));
    needs.sort_unstable();
    let reach = Reach {
        from,
        bytes: lines.bytes_from(from),
        whole,
        needs,
    };
    Ok((scan, reach, ordinals))
}

impl Found {
    fn of(meta: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let window = text(&meta["context_window"]["window_id"]);
        Self {
            thread: text(&meta["id"]),
            session_id: text(meta.get("session_id").unwrap_or(&meta["id"])),
            forked_from: meta["forked_from_id"].as_str().map(|thread| ForkedFrom {
                thread: thread.to_owned(),
                ordinal: meta["forked_from_ordinal_exclusive"].as_u64(),
            }),
            attributed_turn: None,
            first_window: window.clone(),
            window: Window {
                number: 0,
                id: window.clone(),
                first: window,
                previous: None,
            },
            history: History::default(),
            info: None,
            uncounted: false,
            thread_usage: Usage::default(),
            counters: Counters::default(),
            retained: RetainedTexts::default(),
            base: meta["base_instructions"]["text"]
                .as_str()
                .map(str::to_owned),
            base_model: meta["base_instructions"]["provenance"]["model"]
                .as_str()
                .map(str::to_owned),
            cwd: meta["cwd"].as_str().map(str::to_owned),
            sandbox: None,
            approval: None,
            model: None,
            told_model: None,
            effort: None,
            given_model: None,
            service_tier: None,
            summary: None,
            applied: None,
            baseline: None,
            next_ordinal: None,
            begun: true,
            open_end: false,
            skipped: Vec::new(),
        }
    }

    /// The model of the world state, where the history shows that a model was announced: a change
    /// inside a turn has no turn context. Without an announcement the world state is not asked.
    fn announced_model(&self) -> Option<String> {
        let told = self.baseline.as_ref()?.state.get("model")?.as_str()?;
        let announced = self.history.items().iter().any(context::announces_model);
        announced.then(|| told.to_owned())
    }
}
