//! Takes the lines of a file one by one and hands them to those who count and judge.

use engine::items::{self, Item};
use engine::profile::{Profile, Version};
use engine::tokens::estimate;
use serde_json::{Value, json};

use super::checkpoints::{self, CHECKPOINTS_MAX, Checkpoint};
use super::findings::{Findings, Severity};
use super::images::{Images, ImagesReport, WASTED_BYTES_WARNED};
use super::kinds::{Kind, Kinds};
use super::ordinals::Ordinals;
use super::pairing::Pairing;
use super::session::{Session, family};
use super::turns::{Recorded, Start, Turn, Turns};
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
    pairing: Pairing,
    images: Images,
    turns: Turns,
    checkpoints: Vec<Checkpoint>,
    checkpoint_count: u64,
    lines: u64,
    records: u64,
    /// A line that is not blank was met.
    begun: bool,
    /// The first line that is not blank holds session metadata: a resume takes the file.
    headed: bool,
    carriage_returns: u64,
    first_carriage_return: Place,
    no_final_newline: Option<Place>,
    meta: Option<Value>,
    /// Items of the live history, and their estimated tokens.
    items: u64,
    tokens: i64,
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
            pairing: Pairing::default(),
            images: Images::default(),
            turns: Turns::default(),
            checkpoints: Vec::new(),
            checkpoint_count: 0,
            lines: 0,
            records: 0,
            begun: false,
            headed: false,
            carriage_returns: 0,
            first_carriage_return: Place::default(),
            no_final_newline: None,
            meta: None,
            items: 0,
            tokens: 0,
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
        self.out.add(
            "file.compression",
            place,
            format!("damaged zstd data: {what}"),
        );
    }

    /// Takes the next line.
    pub fn line(&mut self, line: &Line, record: Option<Record>, defects: &[Defect]) {
        self.lines += 1;
        self.records += u64::from(record.is_some());
        self.kinds.count(record.as_ref(), line.bytes);
        let before = self.out.total();
        for defect in defects {
            self.defect(line, defect, record.is_some());
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
                && !defects.contains(&Defect::ByteOrderMark);
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

    fn defect(&mut self, line: &Line, defect: &Defect, has_record: bool) {
        let at = |offset: u64| Place {
            offset: line.place.offset + offset,
            ..line.place
        };
        let place = line.place;
        let bytes = line.bytes;
        let (rule, place, what) = match defect {
            Defect::CarriageReturn => {
                if self.carriage_returns == 0 {
                    self.first_carriage_return = place;
                }
                self.carriage_returns += 1;
                return;
            }
            Defect::NoFinalNewline => {
                self.no_final_newline = Some(at(bytes)).filter(|_| has_record);
                return;
            }
            Defect::Blank => ("line.blank", place, "an empty line".to_owned()),
            Defect::ByteOrderMark => (
                "line.byte_order_mark",
                place,
                "a byte order mark".to_owned(),
            ),
            Defect::Nul(offset) => ("line.nul", at(*offset), "a NUL".to_owned()),
            Defect::InvalidUtf8(offset) => (
                "line.invalid_utf8",
                at(*offset),
                "bytes that are not UTF-8".to_owned(),
            ),
            Defect::Torn => (
                "line.torn",
                place,
                format!("the last line stops after {bytes} bytes"),
            ),
            Defect::CutOff => (
                "line.cut_off",
                place,
                format!("the line stops after {bytes} bytes of a record"),
            ),
            Defect::Glued(offset) => (
                "line.glued",
                at(*offset),
                "a record begins inside another one".to_owned(),
            ),
            Defect::Trailing(offset) => (
                "line.two_records",
                at(*offset),
                "something stands behind the record".to_owned(),
            ),
            Defect::NotJson(word, offset) => ("line.not_json", at(*offset), word.clone()),
            Defect::NotARecord(what) => ("line.not_a_record", place, (*what).to_owned()),
            Defect::TooLong => ("line.too_long", place, format!("{bytes} bytes in one line")),
        };
        self.out.add(rule, place, what);
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
            self.turns.numbers(self.recorded, tokens, self.items);
        }
    }

    fn context_tokens(&self) -> i64 {
        self.session.base_instructions_tokens + self.tokens
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
        match items::parse(payload, &self.profile) {
            Err(_) => {
                let what = format!("an item of type {}", shown(kind));
                self.out.add("item.malformed", line.place, what);
            }
            Ok(None) if is_dropped(kind) => {}
            Ok(None) => {
                let what = format!("an item of type {}", shown(kind));
                self.out.add("item.unknown_type", line.place, what);
            }
            Ok(Some(item)) if item.reaches_history() => self.enters(&item, line),
            // A message of the system is only written down.
            Ok(Some(_)) => {}
        }
    }

    /// The item enters the live history.
    fn enters(&mut self, item: &Item, line: &Line) {
        self.pairing.item(item, line.place);
        self.items += 1;
        self.tokens += estimate(item, &self.profile) + hidden_tokens(item, line);
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
            self.pairing.checkpoint(&mut self.out);
            (self.items, self.tokens) = (0, 0);
            self.baseline = false;
            self.window = checkpoint.window;
            self.window_recorded = checkpoint.window_recorded;
            match opened.items {
                Some(items) => {
                    self.resume_from = line.place;
                    for item in &items {
                        self.enters(item, line);
                    }
                }
                // How much of the user's texts a resume takes is left to the engine.
                None => {
                    let message = payload["message"].as_str().unwrap_or_default();
                    self.items = 1;
                    self.tokens = line.text_bytes(message).div_ceil(4) as i64;
                }
            }
            if let Some(turn) = self.turns.current() {
                turn.checkpoints += 1;
            }
            self.checkpoint_count += 1;
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
                let start = Start {
                    items: self.items,
                    tokens: self.tokens,
                    checkpoints: self.checkpoint_count,
                    by_user: false,
                };
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
                let text = json!([{"text": payload["message"]}]);
                self.turns.user_text(&text, self.show_text);
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
            && self.checkpoint_count <= CHECKPOINTS_MAX as u64
            && let Some(checkpoint) = self.checkpoints.last_mut()
        {
            checkpoint.recorded_after = self.recorded.tokens;
        }
    }

    fn rolled_back(&mut self, place: Place, payload: &Value) {
        let count = payload["num_turns"].as_u64().unwrap_or(0);
        let mut what = format!("{count} turns are rolled back");
        if let Some(first) = self.turns.roll_back(count) {
            if first.start.checkpoints == self.checkpoint_count {
                self.items = first.start.items;
                self.tokens = first.start.tokens;
                self.pairing.roll_back(first.line);
            } else {
                what.push_str(", to before a checkpoint");
            }
        }
        self.out.add("resume.rolled_back", place, what);
    }

    /// What the end of the file decides.
    pub fn finish(mut self) -> Collected {
        self.finish_lines();
        let paginated = self.session.paginated();
        let (version, _) = family(self.session.cli_version.as_deref());
        self.ordinals.finish(paginated, &mut self.out);
        let partial = self.session.history_base.is_some();
        self.pairing.finish(partial, &mut self.out);
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
        if self.checkpoint_count > 0 {
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
            checkpoints_left_out: self.checkpoint_count.saturating_sub(CHECKPOINTS_MAX as u64),
            checkpoints: self.checkpoints,
            images,
            resume_from: self.resume_from,
            meta: self.meta,
            window: self.window,
            window_recorded: self.window_recorded,
            version,
        }
    }

    fn finish_lines(&mut self) {
        if !self.begun {
            let what = if self.lines == 0 {
                "0 bytes"
            } else {
                "nothing but empty lines"
            };
            self.out.add("file.empty", Place::default(), what);
        }
        if self.carriage_returns > 0 {
            let what = format!("{} lines end with CRLF", self.carriage_returns);
            self.out
                .add("line.carriage_return", self.first_carriage_return, what);
        }
        if let Some(place) = self.no_final_newline {
            // Later versions write a newline before their next record.
            let severity = match family(self.session.cli_version.as_deref()).0 {
                Version::V144 => Severity::Warning,
                Version::V164 | Version::V171 => Severity::Note,
            };
            let what = "the file ends without a newline";
            self.out
                .add_as(severity, "file.no_final_newline", place, what);
        }
    }
}

/// Code of a failure: a word, or an object of one key.
fn code(info: &Value) -> Option<String> {
    let key = || info.as_object()?.keys().next().map(String::as_str);
    info.as_str().or_else(key).map(shown)
}

/// Roughly the tokens of what a condensed line left out of an item's texts.
fn hidden_tokens(item: &Item, line: &Line) -> i64 {
    if line.cuts.is_empty() {
        return 0;
    }
    let values = item.payload.iter();
    values
        .map(|(key, value)| hidden_bytes(key, value, line))
        .sum::<u64>() as i64
        / 4
}

fn hidden_bytes(key: &str, value: &Value, line: &Line) -> u64 {
    match value {
        Value::String(text) => {
            let hidden = line
                .cut(text)
                .map_or(0, |cut| cut.bytes.saturating_sub(cut.kept));
            match key {
                // An image counts the same whatever its size.
                "image_url" => 0,
                "encrypted_content" => hidden * 3 / 4,
                _ => hidden,
            }
        }
        Value::Array(list) => list
            .iter()
            .map(|value| hidden_bytes(key, value, line))
            .sum(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| hidden_bytes(key, value, line))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
