//! What a client reads when the usage limit of its plan is reached.

use crate::profile::Profile;
use crate::rollout::civil;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const MINUTES_OF_DAY: u64 = 24 * 60;

/// The text for a plan; `resets_at` is in seconds since the epoch (rules `error.http_usage_limit.*`).
pub(crate) fn text(plan: Option<&str>, resets_at: Option<u64>, profile: &Profile) -> String {
    let page = profile.usage_page;
    let again = resets_at.map_or("try again later.".to_owned(), |seconds| {
        format!("try again at {}.", moment(seconds))
    });
    let advice = match plan {
        Some("free") => format!(
            "Upgrade to Plus to continue using Codex (https://chatgpt.com/explore/plus), or {again}"
        ),
        Some("plus") => format!(
            "Upgrade to Pro (https://chatgpt.com/explore/pro), visit {page} to purchase more \
             credits or {again}"
        ),
        Some("pro") => format!("Visit {page} to purchase more credits or {again}"),
        Some("team") => {
            format!("To get more access now, send a request to your admin or {again}")
        }
        Some(_) | None => again.replacen('t', "T", 1),
    };
    format!(
        "You{mark}ve hit your usage limit. {advice}",
        mark = profile.apostrophe
    )
}

/// `Jan 1st, 2100 12:00 AM`, in UTC. The same day is only told by its time, which no scenario can
/// hold still.
fn moment(seconds: u64) -> String {
    let minutes = seconds / 60;
    let (year, month, day) = civil((minutes / MINUTES_OF_DAY) as i64);
    let suffix = match (day % 10, day) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    let of_day = minutes % MINUTES_OF_DAY;
    let (hour, minute) = (of_day / 60, of_day % 60);
    let half = if hour < 12 { "AM" } else { "PM" };
    let hour = if hour % 12 == 0 { 12 } else { hour % 12 };
    let month = MONTHS[(month - 1) as usize];
    format!("{month} {day}{suffix}, {year} {hour}:{minute:02} {half}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_with_ordinal_and_half_of_the_day() {
        for (seconds, told) in [
            (4_102_444_800, "Jan 1st, 2100 12:00 AM"),
            (4_102_488_000, "Jan 1st, 2100 12:00 PM"),
            (4_105_209_661, "Feb 2nd, 2100 12:01 AM"),
            (4_103_400_000, "Jan 12th, 2100 1:20 AM"),
        ] {
            assert_eq!(moment(seconds), told);
        }
    }
}
