//! Encodes the response to a V1 call.

use super::Form;
use crate::{
    json::{string, write},
    rest::{
        EncodeOptions,
        values::{Writers, separated},
    },
};
use penstock_core::{InferResponse, ModelSpec, Result};

/// Encodes the responses to a call's requests as one object with the key `key`.
///
/// Instances return as a list of items: the value of the only output, or an object by output name. Whole inputs return
/// as whole outputs. BYTES are strings, or `{"b64": text}` if they are not UTF-8 or the output's name ends in `_bytes`.
///
/// # Errors
/// `Internal` when outputs are missing; `Handler` for a document that is not JSON.
pub fn encode(
    spec: &ModelSpec,
    form: Form,
    key: &str,
    responses: &[InferResponse],
    options: &EncodeOptions,
) -> Result<Vec<u8>> {
    let tensors = responses.iter().flat_map(|response| &response.outputs);
    let mut out = Vec::with_capacity(64 + tensors.map(write::estimate).sum::<usize>());
    out.push(b'{');
    string::write(&mut out, key);
    out.push(b':');
    match form {
        Form::Inputs => {
            for response in responses {
                Writers::new(spec, response, *options)?.write(&mut out, false)?;
            }
        }
        Form::Instances(count) => {
            out.push(b'[');
            match responses {
                [response] if spec.batching.is_some() => {
                    let mut writers = Writers::new(spec, response, *options)?;
                    separated(&mut out, 0..count, |out, _| writers.write(out, true))?;
                }
                _ => separated(&mut out, responses, |out, response| {
                    Writers::new(spec, response, *options)?.write(out, false)
                })?,
            }
            out.push(b']');
        }
    }
    out.push(b'}');
    Ok(out)
}
