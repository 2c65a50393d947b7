//! Makes a client's request message. Tensors go raw.

use super::{
    encode::{
        FRAME_PREFIX, ID, MAX_MESSAGE, MODEL_NAME, MODEL_VERSION, OWN_CHUNK, Output, delimited_size, put_key, put_text,
        text_size,
    },
    parameters,
};
use crate::{ClientRequest, generated::inference as pb};
use bytes::{BufMut, BytesMut};
use penstock_core::{BodyChunks, Error, Kind, Result};
use prost::Message;
use smallvec::SmallVec;

const OUTPUTS: u8 = 6 << 3 | 2;
const OUTPUT_NAME: u8 = 1 << 3 | 2;
const RAW_INPUT_CONTENTS: u8 = 7 << 3 | 2;

/// Encodes a `ModelInferRequest` behind the prefix of an uncompressed gRPC message. Small tensors are joined with the
/// rest, large ones are not copied.
///
/// # Errors
/// `TooLarge` beyond [`MAX_MESSAGE`].
pub fn encode_request(call: &ClientRequest) -> Result<BodyChunks> {
    let inputs: SmallVec<[Output<'_>; 4]> =
        call.inputs.iter().map(|input| Output::new(&input.name, &input.tensor)).collect();
    let parameters = encoded_parameters(call);
    let raw = inputs.iter().map(|input| input.tensor.as_slice().len());
    let large: usize = raw.clone().filter(|&len| len >= OWN_CHUNK).sum();
    let length = text_size(&call.model)
        + text_size(&call.version)
        + text_size(&call.id)
        + parameters.len()
        + inputs.iter().map(|input| delimited_size(input.size)).sum::<usize>()
        + call.outputs.iter().map(|name| delimited_size(text_size(name))).sum::<usize>()
        + raw.map(delimited_size).sum::<usize>();
    let prefix = u32::try_from(length).ok().filter(|_| length <= MAX_MESSAGE).ok_or_else(|| {
        let text = format!("the request has {length} bytes, a gRPC message holds at most {MAX_MESSAGE}");
        Error::new(Kind::TooLarge, text)
    })?;
    let mut buffer = BytesMut::with_capacity(FRAME_PREFIX + length - large);
    buffer.put_u8(0);
    buffer.put_u32(prefix);
    put_text(&mut buffer, MODEL_NAME, &call.model);
    put_text(&mut buffer, MODEL_VERSION, &call.version);
    put_text(&mut buffer, ID, &call.id);
    buffer.put_slice(&parameters);
    inputs.iter().for_each(|input| input.put(&mut buffer));
    for name in &call.outputs {
        put_key(&mut buffer, OUTPUTS, text_size(name));
        put_text(&mut buffer, OUTPUT_NAME, name);
    }
    let mut chunks = BodyChunks::new();
    for input in &inputs {
        let bytes = input.tensor.as_slice();
        put_key(&mut buffer, RAW_INPUT_CONTENTS, bytes.len());
        if bytes.len() < OWN_CHUNK {
            buffer.put_slice(bytes);
        } else {
            chunks.push(buffer.split().freeze());
            chunks.push(input.entry());
        }
    }
    if !buffer.is_empty() {
        chunks.push(buffer.freeze());
    }
    Ok(chunks)
}

fn encoded_parameters(call: &ClientRequest) -> Vec<u8> {
    if call.parameters.is_empty() {
        return Vec::new();
    }
    let parameters = call.parameters.iter().map(|(name, value)| (name.clone(), parameters::encoded(value))).collect();
    pb::ModelInferRequest { parameters, ..Default::default() }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NamedTensor;
    use penstock_core::{Buffer, Datatype, Parameter, Tensor};
    use smallvec::smallvec;

    fn tensor(bytes: Vec<u8>) -> Tensor {
        Tensor::new(Datatype::Uint8, smallvec![bytes.len()], Buffer::Shared(bytes.into())).unwrap()
    }

    #[test]
    fn encoded_request_decodes_with_the_generated_code() {
        let large = vec![7_u8; OWN_CHUNK];
        let call = ClientRequest {
            model: "m".to_owned(),
            version: "2".to_owned(),
            id: "a".to_owned(),
            inputs: [("x", vec![1, 2, 3]), ("y", large.clone()), ("z", Vec::new())]
                .map(|(name, bytes)| NamedTensor { name: name.to_owned(), tensor: tensor(bytes) })
                .into_iter()
                .collect(),
            outputs: vec!["o".to_owned(), String::new()],
            parameters: vec![("k".to_owned(), Parameter::Int(-1))],
        };
        let chunks = encode_request(&call).unwrap();
        assert_eq!(chunks.len(), 3);
        let bytes = chunks.concat();
        assert_eq!(bytes[0], 0);
        assert_eq!(bytes[1..FRAME_PREFIX], ((bytes.len() - FRAME_PREFIX) as u32).to_be_bytes());
        let message = pb::ModelInferRequest::decode(&bytes[FRAME_PREFIX..]).unwrap();
        assert_eq!((message.model_name.as_str(), message.model_version.as_str(), message.id.as_str()), ("m", "2", "a"));
        let inputs: Vec<_> =
            message.inputs.iter().map(|i| (i.name.as_str(), i.datatype.as_str(), &i.shape[..])).collect();
        assert_eq!(inputs, [("x", "UINT8", &[3][..]), ("y", "UINT8", &[OWN_CHUNK as i64]), ("z", "UINT8", &[0])]);
        assert_eq!(message.outputs.iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), ["o", ""]);
        assert_eq!(message.raw_input_contents, [vec![1, 2, 3], large, vec![]]);
        assert_eq!(message.parameters["k"], parameters::encoded(&Parameter::Int(-1)));
    }

    #[test]
    fn empty_request_is_an_empty_message() {
        assert_eq!(encode_request(&ClientRequest::default()).unwrap().concat(), [0; FRAME_PREFIX]);
    }
}
