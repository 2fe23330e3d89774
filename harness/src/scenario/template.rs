//! Text of a new scenario.

use super::write::text_value;

/// A scenario with two requests, to start from.
pub fn template(description: &str) -> String {
    let description = text_value(description);
    format!(
        "# yaml-language-server: $schema=../../docs/scenario.schema.json\n\
         description: {description}\n\
         tools: {{lookup: {{path: string}}}}\n\
         steps:\n\
         \x20 - user: Create README.md\n\
         \x20   replies:\n\
         \x20     - call: {{tool: lookup, arguments: {{path: README.md}}, output: absent}}\n\
         \x20     - say: Done.\n"
    )
}
