//! What must never stand in a golden: secrets, and paths of somebody's machine.

/// Looks through a text; says what was found and in which line.
pub fn scan(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (what, hit) in hits(line) {
            // The hit itself is not repeated: findings are printed and stored.
            found.push(format!("line {}: {what} ({} bytes)", number + 1, hit.len()));
        }
    }
    found
}

fn hits(line: &str) -> Vec<(&'static str, &str)> {
    let mut out = Vec::new();
    for (what, prefix, least) in [
        ("API key", "sk-", 16),
        ("GitHub token", "ghp_", 20),
        ("GitHub token", "github_pat_", 20),
        ("AWS access key", "AKIA", 16),
        ("Slack token", "xoxb-", 16),
    ] {
        out.extend(words_after(line, prefix, least).map(|hit| (what, hit)));
    }
    let lower = line.to_ascii_lowercase();
    for (at, _) in lower.match_indices("bearer ") {
        let hit = word(&line[at + 7..]);
        if hit.len() >= 16 {
            out.push(("bearer token", hit));
        }
    }
    for home in ["/home/", "/Users/", "/root/", "C:\\\\Users\\\\"] {
        out.extend(words_after(line, home, 1).map(|hit| ("home path", hit)));
    }
    out
}

/// Key-like words of at least `least` characters behind a prefix that begins a word.
fn words_after<'a>(
    line: &'a str,
    prefix: &'a str,
    least: usize,
) -> impl Iterator<Item = &'a str> + 'a {
    line.match_indices(prefix).filter_map(move |(at, _)| {
        let begins = line[..at]
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_ascii_alphanumeric());
        let hit = word(&line[at + prefix.len()..]);
        (begins && hit.len() >= least).then_some(hit)
    })
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_secrets_without_repeating_them() {
        let key = format!("sk-{}", "a1".repeat(12));
        let text = format!("fine\n\"{key}\"\nAuthorization: Bearer {}", "x".repeat(20));
        let found = scan(&text);
        assert_eq!(
            found,
            [
                "line 2: API key (24 bytes)",
                "line 3: bearer token (20 bytes)"
            ]
        );
        assert_eq!(scan(&format!("in {}ome/somebody/x", "/h")).len(), 1);
    }

    #[test]
    fn ordinary_words_pass() {
        assert_eq!(
            scan("task-force risk-averse sk-short bearer of news <home>/wd"),
            [""; 0]
        );
    }
}
