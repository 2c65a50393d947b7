//! Rows of different lengths in one batch: concatenated, or padded to the longest.
//!
//! The length of a row is its first dimension. On the wire all rows of a request have one length; only the requests of
//! a
//! batch differ.

use super::{Part, gather::concatenate};
use crate::{
    AlignedBuffer, Buffer, Error, InferRequest, Inputs, ModelSpec, Outputs, Ragged, Result, RowFailures, RowLengths,
    Shape, Tensor, TensorSpec, aligned_with_capacity, bytes_tensor, copies, element_count,
};
use std::iter::repeat_n;

/// Joins the inputs of a batch of `rows` rows. The inputs of a single request are not copied.
pub(crate) fn gather(spec: &ModelSpec, parts: &mut [Part], rows: usize) -> Inputs {
    let inputs = spec.inputs.iter().enumerate();
    inputs.map(|(index, declared)| input(declared, parts, index, rows)).collect()
}

fn input(declared: &TensorSpec, parts: &mut [Part], index: usize, rows: usize) -> Option<Tensor> {
    if let [part] = parts {
        let tensor = part.request.inputs.get_mut(index)?.take()?;
        return Some(alone(declared, tensor));
    }
    let all = || parts.iter().filter_map(|part| part.request.inputs.get(index)?.as_ref());
    let first = all().next()?;
    let Some(ragged) = &declared.ragged else { return Some(concatenate(first.without_rows(), all, rows)) };
    let lengths: RowLengths = all().flat_map(|one| repeat_n(one.shape()[1], one.shape()[0])).collect();
    let longest = lengths.iter().copied().max().unwrap_or_default();
    let mut shape = Shape::from_slice(first.shape());
    let buffer = match ragged {
        Ragged::Joined => {
            shape.remove(0);
            shape[0] = lengths.iter().sum();
            joined(all)
        }
        Ragged::Padded(element) => {
            (shape[0], shape[1]) = (rows, longest);
            filled(all, longest, rows, element)
        }
    };
    let tensor = Tensor::from_checked(first.datatype(), shape, Buffer::Aligned(buffer));
    Some(tensor.with_lengths(lengths))
}

/// Tensor of a batch of one request.
fn alone(declared: &TensorSpec, tensor: Tensor) -> Tensor {
    let Some(ragged) = &declared.ragged else { return tensor };
    let (datatype, mut shape, buffer) = tensor.into_parts();
    let lengths = repeat_n(shape[1], shape[0]).collect();
    if *ragged == Ragged::Joined {
        let rows = shape.remove(0);
        shape[0] *= rows;
    }
    Tensor::from_checked(datatype, shape, buffer).with_lengths(lengths)
}

fn joined<'a, I: Iterator<Item = &'a Tensor>>(all: impl Fn() -> I) -> AlignedBuffer {
    let len = all().map(|tensor| tensor.as_slice().len()).sum();
    let mut joined = aligned_with_capacity(len);
    all().for_each(|tensor| joined.extend_from_slice(tensor.as_slice()));
    copies::count(copies::Step::Gather, len);
    joined
}

fn filled<'a, I>(all: impl Fn() -> I, longest: usize, rows: usize, element: &[u8]) -> AlignedBuffer
where
    I: Iterator<Item = &'a Tensor>,
{
    let steps = |tensor: &Tensor, count: usize| count * element_count(&tensor.shape()[2..]).unwrap_or(0);
    let first = all().next().map_or(0, |tensor| steps(tensor, longest));
    let mut filled = aligned_with_capacity(rows * first * element.len());
    for tensor in all() {
        let (mut rest, length) = (tensor.as_slice(), tensor.shape()[1]);
        for _ in 0..tensor.shape()[0] {
            let len = match tensor.datatype().size() {
                Some(size) => steps(tensor, length) * size,
                None => bytes_tensor::offset_after(rest, steps(tensor, length)),
            };
            let (row, others) = rest.split_at(len);
            filled.extend_from_slice(row);
            repeat_n(element, steps(tensor, longest - length)).for_each(|element| filled.extend_from_slice(element));
            rest = others;
        }
    }
    copies::count(copies::Step::Gather, filled.len());
    filled
}

/// Checks an output with row lengths.
///
/// # Errors
/// `Handler`: the message has the output, the returned and the declared value.
pub(crate) fn check_output(spec: &ModelSpec, index: usize, tensor: &Tensor, rows: usize) -> Result<()> {
    let (model, declared, Some(lengths)) = (&spec.name, &spec.outputs[index], tensor.lengths()) else { return Ok(()) };
    let name = &declared.name;
    let wrong = |what: String| Err(Error::handler(format!("model '{model}' returned output '{name}' {what}")));
    if declared.ragged.is_none() {
        return wrong("with rows of different lengths, declared without ragged=True".to_owned());
    }
    if tensor.datatype() != declared.datatype {
        return wrong(format!("with datatype {}, declared {}", tensor.datatype(), declared.datatype));
    }
    if !declared.fits(tensor.shape(), false) {
        let shape = declared.wire_shape(false);
        return wrong(format!("with shape {:?}, declared {shape:?} for the rows one behind another", tensor.shape()));
    }
    if lengths.len() != rows {
        return wrong(format!("with {} rows for a batch of {rows}", lengths.len()));
    }
    let total = lengths.iter().try_fold(0_usize, |sum, &length| sum.checked_add(length));
    if total != tensor.shape().first().copied() {
        return wrong("with lengths that do not make up its rows".to_owned());
    }
    Ok(())
}

/// Adds failures for requests whose rows came back in different lengths: a response has rows of one length.
pub(crate) fn unequal<'a>(
    spec: &ModelSpec,
    outputs: &Outputs,
    requests: impl Iterator<Item = &'a InferRequest>,
    failed: RowFailures,
) -> RowFailures {
    if outputs.iter().all(|tensor| tensor.lengths().is_none()) {
        return failed;
    }
    let mut found: Vec<(usize, Error)> = failed.iter().cloned().collect();
    let mut first = 0;
    for InferRequest { rows, .. } in requests {
        for (tensor, declared) in outputs.iter().zip(&spec.outputs) {
            let own = tensor.lengths().map(|lengths| &lengths[first..first + rows]).unwrap_or_default();
            if let Some(row) = own.iter().position(|length| *length != own[0]) {
                let (model, name) = (&spec.name, &declared.name);
                let text = format!(
                    "model '{model}' returned {} steps of output '{name}' for this row and {} for the request's first; \
                     an answer has rows of one length",
                    own[row], own[0]
                );
                found.push((first + row, Error::handler(text)));
            }
        }
        first += rows;
    }
    RowFailures::new(found)
}

/// Splits an output by row lengths, for requests of `requests` rows each, without a copy.
pub(crate) fn scatter(tensor: Tensor, lengths: &[usize], requests: &[usize]) -> Vec<Tensor> {
    let (datatype, shape, buffer) = tensor.into_parts();
    let bytes = buffer.into_bytes();
    let step = element_count(&shape[1..]).unwrap_or(0);
    let (mut start, mut rest) = (0, lengths);
    let part = |&rows: &usize| {
        let (own, others) = rest.split_at(rows);
        rest = others;
        let elements = own.iter().sum::<usize>() * step;
        let len = match datatype.size() {
            Some(size) => elements * size,
            None => bytes_tensor::offset_after(&bytes[start..], elements),
        };
        let range = start..start + len;
        start += len;
        let mut own_shape: Shape = smallvec::smallvec![rows, own.first().copied().unwrap_or(0)];
        own_shape.extend_from_slice(&shape[1..]);
        if own.iter().any(|length| *length != own[0]) {
            // This request gets an error instead.
            own_shape[1] = 0;
            return Tensor::from_checked(datatype, own_shape, Buffer::Shared(bytes.slice(..0)));
        }
        Tensor::from_checked(datatype, own_shape, Buffer::Shared(bytes.slice(range)))
    };
    requests.iter().map(part).collect()
}
