//! JSON Schema of the scenario format, for editors.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::schema::Scenario;

/// The schema as a value.
pub(super) fn schema() -> Value {
    let generator: SchemaGenerator = SchemaSettings::draft2020_12().into_generator();
    generator.into_root_schema_for::<Scenario>().to_value()
}

/// The schema as text; the same bytes for the same types.
pub fn json_schema_text() -> String {
    format!("{:#}\n", schema())
}
