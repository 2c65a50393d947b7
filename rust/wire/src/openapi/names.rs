//! Names in a document: path segments, component keys, and references between schemas.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A name as one segment of a path.
pub(super) fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

/// Unique keys of components, of the characters that keys may have.
#[derive(Debug, Default)]
pub(super) struct Keys {
    taken: BTreeSet<String>,
}

impl Keys {
    /// A key that resembles `wanted`.
    pub(super) fn take(&mut self, wanted: &str) -> String {
        let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
        let plain: String = wanted.chars().map(allowed).collect();
        let mut key = plain.clone();
        let mut count = 1;
        while !self.taken.insert(key.clone()) {
            count += 1;
            key = format!("{plain}_{count}");
        }
        key
    }
}

/// The reference to a component of this kind and key.
pub(super) fn reference(kind: &str, key: &str) -> Value {
    serde_json::json!({"$ref": format!("#/components/{kind}/{key}")})
}

pub(super) fn one_of(mut schemas: Vec<Value>) -> Value {
    match schemas.len() {
        0 => Value::Bool(false),
        1 => schemas.swap_remove(0),
        _ => json!({"oneOf": schemas}),
    }
}

/// Points a schema's references, which begin at itself, at the place that it has in the document.
pub(super) fn rebase(schema: &mut Value, key: &str) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| rebase(item, key)),
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    // Data, not schemas.
                    ("const" | "enum" | "default" | "examples", _) => {}
                    ("$ref", Value::String(target)) => move_target(target, key),
                    ("mapping", Value::Object(targets)) => {
                        for target in targets.values_mut() {
                            if let Value::String(target) = target {
                                move_target(target, key);
                            }
                        }
                    }
                    (_, value) => rebase(value, key),
                }
            }
        }
        _ => {}
    }
}

fn move_target(target: &mut String, key: &str) {
    if let Some(inside) = target.strip_prefix('#') {
        *target = format!("#/components/schemas/{key}{inside}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn path_segment_is_percent_encoded() {
        assert_eq!(segment("a b/ü{x}"), "a%20b%2F%C3%BC%7Bx%7D");
        assert_eq!(segment("add-1.0_x~"), "add-1.0_x~");
    }

    #[test]
    fn schema_keys_of_different_names_differ() {
        let mut keys = Keys::default();
        assert_eq!(keys.take("a b"), "a_b");
        assert_eq!(keys.take("a:b"), "a_b_2");
        assert_eq!(keys.take("ü"), "_");
    }

    #[test]
    fn references_are_rebased_but_not_in_data() {
        let mut schema = json!({
            "properties": {"a": {"$ref": "#/$defs/A"}, "enum": {"type": "string"}},
            "const": {"$ref": "#/$defs/A"},
            "discriminator": {"mapping": {"cat": "#/$defs/Cat"}},
            "items": [{"$ref": "#"}],
        });
        rebase(&mut schema, "k");
        assert_eq!(schema["properties"]["a"]["$ref"], "#/components/schemas/k/$defs/A");
        assert_eq!(schema["const"]["$ref"], "#/$defs/A");
        assert_eq!(schema["discriminator"]["mapping"]["cat"], "#/components/schemas/k/$defs/Cat");
        assert_eq!(schema["items"][0]["$ref"], "#/components/schemas/k");
    }
}
