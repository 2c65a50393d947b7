//! Memory that a request takes: its tensors, and the objects that Python makes of text and JSON.
//!
//! A request is counted by the larger of its bytes and this, so that a small body cannot become a large request uncounted.

use crate::{Datatype, InferRequest, ModelSpec};

/// Bytes of the Python object of an element of BYTES, beside its own: 33 of `bytes`, up to 57 of `str`, and 8 of the array
/// that refers to it.
const TEXT_OBJECT: usize = 48;

/// Bytes of the Python object of a value in JSON, beside three times its text: 8 to 40 of a number, some 80 of an empty
/// list or object. Each value comes with one or two of `,`, `:`, `[` and `{`; small numbers, which are shared, are most.
const JSON_OBJECT: usize = 16;

/// Bytes that a request's inputs take. Elements of a model's JSON documents count as what they become in Python.
pub fn of_request(spec: &ModelSpec, request: &InferRequest) -> usize {
    let inputs = request.inputs.iter().enumerate().filter_map(|(index, input)| Some((index, input.as_ref()?)));
    inputs
        .map(|(index, tensor)| {
            let bytes = tensor.as_slice();
            if tensor.datatype() != Datatype::Bytes {
                return bytes.len();
            }
            let objects = tensor.shape().iter().product::<usize>().saturating_mul(TEXT_OBJECT);
            let is_document = spec.inputs.get(index).is_some_and(|input| input.document);
            let parsed = if is_document { of_json(bytes) } else { 0 };
            bytes.len().saturating_add(objects).saturating_add(parsed)
        })
        .fold(0, usize::saturating_add)
}

/// Bytes that Python takes for a JSON text, beside the text itself: the bytes that it reads, the strings that it makes of
/// them, and the values.
pub fn of_json(text: &[u8]) -> usize {
    let values = text.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
    2 * text.len() + values * JSON_OBJECT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Protocol, Tensor, TensorSpec};
    use smallvec::smallvec;

    fn footprint(datatype: Datatype, document: bool, bytes: &[u8], count: usize) -> usize {
        let input = TensorSpec { document, ..TensorSpec::new("x", datatype, vec![None]) };
        let spec = ModelSpec { inputs: vec![input], ..ModelSpec::default() };
        let tensor = Tensor::new(datatype, smallvec![count], Buffer::Shared(bytes.to_vec().into())).unwrap();
        of_request(&spec, &InferRequest::assemble(&spec, [(0, tensor)], Protocol::Http).unwrap())
    }

    #[test]
    fn numbers_take_their_bytes() {
        assert_eq!(footprint(Datatype::Fp32, false, &[0; 40], 10), 40);
    }

    #[test]
    fn texts_take_an_object_each() {
        assert_eq!(footprint(Datatype::Bytes, false, &[0; 40], 10), 40 + 10 * TEXT_OBJECT);
    }

    #[test]
    fn documents_take_an_object_for_each_value() {
        let element = [&9_u32.to_le_bytes()[..], b"[[],[],0]"].concat();
        let values = 5 * JSON_OBJECT;
        assert_eq!(footprint(Datatype::Bytes, true, &element, 1), 13 + TEXT_OBJECT + 2 * 13 + values);
    }
}
