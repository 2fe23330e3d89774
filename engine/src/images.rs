//! Images and audio as they enter the history: checked, resized, or replaced by a text.
//!
//! Everything is decided by the bytes of a data URL; nothing is fetched. What a model cannot see
//! is replaced later, when a prompt is made (`history.rs`). Sizes and texts: history.md §2; the
//! rounding was fitted to 57 sizes sent through the real binary, without a miss.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageFormat};
use serde_json::{Value, json};

use crate::items::Item;

const REMOTE: &str = "image content omitted because remote image URLs are not supported";
const LOW: &str = "image content omitted because detail 'low' is not supported; use 'high', \
                   'original', or 'auto'";
const UNREADABLE: &str = "image content omitted because it could not be processed";
const AUDIO_UNREADABLE: &str = "audio content omitted because it could not be processed";
const AUDIO_FORMAT: &str = "audio content omitted because its format is not supported; use wav, \
                            mp3, m4a, webm, or ogg";
/// Type under which a sound is sent, and the types that it may come with.
const AUDIO_TYPES: &[(&str, &[&str])] = &[
    (
        "audio/wav",
        &["audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"],
    ),
    ("audio/mpeg", &["audio/mpeg", "audio/mp3"]),
    ("audio/mp4", &["audio/mp4", "audio/m4a", "audio/x-m4a"]),
    ("audio/webm", &["audio/webm"]),
    ("audio/ogg", &["audio/ogg"]),
];
/// Side of the square that a model counts an image in.
const PATCH_PIXELS: u32 = 32;
/// Quality of a resized JPEG (not seen: no golden compares pixels).
const JPEG_QUALITY: u8 = 85;

/// Largest image that is sent as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    side_pixels: u32,
    patches: u32,
}

const HIGH: Limits = Limits {
    side_pixels: 2048,
    patches: 2500,
};
const ORIGINAL: Limits = Limits {
    side_pixels: 6000,
    patches: 10_000,
};

/// Prepares the images and sounds of an item; the numbers of the images that became a text.
pub(crate) fn prepare(item: &mut Item) -> Vec<usize> {
    let mut failed = Vec::new();
    for key in ["content", "output"] {
        let Some(Value::Array(parts)) = item.payload.get_mut(key) else {
            continue;
        };
        for (index, part) in parts.iter_mut().enumerate() {
            if let Err(text) = prepare_part(part) {
                if part["type"] == "input_image" {
                    failed.push(index);
                }
                *part = json!({"type": "input_text", "text": text});
            }
        }
    }
    failed
}

/// Says of parts that could not be prepared that a harness wrote what stands there.
pub(crate) fn mark_failed(item: &mut Item, failed: &[usize]) {
    let Some(Value::Array(kinds)) = item.passthrough.get_mut("content_item_kinds") else {
        return;
    };
    if failed.is_empty() {
        return;
    }
    let mut origins = vec![json!({"provenance": {"type": "unknown"}}); kinds.len()];
    for index in failed {
        if let (Some(kind), Some(origin)) = (kinds.get_mut(*index), origins.get_mut(*index)) {
            *kind = json!("images.preparation_error");
            *origin = json!({"provenance": {"type": "harness", "hook": false}});
        }
    }
    if let Some(Value::Array(known)) = item.passthrough.get_mut("content_item_metadata") {
        for index in failed {
            if let (Some(old), Some(new)) = (known.get_mut(*index), origins.get(*index)) {
                old.clone_from(new);
            }
        }
    } else {
        item.passthrough
            .insert("content_item_metadata".to_owned(), json!(origins));
    }
}

/// Asks for the original size of every image given as data (0.171, live items only).
pub(crate) fn raise_detail(item: &mut Item) {
    for key in ["content", "output"] {
        let parts = item.payload.get_mut(key).and_then(Value::as_array_mut);
        for part in parts.into_iter().flatten() {
            if part["image_url"].as_str().is_some_and(is_data) {
                part["detail"] = json!("original");
            }
        }
    }
}

/// Whether an image lies on another machine. No client may send one (`history.image.remote`).
pub fn is_remote(url: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        url.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

fn prepare_part(part: &mut Value) -> Result<(), &'static str> {
    let (key, limits) = match (part["type"].as_str(), part["detail"].as_str()) {
        (Some("input_image"), Some("original")) => ("image_url", ORIGINAL),
        (Some("input_image"), _) => ("image_url", HIGH),
        (Some("input_audio"), _) => {
            let url = part["audio_url"].as_str().unwrap_or_default();
            part["audio_url"] = json!(audio(url)?);
            return Ok(());
        }
        _ => return Ok(()),
    };
    let Some(url) = part[key].as_str() else {
        return Ok(());
    };
    if is_remote(url) {
        return Err(REMOTE);
    }
    if !is_data(url) {
        return Ok(());
    }
    if part["detail"] == "low" {
        return Err(LOW);
    }
    let prepared = data_url(url, limits).ok_or(UNREADABLE)?;
    part[key] = json!(prepared);
    Ok(())
}

fn is_data(url: &str) -> bool {
    url.get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// Declared type of a data URL in lower case, and its bytes where `base64` is a parameter.
fn base64_data(url: &str) -> (String, Option<Vec<u8>>) {
    let Some((header, data)) = url[5..].split_once(',') else {
        return (String::new(), None);
    };
    let header = header.to_ascii_lowercase();
    let mut words = header.split(';');
    let mime = words.next().unwrap_or_default().to_owned();
    let bytes = words
        .any(|word| word == "base64")
        .then(|| STANDARD.decode(data).ok())
        .flatten();
    (mime, bytes)
}

/// The sound under its common type; its bytes are not looked at.
fn audio(url: &str) -> Result<String, &'static str> {
    if !is_data(url) {
        return Err(AUDIO_UNREADABLE);
    }
    let (mime, bytes) = base64_data(url);
    if mime.is_empty() {
        return Err(AUDIO_UNREADABLE);
    }
    let known = AUDIO_TYPES
        .iter()
        .find(|(_, names)| names.contains(&mime.as_str()));
    let (name, _) = known.ok_or(AUDIO_FORMAT)?;
    match bytes {
        Some(bytes) if !bytes.is_empty() => {
            Ok(format!("data:{name};base64,{}", STANDARD.encode(bytes)))
        }
        Some(_) | None => Err(AUDIO_UNREADABLE),
    }
}

/// The URL with the true type, resized where the image is larger than the limits.
fn data_url(url: &str, limits: Limits) -> Option<String> {
    let (_, source) = base64_data(url);
    let source = source?;
    let format = image::guess_format(&source).ok()?;
    let image = image::load_from_memory_with_format(&source, format).ok()?;
    let size = (image.width(), image.height());
    let fitting = fit(size, limits);
    let (bytes, mime) = if fitting == size && format != ImageFormat::Gif {
        (source, mime(format))
    } else {
        let resized = if fitting == size {
            image
        } else {
            // Pixels are not compared, only the format and the size: the quickest way does.
            image.thumbnail_exact(fitting.0, fitting.1)
        };
        encode(&resized, format)?
    };
    Some(format!("data:{mime};base64,{}", STANDARD.encode(bytes)))
}

fn mime(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Jpeg => "image/jpeg",
        ImageFormat::WebP => "image/webp",
        // A GIF leaves as PNG; no other format is compiled in.
        _ => "image/png",
    }
}

fn encode(image: &DynamicImage, format: ImageFormat) -> Option<(Vec<u8>, &'static str)> {
    let mut bytes = Cursor::new(Vec::new());
    let done = match format {
        ImageFormat::Jpeg => image
            .to_rgb8()
            .write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY)),
        ImageFormat::WebP => {
            DynamicImage::from(image.to_rgba8()).write_to(&mut bytes, ImageFormat::WebP)
        }
        _ => DynamicImage::from(image.to_rgba8()).write_to(&mut bytes, ImageFormat::Png),
    };
    done.ok()?;
    Some((bytes.into_inner(), mime(format)))
}

/// The largest size within the limits: first the longest side, then whole patches.
fn fit((width, height): (u32, u32), limits: Limits) -> (u32, u32) {
    let (width, height) = within_side(width, height, limits.side_pixels);
    let patches = width.div_ceil(PATCH_PIXELS) * height.div_ceil(PATCH_PIXELS);
    if patches <= limits.patches {
        return (width, height);
    }
    let patch = f64::from(PATCH_PIXELS);
    let (w, h) = (f64::from(width), f64::from(height));
    let mut scale = (patch * patch * f64::from(limits.patches) / (w * h)).sqrt();
    let columns = w * scale / patch;
    let rows = h * scale / patch;
    scale *= (columns.floor() / columns).min(rows.floor() / rows);
    // Cut off, not rounded: 1999x1301 becomes 1951x1270 because 1952 is missed by a rounding.
    (((w * scale) as u32).max(1), ((h * scale) as u32).max(1))
}

fn within_side(width: u32, height: u32, side: u32) -> (u32, u32) {
    if width.max(height) <= side {
        return (width, height);
    }
    let side = f64::from(side);
    let ratio = (side / f64::from(width)).min(side / f64::from(height));
    let scaled = |pixels: u32| ((f64::from(pixels) * ratio).round() as u32).max(1);
    (scaled(width), scaled(height))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;

    /// Width and height of a PNG from its header, and its colour type.
    fn header(url: &str) -> (u32, u32, u8) {
        let bytes = STANDARD
            .decode(url.split_once(',').expect("data").1)
            .expect("base64");
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
        (number(16), number(20), bytes[25])
    }

    fn png(width: u32, height: u32) -> String {
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::new_luma8(width, height)
            .write_to(&mut bytes, ImageFormat::Png)
            .expect("a png");
        format!(
            "data:image/png;base64,{}",
            STANDARD.encode(bytes.into_inner())
        )
    }

    fn prepared(given: &Value) -> Value {
        let mut map = Map::new();
        map.insert("type".to_owned(), json!("message"));
        map.insert("content".to_owned(), json!([given]));
        let mut item = Item::new(map);
        let failed = prepare(&mut item);
        let part = item.payload["content"][0].clone();
        let lost = part["type"] == "input_text" && given["type"] == "input_image";
        assert_eq!(failed.is_empty(), !lost);
        part
    }

    fn image(url: &str, detail: Option<&str>) -> Value {
        let mut part = json!({"type": "input_image", "image_url": url});
        if let Some(detail) = detail {
            part["detail"] = json!(detail);
        }
        prepared(&part)
    }

    #[test]
    fn sizes_are_those_of_the_real_binary() {
        for (from, to) in [
            ((3000, 3000), (1600, 1600)),
            ((1601, 1600), (1568, 1568)),
            ((2048, 1250), (2044, 1248)),
            ((2048, 1300), (1966, 1248)),
            ((4000, 100), (2048, 51)),
            ((1999, 1301), (1951, 1270)),
            ((5000, 3), (2048, 1)),
            ((777, 4321), (368, 2048)),
            ((2559, 2827), (1504, 1661)),
            ((1744, 1406), (1744, 1406)),
            ((2048, 1248), (2048, 1248)),
        ] {
            assert_eq!(fit(from, HIGH), to, "{from:?}");
        }
        for (from, to) in [
            ((3201, 3200), (3168, 3168)),
            ((6001, 100), (6000, 100)),
            ((10_000, 10), (6000, 6)),
            ((6000, 1707), (5961, 1696)),
            ((3200, 3200), (3200, 3200)),
        ] {
            assert_eq!(fit(from, ORIGINAL), to, "{from:?}");
        }
    }

    #[test]
    fn an_image_within_the_limits_keeps_its_bytes_and_gets_its_true_type() {
        let small = png(2, 1);
        assert_eq!(image(&small, None)["image_url"], small);
        for wrong in [
            "image/jpeg",
            "text/plain",
            "",
            "IMAGE/PNG",
            "image/png;charset=x",
        ] {
            let named = small.replace("image/png", wrong);
            assert_eq!(image(&named, None)["image_url"], small, "{wrong}");
        }
    }

    #[test]
    fn a_larger_image_is_resized_to_rgba() {
        let part = image(&png(2049, 2), Some("high"));
        assert_eq!(
            header(part["image_url"].as_str().expect("a url")),
            (2048, 2, 6)
        );
        assert_eq!(part["detail"], "high");
        let original = image(&png(2049, 2), Some("original"));
        assert_eq!(
            header(original["image_url"].as_str().expect("a url")),
            (2049, 2, 0)
        );
    }

    #[test]
    fn a_resized_image_keeps_its_format() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP] {
            let mut bytes = Cursor::new(Vec::new());
            DynamicImage::new_rgb8(2049, 2)
                .write_to(&mut bytes, format)
                .expect("it is written");
            let (url, bytes) = (mime(format), STANDARD.encode(bytes.into_inner()));
            let part = image(&format!("data:{url};base64,{bytes}"), Some("high"));
            let sent = part["image_url"].as_str().expect("a url");
            let (head, data) = sent.split_once(',').expect("data");
            let sent = STANDARD.decode(data).expect("base64");
            assert_eq!(head, format!("data:{url};base64"));
            assert_eq!(image::guess_format(&sent).expect("a format"), format);
            let resized = image::load_from_memory(&sent).expect("an image");
            assert_eq!((resized.width(), resized.height()), (2048, 2), "{format:?}");
        }
    }

    #[test]
    fn what_cannot_be_shown_becomes_a_text() {
        let small = png(1, 1);
        for (url, detail, text) in [
            ("http://a/b.png", None, REMOTE),
            ("HTTPS://a/b.png", Some("low"), REMOTE),
            (small.as_str(), Some("low"), LOW),
            ("data:image/png;base64,@@@@", None, UNREADABLE),
            ("data:image/png;base64,eno=", None, UNREADABLE),
            ("data:", None, UNREADABLE),
            (&small.replace(";base64", ""), None, UNREADABLE),
            (&small[..70], None, UNREADABLE),
        ] {
            let part = image(url, detail);
            assert_eq!(part, json!({"type": "input_text", "text": text}), "{url}");
        }
    }

    #[test]
    fn other_urls_and_files_pass() {
        for url in [
            "file:///x.png",
            "",
            "junk",
            "ftp://x/",
            " data:image/png;base64,@",
        ] {
            assert_eq!(image(url, Some("low"))["image_url"], url);
        }
        let file = json!({"type": "input_image", "file_id": "f", "detail": "low"});
        assert_eq!(prepared(&file), file);
    }

    #[test]
    fn a_sound_is_data_of_a_known_type() {
        let sound = |url: &str| prepared(&json!({"type": "input_audio", "audio_url": url}));
        for (from, to) in [
            ("audio/wav", "audio/wav"),
            ("AUDIO/X-WAV", "audio/wav"),
            ("audio/mp3", "audio/mpeg"),
            ("audio/x-m4a", "audio/mp4"),
            ("audio/ogg;codecs=opus", "audio/ogg"),
        ] {
            let url = format!("data:{from};base64,AAAA");
            assert_eq!(sound(&url)["audio_url"], format!("data:{to};base64,AAAA"));
        }
        for url in [
            "data:audio/wav;base64,",
            "data:audio/wav,a",
            "data:;base64,AAAA",
            "http://x/",
        ] {
            assert_eq!(sound(url)["text"], AUDIO_UNREADABLE, "{url}");
        }
        assert_eq!(sound("data:audio/flac;base64,AAAA")["text"], AUDIO_FORMAT);
    }

    #[test]
    fn the_original_size_is_asked_for_of_data_only() {
        let mut map = Map::new();
        let part = |url: &str| json!({"type": "input_image", "image_url": url, "detail": "low"});
        map.insert(
            "content".to_owned(),
            json!([part("data:,"), part("file:///x")]),
        );
        let mut item = Item::new(map);
        raise_detail(&mut item);
        assert_eq!(item.payload["content"][0]["detail"], "original");
        assert_eq!(item.payload["content"][1]["detail"], "low");
    }
}
