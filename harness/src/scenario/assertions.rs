//! `request:` assertions of a reply to patterns of the plan.

use semver::Version;

use super::plan::{ItemPattern, MatchMode, RequestAssertion, TextPattern};
use super::reply::{Assertion, Pattern, PatternFields, Reply, TextMatch};
use super::resolve::applies;
use super::texts::text;

/// The assertion of this version: the first whose range matches.
pub(super) fn request(
    reply: &Reply,
    version: &Version,
) -> Result<Option<RequestAssertion>, String> {
    let Some(assertions) = &reply.request else {
        return Ok(None);
    };
    for assertion in assertions.as_slice() {
        let range = assertion.versions.as_ref().map(|range| &range.value);
        if applies(range, version)? {
            return assertion_of(assertion).map(Some);
        }
    }
    Ok(None)
}

fn assertion_of(assertion: &Assertion) -> Result<RequestAssertion, String> {
    let (mode, patterns) = match (&assertion.input, &assertion.prefix, &assertion.contains) {
        (Some(patterns), None, None) => (MatchMode::Exact, patterns),
        (None, Some(patterns), None) => (MatchMode::Prefix, patterns),
        (None, None, Some(patterns)) => (MatchMode::Contains, patterns),
        _ => return Err("an assertion has one of `input`, `prefix`, `contains`".to_owned()),
    };
    let input = patterns
        .0
        .iter()
        .map(|pattern| item_pattern(&pattern.value));
    Ok(RequestAssertion {
        mode,
        input: input.collect::<Result<_, _>>()?,
    })
}

fn item_pattern(pattern: &Pattern) -> Result<ItemPattern, String> {
    match pattern {
        Pattern::Word(word) => Ok(match word.as_str() {
            "user" | "assistant" | "developer" => ItemPattern::Message {
                role: word.clone(),
                text: None,
            },
            "compaction_prompt" => ItemPattern::CompactionPrompt,
            kind => ItemPattern::Item {
                kind: kind.to_owned(),
                call_id: None,
                text: None,
            },
        }),
        Pattern::Fields(fields) => fields_pattern(fields),
    }
}

fn fields_pattern(fields: &PatternFields) -> Result<ItemPattern, String> {
    let message = |role: &str, text: &TextMatch| {
        Ok(ItemPattern::Message {
            role: role.to_owned(),
            text: Some(text_pattern(text)?),
        })
    };
    let content = fields.text.as_ref().map(text_pattern).transpose()?;
    let item = |kind: &str, call_id: &Option<String>| ItemPattern::Item {
        kind: kind.to_owned(),
        call_id: call_id.clone(),
        text: content.clone(),
    };
    match fields {
        PatternFields {
            user: Some(text), ..
        } => message("user", text),
        PatternFields {
            assistant: Some(text),
            ..
        } => message("assistant", text),
        PatternFields {
            developer: Some(text),
            ..
        } => message("developer", text),
        PatternFields {
            summary: Some(summary),
            ..
        } => text(summary).map(ItemPattern::Summary),
        PatternFields {
            call: call @ Some(_),
            ..
        } => Ok(item("function_call", call)),
        PatternFields {
            output: call @ Some(_),
            ..
        } => Ok(item("function_call_output", call)),
        PatternFields {
            item: Some(kind),
            call_id,
            ..
        } => Ok(item(kind, call_id)),
        _ => Err("a pattern names a role, `summary`, `call`, `output` or `item`".to_owned()),
    }
}

fn text_pattern(pattern: &TextMatch) -> Result<TextPattern, String> {
    Ok(match pattern {
        TextMatch::Is(whole) => TextPattern::Is(text(whole)?),
        TextMatch::Prefix(beginning) => TextPattern::Prefix(text(beginning)?),
        TextMatch::Contains(part) => TextPattern::Contains(text(part)?),
    })
}
