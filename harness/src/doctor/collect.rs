//! Takes the lines of a file one by one and hands them to those who count and judge.

use engine::profile::{Profile, Version};
use serde_json::{Value, json};

use super::checkpoints::{self, CHECKPOINTS_MAX, Checkpoint};
use super::defects::Defects;
use super::findings::{Findings, Severity};
use super::images::{Images, ImagesReport, WASTED_BYTES_WARNED};
use super::kinds::{Kind, Kinds};
use super::live::{Live, stored};
use super::ordinals::Ordinals;
use super::session::{Session, family};
use super::turns::{Recorded, Turn, Turns};
use super::{is_dropped, shown};
use crate::rollout_file::{Defect, Line, Place, Record};

/// Types of records that are known; others are ignored by every version.
const RECORD_TYPES: [&str; 9] = [
    "session_meta",
    "response_item",
    "compacted",
    "turn_context",
    "world_state",
    "token_usage_record",
    "event_msg",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
];

/// Characters of a broken line that are shown to a reader who asked for texts.
const LINE_CHARS: usize = 100;

/// What a pass over a file found.
#[derive(Debug)]
pub struct Collected {
    /// Findings.
    pub findings: Findings,
    /// Lines.
    pub lines: u64,
    /// Lines that hold a record.
    pub records: u64,
    /// Records by kind.
    pub kinds: Vec<Kind>,
    /// Facts of the thread.
    pub session: Session,
    /// Turns.
    pub turns: Vec<Turn>,
    /// Turns beyond the bound.
    pub turns_left_out: u64,
    /// Checkpoints.
    pub checkpoints: Vec<Checkpoint>,
    /// Checkpoints beyond the bound.
    pub checkpoints_left_out: u64,
    /// Images.
    pub images: ImagesReport,
    /// Where a resume begins to read: at the newest checkpoint that it takes.
    pub resume_from: Place,
    /// The record of the session metadata, if a resume finds it.
    pub meta: Option<Value>,
    /// Number of the current window.
    pub window: u64,
    /// The newest checkpoint says that number.
    pub window_recorded: bool,
    /// Family of the version that began the file.
    pub version: Version,
}

/// The first pass.
#[derive(Debug)]
pub struct Collector {
    file_name: String,
    show_text: bool,
    profile: Profile,
    out: Findings,
    kinds: Kinds,
    session: Session,
    ordinals: Ordinals,
    images: Images,
    turns: Turns,
    checkpoints: Vec<Checkpoint>,
    lines: u64,
    records: u64,
    /// A line that is not blank was met.
    begun: bool,
    /// The first line that is not blank holds session metadata: a resume takes the file.
    headed: bool,
    defects: Defects,
    meta: Option<Value>,
    live: Live,
    recorded: Recorded,
    window: u64,
    window_recorded: bool,
    /// The newest checkpoint still waits for the usage behind it.
    awaits_usage: bool,
    /// A turn context stands behind the newest checkpoint.
    baseline: bool,
    resume_from: Place,
}

impl Collector {
    /// A collector for a file of this name.
    pub fn new(file_name: &str, show_text: bool) -> Self {
        Self {
            file_name: file_name.to_owned(),
            show_text,
            profile: Profile::of(Version::V171),
            out: Findings::default(),
            kinds: Kinds::default(),
            session: Session::default(),
            ordinals: Ordinals::default(),
            images: Images::default(),
            turns: Turns::default(),
            checkpoints: Vec::new(),
            lines: 0,
            records: 0,
            begun: false,
            headed: false,
            defects: Defects::default(),
            meta: None,
            live: Live::default(),
            recorded: Recorded::default(),
            window: 0,
            window_recorded: false,
            awaits_usage: false,
            baseline: false,
            resume_from: Place { line: 1, offset: 0 },
        }
    }

    /// The compressed data end in damage.
    pub fn broken_compression(&mut self, place: Place, what: &str) {
        // How much the file holds is not known.
        self.begun = true;
        self.out.add(
            "file.compression",
            place,
            format!("damaged zstd data: {what}"),
        );
    }

    /// Takes the next line.
    pub fn line(&mut self, line: &Line, record: Option<Record>, defects: &[Defect]) {
        // Codex reads no line behind such a mark; of the first one the facts are worth having.
        let marked = defects.contains(&Defect::ByteOrderMark);
        let record = record.filter(|_| !marked || !self.begun);
        self.lines += 1;
        self.records += u64::from(record.is_some());
        self.kinds.count(record.as_ref(), line.bytes);
        let before = self.out.total();
        for defect in defects {
            let has_record = record.is_some();
            self.defects.add(line, defect, has_record, &mut self.out);
        }
        if line.condensed && record.is_some() {
            let what = format!("{} bytes in one line", line.bytes);
            self.out.add("line.long", line.place, what);
        }
        if !self.begun && !line.is_blank() {
            self.begun = true;
            self.headed = record
                .as_ref()
                .is_some_and(|record| record.kind == "session_meta")
                && !marked;
            if !self.headed {
                let what = "the first line holds no session metadata";
                self.out.add("session.no_meta", line.place, what);
            }
        }
        if let Some(record) = record {
            self.record(line, &record);
        }
        if self.show_text && self.out.total() > before {
            self.out.show(line.place.line, &line.head(LINE_CHARS));
        }
    }

    fn record(&mut self, line: &Line, record: &Record) {
        let payload = &record.payload;
        let kind = record.kind.as_str();
        let found = self.images.see(payload, line, kind == "compacted");
        match kind {
            "session_meta" => self.session_meta(line, record),
            "response_item" => self.item(line, payload),
            "compacted" => self.compacted(line, payload, found),
            "turn_context" => self.turn_context(payload),
            "event_msg" => self.event(line, payload),
            known if RECORD_TYPES.contains(&known) => {}
            unknown => {
                let what = format!("a record of type {}", shown(unknown));
                self.out.add("record.unknown_type", line.place, what);
            }
        }
        // Behind the metadata, which say whether there are ordinals.
        let paginated = self.session.paginated();
        self.ordinals
            .record(record, line.place, paginated, &mut self.out);
        if self.turns.current().is_some() {
            let tokens = self.context_tokens();
            self.turns.numbers(self.recorded, tokens, self.live.items);
        }
    }

    fn context_tokens(&self) -> i64 {
        self.session.base_instructions_tokens + self.live.tokens
    }

    fn session_meta(&mut self, line: &Line, record: &Record) {
        let is_first = self.session.thread.is_none();
        self.session
            .meta(record, line, &self.file_name, &mut self.out);
        if is_first {
            let (version, _) = family(self.session.cli_version.as_deref());
            self.profile = Profile::of(version);
            let meta = json!({"type": "session_meta", "payload": record.payload});
            self.meta = Some(meta).filter(|_| self.headed);
        }
    }

    fn item(&mut self, line: &Line, payload: &Value) {
        let kind = payload["type"].as_str().unwrap_or_default();
        match stored(payload, &self.profile) {
            Err(_) => {
                let what = format!("an item of type {}", shown(kind));
                self.out.add("item.malformed", line.place, what);
            }
            Ok(None) if is_dropped(kind) => {}
            Ok(None) => {
                let what = format!("an item of type {}", shown(kind));
                self.out.add("item.unknown_type", line.place, what);
            }
            Ok(Some(item)) if item.reaches_history() => self.live.item(&item, line, &self.profile),
            // A message of the system is only written down.
            Ok(Some(_)) => {}
        }
    }

    fn compacted(&mut self, line: &Line, payload: &Value, found: super::images::Found) {
        let opened = checkpoints::open(
            payload,
            line,
            found,
            self.window,
            &self.profile,
            &mut self.out,
        );
        let mut checkpoint = opened.checkpoint;
        checkpoint.estimated_before = self.context_tokens();
        checkpoint.recorded_before = self.recorded.tokens;
        if self.show_text {
            checkpoint.text = checkpoints::text(payload);
        }
        if checkpoint.kind != "malformed" {
            self.live.checkpoint(&mut self.out);
            self.baseline = false;
            self.window = checkpoint.window;
            self.window_recorded = checkpoint.window_recorded;
            if let Some(items) = opened.items {
                self.resume_from = line.place;
                for item in &items {
                    self.live.item(item, line, &self.profile);
                }
            } else {
                let message = payload["message"].as_str().unwrap_or_default();
                self.live.legacy_message(message, line);
            }
            if let Some(turn) = self.turns.current() {
                turn.checkpoints += 1;
            }
            self.awaits_usage = true;
        }
        checkpoint.estimated_after = self.context_tokens();
        if self.checkpoints.len() < CHECKPOINTS_MAX {
            self.checkpoints.push(checkpoint);
        }
    }

    fn turn_context(&mut self, payload: &Value) {
        self.baseline = true;
        if let Some(model) = payload["model"].as_str() {
            self.session.model(model);
            if let Some(turn) = self.turns.current() {
                turn.model = Some(shown(model));
            }
        }
    }

    fn event(&mut self, line: &Line, payload: &Value) {
        let id = payload["turn_id"].as_str().unwrap_or_default();
        match payload["type"].as_str().unwrap_or_default() {
            "task_started" | "turn_started" => {
                let start = self.live.start();
                self.turns.start(id, line.place, start, &mut self.out);
            }
            "task_complete" | "turn_complete" => {
                let error = &payload["error"];
                let status = if error.is_null() {
                    "completed"
                } else {
                    "failed"
                };
                let code = code(&error["codex_error_info"]);
                self.turns.end(id, status, code, line.place, &mut self.out);
            }
            "turn_aborted" => {
                let reason = payload["reason"].as_str().map(shown);
                self.turns
                    .end(id, "aborted", reason, line.place, &mut self.out);
            }
            "user_message" => {
                let text = Some(&payload["message"]).filter(|_| self.show_text);
                let content = text.map_or(Value::Null, |text| json!([{"text": text}]));
                self.turns.user_text(&content, self.show_text);
            }
            "item_completed" if payload["item"]["type"] == "UserMessage" => {
                self.turns
                    .user_text(&payload["item"]["content"], self.show_text);
            }
            "token_count" if payload["info"].is_object() => self.token_count(&payload["info"]),
            "thread_rolled_back" => self.rolled_back(line.place, payload),
            // Events of other types never make history.
            _ => {}
        }
    }

    fn token_count(&mut self, info: &Value) {
        self.recorded = Recorded {
            tokens: info["last_token_usage"]["total_tokens"].as_i64(),
            window: info["model_context_window"].as_i64(),
        };
        if std::mem::take(&mut self.awaits_usage)
            && self.live.checkpoints <= CHECKPOINTS_MAX as u64
            && let Some(checkpoint) = self.checkpoints.last_mut()
        {
            checkpoint.recorded_after = self.recorded.tokens;
        }
    }

    fn rolled_back(&mut self, place: Place, payload: &Value) {
        let count = payload["num_turns"].as_u64().unwrap_or(0);
        let mut what = format!("{count} turns are rolled back");
        let first = self.turns.roll_back(count);
        if first.is_some_and(|first| !self.live.roll_back(&first)) {
            what.push_str(", to before a checkpoint");
        }
        self.out.add("resume.rolled_back", place, what);
    }

    /// What the end of the file decides.
    pub fn finish(mut self) -> Collected {
        if !self.begun {
            let what = match self.lines {
                0 => "0 bytes",
                _ => "nothing but empty lines",
            };
            self.out.add("file.empty", Place::default(), what);
        }
        let paginated = self.session.paginated();
        let (version, _) = family(self.session.cli_version.as_deref());
        self.defects.finish(version, &mut self.out);
        self.ordinals.finish(paginated, &mut self.out);
        let partial = self.session.history_base.is_some();
        self.live.finish(partial, &mut self.out);
        let (turns, turns_left_out) = self.turns.finish(&mut self.out);
        let images = self.images.finish();
        if let Some(first) = images.repeated.first() {
            let severity = if images.wasted_bytes >= WASTED_BYTES_WARNED {
                Severity::Warning
            } else {
                Severity::Note
            };
            let place = Place {
                line: first.line,
                offset: first.offset,
            };
            let what = format!(
                "{} copies in checkpoints, {} bytes of them repeat",
                images.in_checkpoints, images.wasted_bytes
            );
            self.out.add_as(severity, "image.repeated", place, what);
        }
        if self.live.checkpoints > 0 {
            if self.awaits_usage {
                let severity = match version {
                    Version::V144 => Severity::Warning,
                    Version::V164 | Version::V171 => Severity::Note,
                };
                let what = "no usage is recorded behind the newest checkpoint";
                self.out.add_as(
                    severity,
                    "checkpoint.no_token_count",
                    self.resume_from,
                    what,
                );
            }
            if !self.baseline {
                let what = "no turn context behind the newest checkpoint";
                self.out.add("resume.no_baseline", self.resume_from, what);
            }
        }
        Collected {
            findings: self.out,
            lines: self.lines,
            records: self.records,
            kinds: self.kinds.finish(),
            session: self.session,
            turns,
            turns_left_out,
            checkpoints_left_out: self.live.checkpoints.saturating_sub(CHECKPOINTS_MAX as u64),
            checkpoints: self.checkpoints,
            images,
            resume_from: self.resume_from,
            meta: self.meta,
            window: self.window,
            window_recorded: self.window_recorded,
            version,
        }
    }
}

/// Code of a failure: a word, or an object of one key.
fn code(info: &Value) -> Option<String> {
    let key = || info.as_object()?.keys().next().map(String::as_str);
    info.as_str().or_else(key).map(shown)
}
