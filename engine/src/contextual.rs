//! Which user messages are context of the harness and not the user's own words.
//!
//! Told from the text alone, so that a user who types such a text is taken for context
//! (`history.contextual.*`). Seen on all versions by giving each text as a message of a response:
//! what is not context is told to the client.

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};
use quick_xml::reader::Reader;

use crate::items::Item;

/// Opening and closing of a context text, in any case.
const TAGS: [(&str, &str); 7] = [
    ("<environment_context>", "</environment_context>"),
    (PROJECT_DOC, "</INSTRUCTIONS>"),
    ("<user_shell_command>", "</user_shell_command>"),
    ("<turn_aborted>", "</turn_aborted>"),
    ("<skill>", "</skill>"),
    ("<subagent_notification>", "</subagent_notification>"),
    ("<recommended_plugins>", "</recommended_plugins>"),
];

/// Openings and closings that count in their own case only.
const EXACT: [(&str, &str); 5] = [
    ("<goal_context>", "</goal_context>"),
    (
        "<codex_internal_context source=\"",
        "</codex_internal_context>",
    ),
    (
        "Warning: apply_patch was requested via ",
        "Use the apply_patch tool instead of exec_command.",
    ),
    (
        "Warning: The maximum number of unified exec processes you can keep open is",
        "",
    ),
    (
        "Warning: Your account was flagged for potentially high-risk cyber activity",
        "",
    ),
];

/// Opening of the instructions of AGENTS.md.
pub(crate) const PROJECT_DOC: &str = "# AGENTS.md instructions";

/// Opening of the tag around client context that is not to be trusted.
const EXTERNAL: &str = "<external_";

/// Whether a user message is context: one part that is context is enough.
pub fn is_contextual(item: &Item) -> bool {
    item.texts()
        .iter()
        .any(|text| is_context_text(text) || is_hook_prompt(text))
}

fn is_context_text(text: &str) -> bool {
    let text = text.trim();
    let folded = |(opening, closing): &(&str, &str)| {
        starts_folded(text, opening) && ends_folded(text, closing)
    };
    let exact =
        |(opening, closing): &(&str, &str)| text.starts_with(opening) && text.ends_with(closing);
    TAGS.iter().any(folded) || EXACT.iter().any(exact) || is_external(text)
}

fn starts_folded(text: &str, opening: &str) -> bool {
    let start = text.get(..opening.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(opening))
}

fn ends_folded(text: &str, closing: &str) -> bool {
    let at = text.len().checked_sub(closing.len());
    let end = at.and_then(|at| text.get(at..));
    end.is_some_and(|end| end.eq_ignore_ascii_case(closing))
}

/// `<external_KEY>…</external_KEY>`; the key ends at the first `>`.
fn is_external(text: &str) -> bool {
    let Some((key, rest)) = text
        .strip_prefix(EXTERNAL)
        .and_then(|rest| rest.split_once('>'))
    else {
        return false;
    };
    rest.ends_with(&format!("</external_{key}>"))
}

/// What a hook had to say, in a user message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookPrompt {
    pub(crate) run: String,
    pub(crate) text: String,
}

/// Reads an XML element with the id of the hook's run and a text. What stands behind the element
/// does not matter.
pub(crate) fn hook_prompt(text: &str) -> Option<HookPrompt> {
    let text = text.trim();
    if !starts_folded(text, "<hook_prompt") {
        return None;
    }
    let mut reader = Reader::from_str(text);
    let Ok(Event::Start(start)) = reader.read_event() else {
        return None;
    };
    let run = start.try_get_attribute("hook_run_id").ok()??;
    let run = run
        .normalized_value(XmlVersion::Implicit1_0)
        .ok()?
        .into_owned();
    let mut said = String::new();
    loop {
        match reader.read_event().ok()? {
            Event::Text(part) => said.push_str(&part.decode().ok()?),
            Event::GeneralRef(name) => said.push_str(&entity(&name)?),
            Event::End(_) => break,
            _ => return None,
        }
    }
    let blank = |text: &str| text.trim().is_empty();
    (!blank(&run) && !blank(&said)).then_some(HookPrompt { run, text: said })
}

/// The character of a reference (`&amp;`, `&#65;`).
fn entity(name: &BytesRef<'_>) -> Option<String> {
    if let Some(character) = name.resolve_char_ref().ok()? {
        return Some(character.to_string());
    }
    let name = name.decode().ok()?;
    resolve_predefined_entity(&name).map(str::to_owned)
}

/// Whether a text is what a hook had to say.
pub(crate) fn is_hook_prompt(text: &str) -> bool {
    hook_prompt(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_text_is_opened_and_closed() {
        for text in [
            " <environment_context>x</ENVIRONMENT_CONTEXT>\n",
            "# AGENTS.md instructions</INSTRUCTIONS>",
            "<goal_context>x</goal_context>",
            "<codex_internal_context source=\"goal\">x</codex_internal_context>",
            "<external_a b>x</external_a b>",
            "Warning: The maximum number of unified exec processes you can keep open is 5",
        ] {
            assert!(is_context_text(text), "{text}");
        }
        for text in [
            "<environment_context>x",
            "<environment_context>x</environment_context> y",
            "<GOAL_CONTEXT>x</GOAL_CONTEXT>",
            "<codex_internal_context a=\"b\">x</codex_internal_context>",
            "<external_a>x</external_b>",
            "<external_a<b>>x</external_a<b>>",
            "Warning: apply_patch was requested via x",
        ] {
            assert!(!is_context_text(text), "{text}");
        }
    }

    #[test]
    fn a_hook_prompt_names_its_run_and_says_something() {
        for text in [
            "<hook_prompt hook_run_id=\"1\">x</hook_prompt> y",
            "<hook_prompt hook_run_id='1' a=\"b\">x</hook_prompt>",
            "<HOOK_PROMPT hook_run_id=\"1\">x</HOOK_PROMPT>",
        ] {
            assert!(is_hook_prompt(text), "{text}");
        }
        for text in [
            "<hook_prompt hook_run_id=\"1\">x",
            "<hook_prompt a=\"b\">x</hook_prompt>",
            "<hook_prompt hook_run_id=\" \">x</hook_prompt>",
            "<hook_prompt hook_run_id=\"1\"></hook_prompt>",
            "<hook_prompt hook_run_id=\"1\">x & y</hook_prompt>",
            "<hook_prompt hook_run_id=\"1\">x <b> y</hook_prompt>",
        ] {
            assert!(!is_hook_prompt(text), "{text}");
        }
    }
}
