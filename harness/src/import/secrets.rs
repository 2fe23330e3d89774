//! What looks like a secret in a scenario that is about to be written.
//!
//! It looks at the written text, so whatever a redaction missed is seen. Ids of items and calls are
//! random words by nature and stand behind their key.

/// Shortest word of hexadecimal digits that is taken for a secret.
const HEX_CHARS_MIN: usize = 32;
/// Shortest word of base64 that is taken for a secret.
const BASE64_CHARS_MIN: usize = 40;
/// Beginnings of well-known keys, and how long such a word is at least.
const HEADS: [(&str, usize, &str); 7] = [
    ("sk-", 20, "an API key (`sk-…`)"),
    ("ghp_", 20, "a GitHub token (`ghp_…`)"),
    ("gho_", 20, "a GitHub token (`gho_…`)"),
    ("ghs_", 20, "a GitHub token (`ghs_…`)"),
    ("github_pat_", 20, "a GitHub token (`github_pat_…`)"),
    ("AKIA", 16, "an AWS key id (`AKIA…`)"),
    ("xoxb-", 20, "a Slack token (`xoxb-…`)"),
];
/// Keys whose values are ids.
const ID_KEYS: [&str; 3] = ["id:", "item_id:", "call_id:"];

/// Line and name of everything that looks like a secret.
pub fn secrets(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut is_id = false;
        if line.contains("PRIVATE KEY-----") {
            found.push((number + 1, "a private key"));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-+/=.@:".contains(c);
        for word in line.split(|c: char| !fits(c)) {
            if let Some(what) = secret(word, is_id) {
                found.push((number + 1, what));
            }
            if !word.is_empty() {
                is_id = ID_KEYS.contains(&word);
            }
        }
    }
    found.dedup();
    found
}

fn secret(word: &str, is_id: bool) -> Option<&'static str> {
    let head = HEADS.iter().find(|(head, chars_min, _)| {
        word.find(head)
            .is_some_and(|at| word.len() - at >= *chars_min)
    });
    if let Some((_, _, what)) = head {
        return Some(what);
    }
    if is_e_mail(word) {
        return Some("an e-mail address");
    }
    if is_id {
        return None;
    }
    let of_digits = |part: &str| {
        part.len() >= HEX_CHARS_MIN
            && part.bytes().all(|b| b.is_ascii_hexdigit())
            && part.bytes().any(|b| b.is_ascii_digit())
            && part.bytes().any(|b| b.is_ascii_alphabetic())
    };
    if word
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(of_digits)
    {
        return Some("a long word of hexadecimal digits");
    }
    let of_base64 = |part: &str| {
        part.len() >= BASE64_CHARS_MIN
            && part.bytes().any(|b| b.is_ascii_digit())
            && part.bytes().any(|b| b.is_ascii_lowercase())
            && part.bytes().any(|b| b.is_ascii_uppercase())
    };
    word.split(['.', ':', '@', '_', '-'])
        .any(of_base64)
        .then_some("a long word of base64")
}

fn is_e_mail(word: &str) -> bool {
    let Some((name, host)) = word.split_once('@') else {
        return false;
    };
    let end = host.rsplit('.').next().unwrap_or_default();
    !name.is_empty()
        && host.contains('.')
        && end.len() >= 2
        && end.bytes().all(|b| b.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_with_their_line() {
        let hex = "0123456789abcdef".repeat(2);
        let base64 = "aZ3".repeat(14);
        for (text, what) in [
            ("say: sk-abcdefghijklmnopqrstuv", "an API key (`sk-…`)"),
            (
                "say: ghp_abcdefghijklmnopqrstuv",
                "a GitHub token (`ghp_…`)",
            ),
            ("say: AKIAABCDEFGHIJKLMNOP", "an AWS key id (`AKIA…`)"),
            ("say: \"-----BEGIN PRIVATE KEY-----\"", "a private key"),
            ("say: mail jane@example.org now", "an e-mail address"),
            (&format!("say: {hex}"), "a long word of hexadecimal digits"),
            (&format!("say: {base64}"), "a long word of base64"),
            (
                &format!("{{say: a, arguments: {base64}}}"),
                "a long word of base64",
            ),
        ] {
            assert_eq!(secrets(&format!("\n{text}\n")), [(2, what)], "{text}");
        }
    }

    #[test]
    fn ids_and_stand_ins_are_none() {
        let hex = "0123456789abcdef".repeat(3);
        for text in [
            format!("{{call_id: call_{hex}, item_id: \"rs_{hex}\"}}"),
            format!("say: {}", "x".repeat(500)),
            "say: a@b, user@host".to_owned(),
            "say: 019b0000-0000-7000-8000-000000000001".to_owned(),
        ] {
            assert_eq!(secrets(&text), [], "{text}");
        }
    }
}
