//! The fixed texts that reach the model, in our own wording at the byte length of the real ones.
//!
//! Token arithmetic and cuts count bytes, so each text has the length of the text that the real
//! binary sends, plain and JSON-escaped (facts/texts.md). ASCII only: an offset is a byte and a
//! character. Short protocol strings stand where they are used. Texts are the same on the three
//! versions. When adding one, also add it to [`KNOWN`]: the recorder swaps by that list.

pub mod permissions;

/// Last user item of a local compaction request. Ends with a newline.
pub const COMPACTION_PROMPT: &str = "\
Write a checkpoint of this thread for the next model, which sees only what you put down here. \
Cover these points.\n\nState:\n\
- what has been finished and which choices were made\n\
- limits, wishes and facts from the user that still apply\n\
- the steps that are left, in the order to take them\n\
- names, values and excerpts that later work needs\n\n\
Keep it short and ordered, so that the reader can go on at once and redoes nothing yet.\n";

/// Prefix of a summary; a newline and the summary follow.
pub const SUMMARY_PREFIX: &str = "\
A summary of the thread so far follows. It was written by a model that worked on the same task \
before its context was replaced. Earlier calls and their outputs are no longer listed, but their \
effects on the workspace remain. Take the summary as the record of what has been done, go on from \
there without redoing finished steps, and treat the wishes of the user that it lists as still \
valid. Summary:";

/// User item recorded when a turn is interrupted.
pub const TURN_ABORTED: &str = "\
<turn_aborted>\n\
This turn was stopped by the user before it came to its end. Commands that were started may still \
run, and tool calls that were cut off may have taken effect in part. \
See what stands, then go on.\n</turn_aborted>";

/// Developer item recorded when a used up session budget stops a turn (0.171).
pub const TURN_STOPPED: &str = "\
<turn_aborted>\n\
This turn was stopped by the harness before it came to its end. Commands that were started may \
still run, and tool calls that were cut off may have taken effect in part. \
See what stands now.\n</turn_aborted>";

/// Opening of the developer item for a model that takes over from another one; its base
/// instructions follow.
pub const MODEL_SWITCH: &str = "\
Up to here another model has worked on this thread for its user. From now on you take it over and \
these instructions hold:";

/// Description of the built-in tool `update_plan` (0.144.6 lists it always).
pub const UPDATE_PLAN: &str = "\
Records the plan of this task.\n\
Takes the list of steps with the state of each one, and a note that says why it changed.\n\
At most one step can be active here.\n";

/// Description of the built-in tool `view_image` (0.144.6 lists it always).
pub const VIEW_IMAGE: &str = "\
Shows the model an image that lies in the workspace. Give the path of the file; use it only when \
the picture itself matters.";

/// Warning shown after each compaction (0.144.6).
pub const COMPACTION_WARNING: &str = "\
A note: this thread has been compacted, and each time some of its detail is gone. For the best \
answers, begin a new thread whenever one of your tasks is out.";

/// Developer item behind a response that the content filter stopped (0.164 and later).
pub const CONTENT_FILTER_GUIDANCE: &str = "\
<content_filter_guidance>\n\
The answer before this one was stopped by a content filter. This is no passing fault: do not ask \
for the same thing once more, and do not try to bring the stopped content about by other means, \
such as another format, parts, code, tools or helpers. Say briefly what is not possible, name \
something allowed to do in its place, and go on with all other work.\n</content_filter_guidance>";

/// Warning shown when another model answers than the one that was asked.
pub const REROUTED_WARNING: &str = "\
The provider has answered this request with another model than the one that was asked for, \
because the account carries a mark. The thread goes on with that other model for the time being. \
Where the mark is wrong, turn to the provider, who can take it away from the account again.";

/// Reminder of a token budget without a template of its own; the tokens left follow, then
/// [`REMINDER_TAIL`].
pub const REMINDER_HEAD: &str = "Only little room is left in this window (just ";
/// What follows the tokens left.
pub const REMINDER_TAIL: &str = " \
tokens to go), and a fresh one will soon be put in its place by the harness. From then on the \
messages of this one are out of your view; what you wrote down as notes and the items of the \
history stay within reach.";

/// Warning at a resume with another model: the model before follows, then what is asked for.
pub const RESUMED_MODEL: &str = "Until it stopped the thread ran with ";
/// Of that warning; the model before follows.
pub const RESUMED_ADVICE: &str = ". Think of going back to the ";
/// End of that warning.
pub const RESUMED_REASON: &str = " because the answers may suffer now.";
/// Warning of a service tier, behind its name; the model follows.
pub const TIER_UNKNOWN: &str = " is on no list of service tiers for model ";
/// End of that warning.
pub const TIER_LEFT_OUT: &str = " and so it is left out of requests.";
/// Warning of a turn whose records are not in the rollout yet; the reason follows. It is shown only
/// where storage fails, so no recording holds it and it is not swapped.
pub const NOT_SAVED: &str =
    "The thread could not be written to its rollout; it is tried again later. Reason: ";
/// Warning of a line that a resume left out; the line and the reason follow. No release has it.
pub const SKIPPED: &str = "Not read from the rollout: ";

/// A fixed text, ours, and what is known of the real one.
#[derive(Debug, Clone, Copy)]
pub struct KnownText {
    /// Name used in scenarios (`{$text: summary_prefix}`), masks and findings.
    pub id: &'static str,
    /// Our wording.
    pub ours: &'static str,
    /// SHA-1 of the real text, in hex.
    pub real_sha1: &'static str,
    /// Versions that send it, as a Cargo requirement.
    pub versions: &'static str,
}

/// Every fixed text longer than a line.
pub const KNOWN: &[KnownText] = &[
    KnownText {
        id: "compaction_prompt",
        ours: COMPACTION_PROMPT,
        real_sha1: "7aa759e57c6db2dbfaf11aae4ce47d4738b9dab3",
        versions: "*",
    },
    KnownText {
        id: "summary_prefix",
        ours: SUMMARY_PREFIX,
        real_sha1: "eedd815901ea779331baed05d2ea14ead2813186",
        versions: "*",
    },
    KnownText {
        id: "turn_aborted",
        ours: TURN_ABORTED,
        real_sha1: "ecfbe67f4014cb2a62364fed920de0b447e2c779",
        versions: "*",
    },
    KnownText {
        id: "turn_stopped",
        ours: TURN_STOPPED,
        real_sha1: "280a59b82cf4c4808143f750db3949cf8f2dc201",
        versions: ">=0.171",
    },
    KnownText {
        id: "model_switch",
        ours: MODEL_SWITCH,
        real_sha1: "b903b944dc826e112c89d95fb634ebeb2a942e8b",
        versions: "*",
    },
    KnownText {
        id: "sandbox_danger_full_access",
        ours: permissions::SANDBOX_DANGER,
        real_sha1: "8036755297cc4f121e7aedaf612cb70a65d8b917",
        versions: "*",
    },
    KnownText {
        id: "sandbox_read_only",
        ours: permissions::SANDBOX_READ_ONLY,
        real_sha1: "32510d7e8f6db0606d6c58700e53fb024b5950c9",
        versions: "*",
    },
    KnownText {
        id: "sandbox_workspace_write",
        ours: permissions::SANDBOX_WORKSPACE_WRITE,
        real_sha1: "438d772aae5614698de57f2a565eef07152a1e78",
        versions: "*",
    },
    KnownText {
        id: "approval_never",
        ours: permissions::APPROVAL_NEVER,
        real_sha1: "b931ec1a391fe80984dd9659f27c7de44dbf287a",
        versions: "*",
    },
    KnownText {
        id: "approval_on_request",
        ours: permissions::APPROVAL_ON_REQUEST,
        real_sha1: "c9b9ffb3295841e7d34dcda331838701c26aef59",
        versions: "*",
    },
    KnownText {
        id: "approval_untrusted",
        ours: permissions::APPROVAL_UNTRUSTED,
        real_sha1: "1fa93ab21bfe6e71f10854bf2a7ba04b87bc77de",
        versions: "<0.164",
    },
    KnownText {
        id: "approval_unless_trusted",
        ours: permissions::APPROVAL_UNLESS_TRUSTED,
        real_sha1: "b20ad9bd5e52aa32981cdcdf7c45462ab3c45540",
        versions: ">=0.164",
    },
    KnownText {
        id: "update_plan",
        ours: UPDATE_PLAN,
        real_sha1: "720c9f5021e7e32e3de6c377c2df0f5d45524f79",
        versions: "<0.164",
    },
    KnownText {
        id: "view_image",
        ours: VIEW_IMAGE,
        real_sha1: "bd12cf309f2f0686e8edc82b1a6b37c62d399278",
        versions: "<0.164",
    },
    KnownText {
        id: "compaction_warning",
        ours: COMPACTION_WARNING,
        real_sha1: "ab5f5031134e0f027f5376dd05535976f5b8517f",
        versions: "<0.164",
    },
    KnownText {
        id: "content_filter_guidance",
        ours: CONTENT_FILTER_GUIDANCE,
        real_sha1: "1a49ab108cfa7080cbeb9c6f020ab9a23748e487",
        versions: ">=0.164",
    },
    KnownText {
        id: "rerouted_warning",
        ours: REROUTED_WARNING,
        real_sha1: "484ea8111897e5e3813c2498214d1e5a12b53953",
        versions: "*",
    },
    KnownText {
        id: "reminder_head",
        ours: REMINDER_HEAD,
        real_sha1: "7c225d5175491d511c4c43ff06fd8340a8a47f76",
        versions: "*",
    },
    KnownText {
        id: "reminder_tail",
        ours: REMINDER_TAIL,
        real_sha1: "f4ac97b80ddebabf28d5083943c530804e962e96",
        versions: "*",
    },
    KnownText {
        id: "resumed_model",
        ours: RESUMED_MODEL,
        real_sha1: "1a5ca5a6e730aaba41fa4799e62d3e53b40f0723",
        versions: "*",
    },
    KnownText {
        id: "resumed_advice",
        ours: RESUMED_ADVICE,
        real_sha1: "e0b6ec8dfbf68accfe0f342431bf9431f4f0b072",
        versions: "*",
    },
    KnownText {
        id: "resumed_reason",
        ours: RESUMED_REASON,
        real_sha1: "18f8c427ec15b55c0489cf17ad70bb7819837c0d",
        versions: "*",
    },
    KnownText {
        id: "tier_unknown",
        ours: TIER_UNKNOWN,
        real_sha1: "67d3c377c4024168f261c0160b3a3a3ce7d0a11c",
        versions: "*",
    },
    KnownText {
        id: "tier_left_out",
        ours: TIER_LEFT_OUT,
        real_sha1: "082ba5df4733068b9de98c381ee0a97f449bc022",
        versions: "*",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes plain and JSON-escaped, as measured on the real binaries (facts/texts.md).
    #[test]
    fn every_text_has_the_length_of_the_real_one() {
        let lengths: Vec<(&str, usize, usize)> = KNOWN
            .iter()
            .map(|known| {
                let escaped = serde_json::to_string(known.ours).expect("a string serialises");
                (known.id, known.ours.len(), escaped.len() - 2)
            })
            .collect();
        assert_eq!(
            lengths,
            [
                ("compaction_prompt", 426, 435),
                ("summary_prefix", 399, 399),
                ("turn_aborted", 226, 228),
                ("turn_stopped", 221, 223),
                ("model_switch", 122, 122),
                ("sandbox_danger_full_access", 187, 187),
                ("sandbox_read_only", 166, 166),
                ("sandbox_workspace_write", 270, 270),
                ("approval_never", 119, 119),
                ("approval_on_request", 3660, 3752),
                ("approval_untrusted", 246, 248),
                ("approval_unless_trusted", 151, 151),
                ("update_plan", 157, 160),
                ("view_image", 124, 124),
                ("compaction_warning", 157, 157),
                ("content_filter_guidance", 408, 410),
                ("rerouted_warning", 279, 279),
                ("reminder_head", 46, 46),
                ("reminder_tail", 214, 214),
                ("resumed_model", 37, 37),
                ("resumed_advice", 29, 29),
                ("resumed_reason", 36, 36),
                ("tier_unknown", 42, 42),
                ("tier_left_out", 35, 35),
            ]
        );
        assert!(KNOWN.iter().all(|known| known.ours.is_ascii()));
    }
}
