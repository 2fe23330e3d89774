//! Limits of the plan as the headers of an answer tell them (rule `turn.limits.headers`).

use serde_json::{Map, Value, json};

use crate::profile::Profile;

/// What the newest answer told.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RateLimits {
    name: Option<String>,
    primary: Value,
    secondary: Value,
    /// Credits stay known until an answer tells others.
    credits: Value,
}

impl RateLimits {
    /// Takes what an answer tells; what it leaves out is forgotten, but for the credits.
    pub(crate) fn read(&mut self, header: &dyn Fn(&str) -> Option<String>) {
        let text = |name: &str| {
            let text = header(&format!("x-codex-{name}"))?.trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        self.name = text("limit-name");
        self.primary = window(&text, "primary");
        self.secondary = window(&text, "secondary");
        let truth = |name: &str| match text(name)?.to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        };
        let told = truth("credits-has-credits").zip(truth("credits-unlimited"));
        if let Some((has, unlimited)) = told {
            let balance = text("credits-balance");
            self.credits = json!({"has_credits": has, "unlimited": unlimited, "balance": balance});
        }
    }

    /// As a `token_count` holds them.
    pub(crate) fn record(&self, profile: &Profile) -> Value {
        let mut map = Map::new();
        let mut set = |key: &str, value: Value| map.insert(key.to_owned(), value);
        set("limit_id", json!("codex"));
        set("limit_name", json!(self.name));
        set("primary", self.primary.clone());
        set("secondary", self.secondary.clone());
        set("credits", self.credits.clone());
        set("individual_limit", Value::Null);
        if profile.wide_metadata {
            set("spend_control_reached", Value::Null);
        }
        set("plan_type", Value::Null);
        set("rate_limit_reached_type", Value::Null);
        Value::Object(map)
    }
}

/// A window of a limit: nothing used of no time is none.
fn window(text: &dyn Fn(&str) -> Option<String>, which: &str) -> Value {
    let field = |name: &str| text(&format!("{which}-{name}"));
    let whole = |name: &str| field(name).and_then(|text| text.parse::<i64>().ok());
    let used = field("used-percent").and_then(|text| text.parse::<f64>().ok());
    let Some(used) = used.filter(|used| used.is_finite()) else {
        return Value::Null;
    };
    let (minutes, resets) = (whole("window-minutes"), whole("reset-at"));
    if used == 0.0 && minutes.is_none_or(|minutes| minutes == 0) && resets.is_none() {
        return Value::Null;
    }
    json!({"used_percent": used, "window_minutes": minutes, "resets_at": resets})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(limits: &mut RateLimits, headers: &[(&str, &str)]) {
        limits.read(&|name| {
            let found = headers
                .iter()
                .find(|(key, _)| name == format!("x-codex-{key}"));
            found.map(|(_, value)| (*value).to_owned())
        });
    }

    #[test]
    fn each_answer_tells_all_but_the_credits_anew() {
        let mut limits = RateLimits::default();
        let credits = [("credits-has-credits", "1"), ("credits-unlimited", "false")];
        after(&mut limits, &credits);
        after(
            &mut limits,
            &[("primary-used-percent", "50"), ("primary-reset-at", "soon")],
        );
        assert_eq!(
            limits.primary,
            json!({"used_percent": 50.0, "window_minutes": null, "resets_at": null})
        );
        after(&mut limits, &[("limit-name", "n")]);
        assert_eq!(limits.primary, Value::Null);
        assert_eq!(limits.name.as_deref(), Some("n"));
        assert_eq!(
            limits.credits,
            json!({"has_credits": true, "unlimited": false, "balance": null})
        );
    }

    #[test]
    fn a_window_needs_a_number_and_a_span_where_nothing_is_used() {
        let mut limits = RateLimits::default();
        for (used, minutes) in [("NaN", "5"), ("x", "5"), ("0", "0")] {
            let headers = [
                ("secondary-used-percent", used),
                ("secondary-window-minutes", minutes),
            ];
            after(&mut limits, &headers);
            assert_eq!(limits.secondary, Value::Null, "{used} of {minutes}");
        }
        after(
            &mut limits,
            &[
                ("secondary-used-percent", "0"),
                ("secondary-window-minutes", "60"),
            ],
        );
        assert_eq!(limits.secondary["window_minutes"], 60);
    }
}
