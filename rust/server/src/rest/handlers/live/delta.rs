//! Difference of two states, as the page merges it.

use serde_json::{Map, Value};

/// Returns what has changed: new and changed members of objects, `null` for members that are gone. Other values are
/// replaced as a whole. `None` for equal values.
pub(super) fn delta(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(now)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let changed = now.iter().filter_map(|(name, value)| {
        let change = before.get(name).map_or_else(|| Some(value.clone()), |old| delta(old, value));
        change.map(|change| (name.clone(), change))
    });
    let gone = before.keys().filter(|name| !now.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let object: Map<String, Value> = changed.chain(gone).collect();
    (!object.is_empty()).then_some(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Merges as the page does.
    fn merge(into: &mut Value, change: &Value) {
        let (Value::Object(known), Value::Object(change)) = (&mut *into, change) else {
            *into = change.clone();
            return;
        };
        for (name, value) in change {
            match value {
                Value::Null => drop(known.remove(name)),
                value => merge(known.entry(name.clone()).or_insert(Value::Null), value),
            }
        }
    }

    #[test]
    fn only_changes_are_sent() {
        let old = json!({"a": {"b": 1, "c": [1, 2]}, "d": "x", "gone": {"e": 1}});
        let new = json!({"a": {"b": 1, "c": [1, 3]}, "d": "x", "f": {"g": 2}});
        let expected = json!({"a": {"c": [1, 3]}, "f": {"g": 2}, "gone": null});
        assert_eq!(delta(&old, &new), Some(expected));
        assert_eq!(delta(&new, &new), None);
    }

    fn state() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![any::<i32>().prop_map(Value::from), prop::collection::vec(0..3, 0..3).prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop::collection::hash_map("[a-c]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn merged_delta_gives_the_new_state(old in state(), new in state()) {
            let mut merged = old.clone();
            if let Some(change) = delta(&old, &new) {
                merge(&mut merged, &change);
            }
            prop_assert_eq!(merged, new);
        }
    }
}
