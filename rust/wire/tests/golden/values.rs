//! Values in the files and in responses: parameters, hexadecimal, and elements in JSON.

use half::{bf16, f16};
use penstock_core::{Datatype, Parameter, Parameters};
use serde_json::{Map, Value};

/// Parameters by the kind of their JSON.
pub(crate) fn parameters(given: &Map<String, Value>) -> Parameters {
    let value = |value: &Value| match value {
        Value::Bool(value) => Parameter::Bool(*value),
        Value::String(value) => Parameter::String(value.clone()),
        number => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Parameter::Int(value),
            (None, Some(value)) => Parameter::Uint(value),
            (None, None) => Parameter::Float(number.as_f64().expect("a parameter's value")),
        },
    };
    given.iter().map(|(name, given)| (name.clone(), value(given))).collect()
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal text.
pub(super) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16).expect("hex")).collect()
}

/// The text between the brackets of each `"data"`, in order. No element of the vectors' text has a bracket.
pub(crate) fn data_texts(json: &str) -> impl Iterator<Item = &str> {
    json.split("\"data\":[").skip(1).map(|rest| rest.split(']').next().unwrap_or_default())
}

/// JSON with null for NaN and infinities, for a parser that does not know them.
pub(crate) fn without_non_finite_words(json: &str) -> String {
    json.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null")
}

/// Bytes of a tensor's elements from its JSON: numbers from their text, so that no digit is lost.
pub(crate) fn pack(datatype: &str, text: &str, data: &Value) -> Vec<u8> {
    if datatype == "BYTES" {
        let elements = data.as_array().expect("an array").iter().map(|element| element.as_str().expect("a string"));
        return elements.flat_map(|text| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()).collect();
    }
    text.split(',').filter(|text| !text.is_empty()).flat_map(|text| element(datatype, text)).collect()
}

fn element(datatype: &str, text: &str) -> Vec<u8> {
    let integer = || text.parse::<i128>().unwrap_or_else(|_| panic!("{text} is not an integer"));
    // Rust reads the same names of no number but for the case of their letters.
    let float = || text.parse::<f64>().unwrap_or_else(|_| panic!("{text} is not a number"));
    let size = Datatype::from_name(datatype).and_then(Datatype::size).expect("a datatype of numbers");
    match datatype {
        "BOOL" => vec![u8::from(text.parse::<bool>().expect("a bool"))],
        "FP16" => f16::from_f64(float()).to_le_bytes().to_vec(),
        "BF16" => bf16::from_f64(float()).to_le_bytes().to_vec(),
        "FP32" => text.parse::<f32>().unwrap_or_else(|_| panic!("{text} is not a number")).to_le_bytes().to_vec(),
        "FP64" => float().to_le_bytes().to_vec(),
        _ => integer().to_le_bytes()[..size].to_vec(),
    }
}
