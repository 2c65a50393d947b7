//! Memory of a request: its tensors, and the Python objects for text and JSON.
//!
//! A request counts as the larger of this and its bytes, because a small body can become many objects.

use crate::{Datatype, InferRequest, ModelSpec};

/// Bytes of the Python object for a BYTES element, in addition to its text: 33 for `bytes`, up to 57 for `str`, and 8
/// for the array's reference.
const TEXT_OBJECT: usize = 48;

/// Bytes of the Python object for a JSON value, in addition to three times its text: 8 to 40 for a number, about 80 for
/// an empty list or object. Each value comes with one or two of `,`, `:`, `[` and `{`. Most are small numbers, which
/// Python shares.
const JSON_OBJECT: usize = 16;

/// Bytes of a request's inputs. JSON documents count as their Python objects.
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

/// Bytes of Python's objects for a JSON text, in addition to the text: the copy that is parsed, its strings, its
/// values.
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
    fn footprint_of_numbers_is_their_bytes() {
        assert_eq!(footprint(Datatype::Fp32, false, &[0; 40], 10), 40);
    }

    #[test]
    fn footprint_of_texts_adds_an_object_each() {
        assert_eq!(footprint(Datatype::Bytes, false, &[0; 40], 10), 40 + 10 * TEXT_OBJECT);
    }

    #[test]
    fn footprint_of_documents_adds_an_object_per_value() {
        let element = [&9_u32.to_le_bytes()[..], b"[[],[],0]"].concat();
        let values = 5 * JSON_OBJECT;
        assert_eq!(footprint(Datatype::Bytes, true, &element, 1), 13 + TEXT_OBJECT + 2 * 13 + values);
    }
}
