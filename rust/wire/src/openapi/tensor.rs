//! The JSON Schema of one tensor: its elements, its shape, and its data, flat or nested.

use penstock_core::{Datatype, ElementKind, TensorSpec};
use serde_json::{Value, json};

/// Halfway between the largest number and what would be the next: what is nearer to that is out of range.
const FP16_END: f64 = 65520.0;
/// As the decimals that a double is written with, which are a little less than halfway, and in range.
const BF16_MOST: f64 = 3.396_177_529_230_46e38;
const FP32_MOST: f64 = 3.402_823_567_797_336_6e38;

/// A tensor, and the component that describes its documents.
pub(super) type Documented<'a> = (&'a TensorSpec, Option<String>);

/// Style of an element's schema.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Elements<'a> {
    /// The component that describes the documents in a BYTES tensor.
    pub(super) document: Option<&'a str>,
    /// Elements of a response, whose numbers may be `NaN` or `Infinity`.
    pub(super) answered: bool,
    /// Such numbers are `null`.
    pub(super) nullable: bool,
}

/// One element.
pub(super) fn element(datatype: Datatype, elements: Elements<'_>) -> Value {
    let kind = if elements.nullable { json!(["number", "null"]) } else { json!("number") };
    let number = |most: f64| match elements.answered {
        true => json!({"type": kind}),
        false => json!({"type": kind, "minimum": -most, "maximum": most}),
    };
    match datatype {
        Datatype::Bool => json!({"type": ["boolean", "integer"], "minimum": 0, "maximum": 1}),
        Datatype::Fp16 if elements.answered => json!({"type": kind}),
        Datatype::Fp16 => json!({"type": kind, "exclusiveMinimum": -FP16_END, "exclusiveMaximum": FP16_END}),
        Datatype::Bf16 => number(BF16_MOST),
        Datatype::Fp32 => number(FP32_MOST),
        Datatype::Bytes => match elements.document {
            None => json!({"type": "string"}),
            Some(key) => json!({
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": super::names::reference("schemas", key),
            }),
        },
        Datatype::Fp64 => json!({"type": kind, "format": "double"}),
        datatype if datatype.kind() == ElementKind::Float => json!({"type": kind}),
        datatype => integer(datatype),
    }
}

fn integer(datatype: Datatype) -> Value {
    let unused = 64 - 8 * datatype.size().unwrap_or(8);
    let (least, most): (Value, Value) = match datatype.kind() {
        ElementKind::Int => ((i64::MIN >> unused).into(), (i64::MAX >> unused).into()),
        _ => (0.into(), (u64::MAX >> unused).into()),
    };
    json!({"type": "integer", "format": datatype.name().to_ascii_lowercase(), "minimum": least, "maximum": most})
}

/// The sizes that an axis may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) least: usize,
    pub(super) most: Option<usize>,
}

/// All axes; the batch axis first, of at most `rows` if that is known.
fn axes(spec: &TensorSpec, batched: bool, rows: Option<usize>) -> Vec<Axis> {
    let batch = batched.then_some(Axis { least: 0, most: rows });
    let own = spec.dims.iter().map(|dim| Axis { least: dim.unwrap_or(0), most: *dim });
    batch.into_iter().chain(own).collect()
}

/// The `shape` of a tensor.
pub(super) fn shape(spec: &TensorSpec, batched: bool, rows: Option<usize>) -> Value {
    let axes = axes(spec, batched, rows);
    if axes.is_empty() {
        return json!({"type": "array", "maxItems": 0});
    }
    let axis = |axis: &Axis| match axis.most {
        Some(most) if most == axis.least => json!({"const": most}),
        Some(most) => json!({"type": "integer", "minimum": axis.least, "maximum": most}),
        None => json!({"type": "integer", "minimum": axis.least}),
    };
    let count = axes.len();
    json!({
        "type": "array",
        "prefixItems": axes.iter().map(axis).collect::<Vec<_>>(),
        "items": false,
        "minItems": count,
    })
}

/// The `data` of an input: all elements in a row, or nested as the shape is.
pub(super) fn data(spec: &TensorSpec, batched: bool, rows: Option<usize>, element: &Value) -> Value {
    let axes = axes(spec, batched, rows);
    let least = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.least));
    let most = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.most?));
    let flat = array(Axis { least: least.unwrap_or(usize::MAX), most }, element.clone());
    if axes.len() < 2 {
        return flat;
    }
    let nested = axes.iter().rev().fold(element.clone(), |inner, &axis| array(axis, inner));
    json!({"anyOf": [flat, nested]})
}

/// An array along one axis.
pub(super) fn array(axis: Axis, items: Value) -> Value {
    let mut schema = json!({"type": "array", "items": items});
    if axis.least > 0 {
        schema["minItems"] = axis.least.into();
    }
    if let Some(most) = axis.most {
        schema["maxItems"] = most.into();
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(dims: &[Option<usize>]) -> TensorSpec {
        TensorSpec::new("x", Datatype::Uint8, dims.to_vec())
    }

    #[test]
    fn fixed_shape_fixes_the_lengths() {
        let one = element(Datatype::Uint8, Elements::default());
        assert_eq!(one, json!({"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255}));
        let fixed = spec(&[Some(2), Some(3)]);
        assert_eq!(shape(&fixed, false, None)["prefixItems"], json!([{"const": 2}, {"const": 3}]));
        let data = data(&fixed, false, None, &one);
        assert_eq!((&data["anyOf"][0]["minItems"], &data["anyOf"][0]["maxItems"]), (&json!(6), &json!(6)));
        assert_eq!(data["anyOf"][1]["items"]["minItems"], 3);
    }

    #[test]
    fn batch_axis_bounds_the_rows() {
        let one = element(Datatype::Uint8, Elements::default());
        let batched = spec(&[Some(3)]);
        assert_eq!(shape(&batched, true, Some(8))["prefixItems"][0]["maximum"], 8);
        assert_eq!(data(&batched, true, Some(8), &one)["anyOf"][0]["maxItems"], 24);
        let open = data(&spec(&[None]), true, Some(8), &one);
        assert_eq!(open["anyOf"][0], json!({"type": "array", "items": one}));
    }

    #[test]
    fn scalar_has_one_element() {
        assert_eq!(shape(&spec(&[]), false, None), json!({"type": "array", "maxItems": 0}));
        let data = data(&spec(&[]), false, None, &json!({}));
        assert_eq!(data, json!({"type": "array", "items": {}, "minItems": 1, "maxItems": 1}));
    }
}
