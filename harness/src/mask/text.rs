//! Texts: escaping of what looks like a placeholder, and places (workspace, home, provider) inside
//! texts.

use crate::recording::Places;

/// Words that stand in placeholders, with or without `:something`.
const NAMES: &[&str] = &[
    "thread",
    "turn",
    "window",
    "item",
    "uuid",
    "installation",
    "key",
    "time",
    "cwd",
    "home",
    "date",
    "model",
    "port",
    "version",
    "os",
    "content-length",
    "seconds",
    "catalog",
    "permissions",
    "provider",
    "same as body",
    "self",
    "next",
    "context window",
    "resized",
];

/// Longest text after the colon of a placeholder, in bytes.
const LABEL_BYTES_MAX: usize = 80;

/// Escapes a text and replaces the places of the run.
pub(crate) fn plain(text: &str, places: &Places) -> String {
    plain_owned(text.to_owned(), places)
}

/// Gives everything that looks like a placeholder one more `~`: `<cwd>` → `<~cwd>`.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tail) = rest.split_at(at + 1);
        out.push_str(before);
        if looks_like_placeholder(tail) {
            out.push('~');
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// The inverse of [`escape`].
#[cfg(test)]
pub(crate) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tail) = rest.split_at(at + 1);
        out.push_str(before);
        rest = match tail.strip_prefix('~') {
            Some(less) if looks_like_placeholder(less) => less,
            _ => tail,
        };
    }
    out.push_str(rest);
    out
}

fn looks_like_placeholder(tail: &str) -> bool {
    let word = tail.trim_start_matches('~');
    NAMES.iter().any(|name| {
        word.strip_prefix(name).is_some_and(|end| {
            end.starts_with('>')
                || end.strip_prefix(':').is_some_and(|label| {
                    label
                        .find(['>', '<'])
                        .is_some_and(|at| at <= LABEL_BYTES_MAX && label.as_bytes()[at] == b'>')
                })
        })
    })
}

/// [`plain`] of a text that is not needed any more: most texts stay as they are.
pub(crate) fn plain_owned(text: String, places: &Places) -> String {
    let text = if text.contains('<') {
        escape(&text)
    } else {
        text
    };
    replace_places(text, places)
}

/// Replaces the places of the run.
pub(crate) fn replace_places(text: String, places: &Places) -> String {
    // Every place is a path or a URL.
    if !text.contains('/') {
        return text;
    }
    let socket = places
        .base_url
        .strip_prefix("http")
        .map_or_else(String::new, |rest| format!("ws{rest}"));
    let mut pairs = [
        (places.workspace.as_str(), "<cwd>"),
        (places.home.as_str(), "<home>"),
        (places.base_url.as_str(), "<provider>"),
        (socket.as_str(), "<provider:ws>"),
    ];
    // One may lie inside the other: the longer one first.
    pairs.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    let mut out = text;
    for (path, name) in pairs {
        if !path.is_empty() && out.contains(path) {
            out = out.replace(path, name);
        }
    }
    out
}

/// Gives a literal key that equals a reserved `$` key one more `$`.
pub(crate) fn escape_key(key: &str, reserved: &[&str]) -> String {
    let word = key.trim_start_matches('$');
    if key.starts_with('$') && reserved.contains(&word) {
        format!("${key}")
    } else {
        key.to_owned()
    }
}

/// The inverse of [`escape_key`]; `None` for a reserved key itself.
pub(crate) fn unescape_key(key: &str, reserved: &[&str]) -> Option<String> {
    let word = key.trim_start_matches('$');
    if !key.starts_with('$') || !reserved.contains(&word) {
        return Some(key.to_owned());
    }
    key.starts_with("$$").then(|| key[1..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_only_what_looks_like_a_placeholder() {
        assert_eq!(
            escape("a <cwd> b <~thread:1> <b>"),
            "a <~cwd> b <~~thread:1> <b>"
        );
        assert_eq!(
            escape("<turn_aborted> <model_switch>"),
            "<turn_aborted> <model_switch>"
        );
    }

    #[test]
    fn replaces_the_longer_place_first() {
        let places = Places {
            workspace: "/h/x/wd".into(),
            home: "/h/x".into(),
            ..Places::default()
        };
        assert_eq!(plain("in /h/x/wd and /h/x", &places), "in <cwd> and <home>");
    }

    #[test]
    fn the_provider_is_a_place_and_its_route_stays() {
        let places = Places {
            base_url: "http://127.0.0.1:34331/c000017/v1".into(),
            ..Places::default()
        };
        let text = "404, url: http://127.0.0.1:34331/c000017/v1/responses, not /c000018/v1";
        assert_eq!(
            plain(text, &places),
            "404, url: <provider>/responses, not /c000018/v1"
        );
        assert_eq!(
            plain("url: ws://127.0.0.1:34331/c000017/v1/responses", &places),
            "url: <provider:ws>/responses"
        );
    }

    proptest::proptest! {
        #[test]
        fn escaping_is_lossless(text in "(<|~|>|:|cwd|thread|1|a){0,12}") {
            proptest::prop_assert_eq!(unescape(&escape(&text)), text);
        }

        #[test]
        fn keys_round_trip(key in "[$]{0,3}(json|raw|a)") {
            let escaped = escape_key(&key, &["json", "raw"]);
            proptest::prop_assert_eq!(unescape_key(&escaped, &["json", "raw"]), Some(key));
        }
    }
}
