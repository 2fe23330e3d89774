//! Masks of values that are not ids: times, versions, hosts, lengths, models, dates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Part, Site, State, exact_ascii_object, text, walk};

/// A metadata string becomes `{"$json": …}` if it is JSON as serde writes it.
pub(crate) fn metadata(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    if site.free || site.key != "x-codex-turn-metadata" {
        return None;
    }
    let raw = value.as_str()?;
    if site.part == Part::Header && state.body_metadata.as_deref() == Some(raw) {
        return Some("<same as body>".into());
    }
    let inner = exact_ascii_object(raw)?;
    let site = Site {
        parent: "",
        key: "",
        ..*site
    };
    let mut out = Map::new();
    out.insert(
        "$json".into(),
        walk(
            inner,
            Site {
                part: Part::Body,
                ..site
            },
            state,
        ),
    );
    Some(Value::Object(out))
}

/// `content-length`, when it is the length of the body.
pub(crate) fn content_length(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    let own = site.part == Part::Header && site.key == "content-length";
    (own && value.as_str()? == state.body_bytes.to_string()).then(|| "<content-length>".into())
}

/// The port of `host`.
pub(crate) fn host(site: &Site<'_>, value: &Value, _: &mut State) -> Option<Value> {
    if site.part != Part::Header || site.key != "host" {
        return None;
    }
    let (name, port) = value.as_str()?.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    Some(format!("{}:<port>", text::escape(name)).into())
}

/// The key of a WebSocket handshake.
pub(crate) fn websocket_key(site: &Site<'_>, value: &Value, _: &mut State) -> Option<Value> {
    let own = site.part == Part::Header && site.key == "sec-websocket-key";
    (own && value.is_string()).then(|| "<key>".into())
}

/// Versions and system in `user-agent`: `NAME/VERSION (SYSTEM) TERM (CLIENT; VERSION)`.
pub(crate) fn user_agent(site: &Site<'_>, value: &Value, _: &mut State) -> Option<Value> {
    if site.part != Part::Header || site.key != "user-agent" {
        return None;
    }
    let (name, rest) = value.as_str()?.split_once('/')?;
    let (version, rest) = rest.split_once(" (")?;
    let (_, rest) = rest.split_once(") ")?;
    let (term, client) = rest.split_once(" (")?;
    let (client, client_version) = client.strip_suffix(')')?.split_once("; ")?;
    let digits = |v: &str| v.starts_with(|c: char| c.is_ascii_digit());
    if !digits(version) || !digits(client_version) {
        return None;
    }
    let [name, term, client] = [name, term, client].map(text::escape);
    Some(format!("{name}/<version> (<os>) {term} ({client}; <version>)").into())
}

/// The installation id of the run.
pub(crate) fn installation(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    let id = value.as_str()?;
    let named = ["installation_id", "x-codex-installation-id"].contains(&site.key);
    (!site.free && named && !id.is_empty() && id == state.places.installation_id)
        .then(|| "<installation>".into())
}

/// An image that was made smaller: its size is what counts (history.md §2).
pub(crate) fn resized_image(site: &Site<'_>, value: &Value, _: &mut State) -> Option<Value> {
    if site.key != "image_url" {
        return None;
    }
    let pixels = image_size(value.as_str()?)?;
    Some(format!("data:image/png;base64,<resized:{pixels}>").into())
}

/// Width and height of a resized PNG in a data URL: only a resized one has an alpha channel, since
/// what scenarios send has one bit a pixel (`scenario/png.rs`).
pub(crate) fn image_size(url: &str) -> Option<String> {
    /// Base64 of the 26 bytes up to the colour type, and the colour type of RGBA.
    const HEAD: usize = 36;
    const RGBA: u8 = 6;
    let data = url.strip_prefix("data:image/png;base64,")?;
    let head = STANDARD.decode(data.get(..HEAD)?).ok()?;
    let number = |at: usize| {
        let bytes: [u8; 4] = head.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    };
    let size = format!("{}x{}", number(16)?, number(20)?);
    (head.get(25) == Some(&RGBA)).then_some(size)
}

/// Output of a call that a used up session budget kept from starting (0.171): the call runs as a task
/// of its own, and what it says depends on how far it got (seen twice in 200 runs under load).
pub(crate) fn not_dispatched(site: &Site<'_>, value: &Value, _: &mut State) -> Option<Value> {
    let late = "aborted before handler start: rollout budget exhausted";
    (site.key == "output" && value == late).then(|| Value::from("aborted before dispatch"))
}

/// Times and durations. `null` stays `null`, and so does every shape.
pub(crate) fn time(site: &Site<'_>, value: &Value, _: &mut State) -> Option<Value> {
    const KEYS: &[&str] = &["started_at", "completed_at", "create_time", "failed_at"];
    if site.free || site.part == Part::Header {
        return None;
    }
    let number = value.is_number()
        && (KEYS.contains(&site.key)
            || site.key.ends_with("_ms")
            || (site.parent == "duration" && ["secs", "nanos"].contains(&site.key)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let sent =
        site.key == "x-codex-ws-stream-request-start-ms" && value.as_str().is_some_and(digits);
    let stamp = site.key == "timestamp" && value.as_str().is_some_and(is_timestamp);
    (number || stamp || sent).then(|| "<time>".into())
}

/// `2026-11-30T23:25:37.369Z`
fn is_timestamp(text: &str) -> bool {
    text.len() >= 20
        && text.ends_with('Z')
        && text.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b'-',
            10 => b == b'T',
            13 | 16 => b == b':',
            19 => b == b'.' || b == b'Z',
            _ => b.is_ascii_digit() || i + 1 == text.len(),
        })
}

/// The version in `session_meta`.
pub(crate) fn version(site: &Site<'_>, value: &Value, _: &mut State) -> Option<Value> {
    let own = site.part == Part::Rollout && site.kind == "session_meta";
    (own && !site.free && site.key == "cli_version" && value.is_string())
        .then(|| "<version>".into())
}

/// The hash of the whole catalogue in `world_state` (0.171).
pub(crate) fn catalog(site: &Site<'_>, value: &Value, _: &mut State) -> Option<Value> {
    let text = value.as_str()?;
    let hash = text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
    (site.kind == "world_state" && !site.free && site.key == "model_catalog" && hash)
        .then(|| "<catalog>".into())
}

/// The hash of the permissions text in `world_state` (0.164+): it is made of the real text.
pub(crate) fn permissions(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    let text = value.as_str()?;
    let hash = text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let own = site.kind == "world_state" && site.parent == "permissions";
    (own && site.key == "instructions" && hash).then(|| state.ids.name(text, "permissions").into())
}

/// The hash of a lite model's instructions in `world_state` (0.164+): what it is made of is unknown.
pub(crate) fn instructions(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    let text = value.as_str()?;
    let hash = text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let own = site.kind == "world_state" && site.parent == "model";
    (own && site.key == "instructions" && hash).then(|| state.ids.name(text, "catalog").into())
}

/// Model slugs: whole values of model fields, and parts of warnings and errors.
pub(crate) fn model(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    let raw = value.as_str()?;
    if site.key == "model" && !site.free {
        let (_, name) = state.places.models.iter().find(|(slug, _)| slug == raw)?;
        return Some(format!("<model:{name}>").into());
    }
    if site.part != Part::Event || site.key != "message" {
        return None;
    }
    let mut out = text::plain(raw, &state.places);
    for (slug, name) in state
        .places
        .models
        .iter()
        .filter(|(slug, _)| !slug.is_empty())
    {
        out = out.replace(slug, &format!("<model:{name}>"));
    }
    Some(out.into())
}

/// The date in the environment context and in the records that repeat it.
pub(crate) fn date(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    let raw = value.as_str()?;
    if site.key == "current_date" && !site.free && is_date(raw) {
        return Some("<date>".into());
    }
    if site.key != "text" || !raw.starts_with("<environment_context>") {
        return None;
    }
    let (before, rest) = raw.split_once("<current_date>")?;
    let (day, after) = rest.split_once("</current_date>")?;
    is_date(day).then(|| {
        let [before, after] = [before, after].map(|part| text::plain(part, &state.places));
        format!("{before}<current_date><date></current_date>{after}").into()
    })
}

/// `2026-11-30`
fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        })
}

/// The bytes of an older file that a file stands on, where a line of an older file ends there.
pub(crate) fn base_bytes(site: &Site<'_>, value: &Value, state: &mut State) -> Option<Value> {
    let own = site.part == Part::Rollout && site.key == "end_byte_offset";
    (own && state.line_ends.contains(&value.as_u64()?)).then(|| "<bytes>".into())
}

/// `aborted by user after 0.1s`, the output of a call that 0.144.6 cancelled.
pub(crate) fn seconds(site: &Site<'_>, value: &Value, _: &mut State) -> Option<Value> {
    let raw = value.as_str()?;
    let number = raw
        .strip_prefix("aborted by user after ")?
        .strip_suffix('s')?;
    let (whole, part) = number.split_once('.')?;
    let digits = |d: &str| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit());
    (site.key == "output" && digits(whole) && digits(part))
        .then(|| "aborted by user after <seconds>".into())
}
