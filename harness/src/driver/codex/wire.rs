//! From a plan to what the app-server takes.

use serde_json::{Value, json};

use crate::scenario::plan::ToolSpec;

/// The tools as the app-server takes them: a namespace stands where its first tool stood.
pub(super) fn dynamic_tools(tools: &[ToolSpec]) -> Vec<Value> {
    let mut specs: Vec<Value> = Vec::new();
    for tool in tools {
        let mut spec = json!({
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "inputSchema": tool.parameters,
        });
        if tool.defer_loading {
            spec["deferLoading"] = json!(true);
        }
        let Some(namespace) = &tool.namespace else {
            specs.push(spec);
            continue;
        };
        let known = specs
            .iter_mut()
            .find(|known| known["type"] == "namespace" && known["name"] == json!(namespace));
        match known.and_then(|known| known["tools"].as_array_mut()) {
            Some(tools) => tools.push(spec),
            None => specs.push(json!({
                "type": "namespace",
                "name": namespace,
                "description": namespace,
                "tools": [spec],
            })),
        }
    }
    specs
}
