//! Form fields and files: each is the value of the input of its name.

use super::decoded;
use crate::{
    DecodedRequest, Limits, json::reader::Reader, request_schema::refuse_raw_request_model, rest::values::Column,
};
use penstock_core::{
    Buffer, Datatype, Error, InferRequest, ModelSpec, Protocol, Result, Shape, Tensor, TensorSpec,
    aligned_with_capacity, bytes_tensor,
};
use smallvec::SmallVec;

/// A form field or a file.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Name of the input.
    pub name: &'a str,
    /// Content, decoded.
    pub content: &'a [u8],
}

/// Decodes a request of form fields and files.
///
/// For an input of bytes or text, a part is one element, and parts of one name are its elements in their order. For any
/// other input, a part is the input's value as JSON.
///
/// ```
/// use penstock_core::{Datatype, ModelSpec, TensorSpec};
/// use penstock_wire::{Limits, rest::plain};
///
/// let inputs = vec![TensorSpec::new("image", Datatype::Bytes, vec![]), TensorSpec::new("top", Datatype::Int64, vec![])];
/// let spec = ModelSpec { inputs, ..ModelSpec::default() };
/// let parts = [("image", &b"\xff\xd8"[..]), ("top", b"3")].map(|(name, content)| plain::Part { name, content });
/// let request = plain::decode_parts(&spec, &parts, &Limits::default())?.request;
/// assert_eq!(request.inputs[1].as_ref().unwrap().as_slice(), 3_i64.to_le_bytes());
/// # Ok::<(), penstock_core::Error>(())
/// ```
///
/// # Errors
/// `InvalidInput` that names the input, what it has and what it expects.
pub fn decode_parts(spec: &ModelSpec, parts: &[Part<'_>], limits: &Limits) -> Result<DecodedRequest> {
    refuse_raw_request_model(spec, "a form is not supported")?;
    for part in parts {
        spec.input_index(part.name)?;
    }
    let mut tensors = SmallVec::<[(usize, Tensor); 2]>::new();
    for (index, input) in spec.inputs.iter().enumerate() {
        let own: SmallVec<[&[u8]; 2]> =
            parts.iter().filter(|part| *part.name == *input.name).map(|part| part.content).collect();
        match &own[..] {
            [] => {}
            contents if takes_bytes(input) => tensors.push((index, elements(spec, index, contents)?)),
            [only] => tensors.push(value(spec, index, only, limits)?),
            _ => return Err(Error::invalid(format!("input '{}' is given twice", input.name))),
        }
    }
    Ok(decoded(spec, InferRequest::assemble(spec, tensors, Protocol::Http)?))
}

/// Returns the input that takes a body of bytes: the only one of bytes, if no other is required.
///
/// # Errors
/// `InvalidInput` if the model has none, or needs more inputs.
pub fn bytes_input(spec: &ModelSpec) -> Result<&TensorSpec> {
    refuse_raw_request_model(spec, "a body of bytes is not supported")?;
    // Text is taken for a file only where no input of bytes is.
    let has_bytes = spec.inputs.iter().any(|input| takes_bytes(input) && !input.text);
    let mut taking = spec.inputs.iter().filter(|input| takes_bytes(input) && !(has_bytes && input.text));
    let (only, more) = (taking.next(), taking.next());
    let alone =
        only.filter(|only| more.is_none() && spec.inputs.iter().all(|other| other.optional || other.name == only.name));
    alone.ok_or_else(|| {
        let name = &spec.name;
        Error::invalid(format!(
            "model '{name}' takes no body of one file: send a form (multipart/form-data) or JSON with its inputs {}",
            penstock_core::names(&spec.inputs)
        ))
    })
}

fn takes_bytes(input: &TensorSpec) -> bool {
    input.datatype == Datatype::Bytes && !input.document
}

/// Builds a tensor of BYTES elements. They lie along the first variable axis, or are the only element.
fn elements(spec: &ModelSpec, index: usize, contents: &[&[u8]]) -> Result<Tensor> {
    let input = &spec.inputs[index];
    let batch = spec.batching.is_some().then_some(None);
    let mut count = Some(contents.len());
    let axes = batch.into_iter().chain(input.dims.iter().copied());
    let shape: Shape = axes.map(|axis| axis.unwrap_or_else(|| count.take().unwrap_or(1))).collect();
    let room = shape.iter().product::<usize>();
    if room != contents.len() {
        let name = &input.name;
        return Err(Error::invalid(format!("input '{name}' is given {} times, expected {room}", contents.len())));
    }
    spec.check_input(index, Datatype::Bytes, &shape)?;
    let mut buffer = aligned_with_capacity(contents.iter().map(|content| 4 + content.len()).sum());
    for content in contents {
        buffer.extend_from_slice(&bytes_tensor::prefix(content.len())?);
        buffer.extend_from_slice(content);
    }
    Tensor::new(Datatype::Bytes, shape, Buffer::Aligned(buffer))
}

/// Reads a value that a part has as JSON.
fn value(spec: &ModelSpec, index: usize, content: &[u8], limits: &Limits) -> Result<(usize, Tensor)> {
    let mut column = Column::new(spec, limits, index, spec.batching.is_some());
    let mut reader = Reader::new(content);
    let read = column.read(&mut reader).and_then(|()| match reader.peek() {
        None => Ok(()),
        Some(_) => Err(reader.fault("nothing after the value").into()),
    });
    read.map_err(|error| match error.message().strip_prefix("request JSON") {
        // The position is one of the part.
        Some(place) => Error::invalid(format!("input '{}': JSON{place}", spec.inputs[index].name)),
        None => error,
    })?;
    column.finish(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::testing::{model, tensor};
    use penstock_core::{Batching, Kind};

    fn read(spec: &ModelSpec, parts: &[(&str, &str)]) -> Result<DecodedRequest> {
        let parts: Vec<Part<'_>> =
            parts.iter().map(|(name, content)| Part { name, content: content.as_bytes() }).collect();
        decode_parts(spec, &parts, &Limits::default())
    }

    fn shape(request: &DecodedRequest, index: usize) -> &[usize] {
        request.request.inputs[index].as_ref().unwrap().shape()
    }

    fn files() -> ModelSpec {
        let inputs = vec![
            tensor("images", Datatype::Bytes, &[None]),
            tensor("title", Datatype::Bytes, &[]),
            TensorSpec { optional: true, ..tensor("sizes", Datatype::Int32, &[Some(2)]) },
        ];
        model("files", inputs, Vec::new())
    }

    #[test]
    fn parts_of_one_name_are_elements() {
        let request = read(&files(), &[("images", "a"), ("title", "7"), ("images", ""), ("sizes", "[1, 2]")]).unwrap();
        assert_eq!((shape(&request, 0), shape(&request, 1), shape(&request, 2)), (&[2][..], &[][..], &[2][..]));
        let tensors = &request.request.inputs;
        assert_eq!(tensors[0].as_ref().unwrap().as_slice(), b"\x01\0\0\0a\0\0\0\0");
    }

    #[test]
    fn batched_model_takes_a_file_a_row() {
        let spec = model("m", vec![tensor("image", Datatype::Bytes, &[Some(1)])], Vec::new());
        let spec = ModelSpec { batching: Some(Batching::new(8)), ..spec };
        let request = read(&spec, &[("image", "a"), ("image", "b"), ("image", "c")]).unwrap();
        assert_eq!((shape(&request, 0), request.request.rows), (&[3, 1][..], 3));
    }

    #[test]
    fn invalid_parts_are_refused_by_name() {
        for (parts, message) in [
            (&[("images", "a")][..], "input 'title' is missing, model 'files' expects 'images', 'title', 'sizes'"),
            (&[("image", "a")], "unexpected input 'image' for model 'files', expected 'images', 'title', 'sizes'"),
            (&[("title", "a"), ("title", "b")], "input 'title' is given 2 times, expected 1"),
            (&[("sizes", "[1,2]"), ("sizes", "[1,2]")], "input 'sizes' is given twice"),
            (&[("sizes", "[1")], "input 'sizes': JSON at byte 2: expected ',' or ']'"),
            (&[("sizes", "[1,2]]")], "input 'sizes': JSON at byte 5: expected nothing after the value"),
            (&[("sizes", "[1]")], "input 'sizes' has shape [1], model 'files' expects [2]"),
        ] {
            let error = read(&files(), parts).expect_err(message);
            assert_eq!((error.kind(), error.message()), (Kind::InvalidInput, message));
        }
    }

    #[test]
    fn body_of_bytes_is_the_only_input_of_bytes() {
        let image = model("m", vec![tensor("image", Datatype::Bytes, &[])], Vec::new());
        assert_eq!(&*bytes_input(&image).unwrap().name, "image");
        let name = TensorSpec { optional: true, text: true, ..tensor("name", Datatype::Bytes, &[]) };
        let named = ModelSpec { inputs: vec![name, image.inputs[0].clone()], ..image };
        assert_eq!(&*bytes_input(&named).unwrap().name, "image");
        let error = bytes_input(&files()).unwrap_err();
        assert!(error.message().ends_with("with its inputs 'images', 'title', 'sizes'"), "{}", error.message());
    }
}
