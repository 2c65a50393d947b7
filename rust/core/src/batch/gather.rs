//! Joins the rows of several requests along the batch axis, and splits the outputs again.
//!
//! This is the only copy that batching adds. It runs on the handler thread without the GIL.

use super::ragged;
use crate::{
    Buffer, Datatype, Error, Inputs, ModelSpec, Outputs, Padding, Result, Shape, Tensor, aligned_with_capacity,
    bytes_tensor, copies, element_count, shape_text,
};
use smallvec::SmallVec;

/// Dimensions of a request's rows. Requests with equal keys fit into one batch.
pub type RowKey = SmallVec<[usize; 6]>;

/// Key of a request. Empty if all requests of a model fit together.
pub fn row_key(spec: &ModelSpec, inputs: &Inputs) -> RowKey {
    let mut key = RowKey::new();
    for (input, declared) in inputs.iter().zip(&spec.inputs) {
        let beyond = usize::from(spec.batching.is_some()) + usize::from(declared.ragged.is_some());
        match input {
            None => key.push(usize::MAX),
            Some(tensor) => key.extend(tensor.shape().iter().skip(beyond).copied()),
        }
    }
    key
}

/// Joins the inputs of a batch. The inputs of a single request are passed through.
pub fn gather<'a>(mut parts: impl ExactSizeIterator<Item = &'a mut Inputs>, rows: usize) -> Inputs {
    let Some(first) = parts.next() else { return Inputs::new() };
    let mut joined = std::mem::take(first);
    if parts.len() == 0 {
        return joined;
    }
    let rest: Vec<&Inputs> = parts.map(|inputs| &*inputs).collect();
    for (index, slot) in joined.iter_mut().enumerate() {
        let Some(tensor) = slot.take() else { continue };
        let others = || rest.iter().filter_map(|inputs| inputs.get(index)?.as_ref());
        *slot = Some(concatenate(tensor, others, rows));
    }
    joined
}

/// As [`gather`], for inputs that may be needed again.
pub fn gather_copies<'a>(parts: impl Iterator<Item = &'a Inputs> + Clone, rows: usize) -> Inputs {
    let Some(first) = parts.clone().next() else { return Inputs::new() };
    let slots = first.iter().enumerate().map(|(index, slot)| {
        let tensor = slot.as_ref()?;
        let all = || parts.clone().filter_map(|inputs| inputs.get(index)?.as_ref());
        Some(concatenate(tensor.without_rows(), all, rows))
    });
    slots.collect()
}

/// Pads a batch of `rows` to `padded` rows.
pub fn pad(inputs: &mut Inputs, rows: usize, padded: usize, padding: Padding) {
    for slot in inputs.iter_mut().filter(|_| padded > rows && rows > 0) {
        let Some(tensor) = slot.take() else { continue };
        let (datatype, mut shape, buffer) = tensor.into_parts();
        let bytes = buffer.as_slice();
        let per_row = element_count(&shape[1..]).unwrap_or(0);
        let last = match datatype.size() {
            Some(size) => bytes.len() - per_row * size,
            None => bytes_tensor::offset_after(bytes, (rows - 1) * per_row),
        };
        // An empty BYTES element is a length of four zero bytes.
        let zeros = vec![0; per_row * datatype.size().unwrap_or(4)];
        let row = if padding == Padding::Zeros { &zeros[..] } else { &bytes[last..] };
        let mut filled = aligned_with_capacity(bytes.len() + (padded - rows) * row.len());
        filled.extend_from_slice(bytes);
        (rows..padded).for_each(|_| filled.extend_from_slice(row));
        copies::count(copies::Step::Gather, filled.len());
        shape[0] = padded;
        *slot = Some(Tensor::from_checked(datatype, shape, Buffer::Aligned(filled)));
    }
}

pub(crate) fn concatenate<'a, I>(first: Tensor, others: impl Fn() -> I, rows: usize) -> Tensor
where
    I: Iterator<Item = &'a Tensor>,
{
    let len = first.as_slice().len() + others().map(|tensor| tensor.as_slice().len()).sum::<usize>();
    let (datatype, mut shape, buffer) = first.into_parts();
    let mut joined = aligned_with_capacity(len);
    joined.extend_from_slice(buffer.as_slice());
    for tensor in others() {
        joined.extend_from_slice(tensor.as_slice());
    }
    copies::count(copies::Step::Gather, len);
    shape[0] = rows;
    // The parts were checked when they were decoded, and their keys are equal.
    Tensor::from_checked(datatype, shape, Buffer::Aligned(joined))
}

/// Checks an output against its declaration.
///
/// # Errors
/// `Handler`: the message has the output, the returned and the declared value.
pub fn check_output(spec: &ModelSpec, index: usize, datatype: Datatype, shape: &[usize], rows: usize) -> Result<()> {
    let declared = &spec.outputs[index];
    check_datatype(spec, index, datatype)?;
    let batched = spec.batching.is_some();
    if spec.check_shapes && !declared.fits(shape, batched) {
        return Err(Error::handler(format!(
            "model '{}' returned output '{}' with shape {shape:?}, declared {}",
            spec.name,
            declared.name,
            shape_text(declared, batched)
        )));
    }
    match shape.first() {
        _ if !batched => Ok(()),
        Some(&given) if given == rows => Ok(()),
        given => Err(Error::handler(format!(
            "model '{}' returned output '{}' with {} rows for a batch of {rows}",
            spec.name,
            declared.name,
            given.map_or_else(|| "no".to_owned(), usize::to_string)
        ))),
    }
}

/// Checks an omitted output.
///
/// # Errors
/// `Handler`: the output is not optional.
pub(crate) fn check_absent(spec: &ModelSpec, index: usize) -> Result<()> {
    let declared = &spec.outputs[index];
    if declared.optional {
        return Ok(());
    }
    Err(Error::handler(format!("model '{}' returned no output '{}', which is not optional", spec.name, declared.name)))
}

/// Checks the datatype of an output.
///
/// # Errors
/// As [`check_output`].
pub(crate) fn check_datatype(spec: &ModelSpec, index: usize, datatype: Datatype) -> Result<()> {
    let declared = &spec.outputs[index];
    if datatype == declared.datatype {
        return Ok(());
    }
    Err(Error::handler(format!(
        "model '{}' returned output '{}' with datatype {datatype}, declared {}",
        spec.name, declared.name, declared.datatype
    )))
}

/// Splits a batch's outputs: one set for each entry of `rows`, in order, without a copy.
pub fn scatter(outputs: Outputs, rows: &[usize]) -> Vec<Outputs> {
    if rows.len() == 1 && outputs.iter().all(|tensor| tensor.lengths().is_none()) {
        return vec![outputs.into_iter().map(Tensor::into_shared).collect()];
    }
    let mut sets: Vec<Outputs> = rows.iter().map(|_| Outputs::new()).collect();
    for mut tensor in outputs {
        if tensor.is_absent() {
            sets.iter_mut().for_each(|set| set.push(tensor.clone()));
            continue;
        }
        if let Some(lengths) = tensor.take_lengths() {
            sets.iter_mut().zip(ragged::scatter(tensor, &lengths, rows)).for_each(|(set, part)| set.push(part));
            continue;
        }
        let (datatype, shape, buffer) = tensor.into_parts();
        let bytes = buffer.into_bytes();
        let per_row = element_count(&shape[1..]).unwrap_or(0);
        let mut start = 0;
        for (set, &rows) in sets.iter_mut().zip(rows) {
            let len = match datatype.size() {
                Some(size) => rows * per_row * size,
                None => bytes_tensor::offset_after(&bytes[start..], rows * per_row),
            };
            let mut own = Shape::from_slice(&shape);
            own[0] = rows;
            set.push(Tensor::from_checked(datatype, own, Buffer::Shared(bytes.slice(start..start + len))));
            start += len;
        }
    }
    sets
}

/// As [`scatter`], for outputs padded to `padded` rows. With `takes`, the only request gets the outputs unshared.
pub(crate) fn scatter_padded(outputs: Outputs, mut rows: Vec<usize>, padded: usize, takes: bool) -> Vec<Outputs> {
    let beyond = padded.saturating_sub(rows.iter().sum());
    if beyond == 0 {
        return if takes { vec![outputs] } else { scatter(outputs, &rows) };
    }
    rows.push(beyond);
    let mut sets = scatter(outputs, &rows);
    sets.pop();
    sets
}

/// Joins the responses to the parts of a split request.
///
/// # Errors
/// `Handler`: rows of different parts have different dimensions.
pub fn concatenate_outputs(parts: Vec<Outputs>) -> Result<Outputs> {
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return Ok(Outputs::new()) };
    let rest: Vec<Outputs> = parts.collect();
    first
        .into_iter()
        .enumerate()
        .map(|(index, tensor)| {
            let others = || rest.iter().filter_map(|outputs| outputs.get(index));
            if others().any(|other| other.is_absent() != tensor.is_absent()) {
                return Err(Error::handler("an output was left out for some rows of a split request"));
            }
            if tensor.is_absent() {
                return Ok(tensor);
            }
            if tensor.shape().is_empty() || others().any(|other| other.shape().get(1..) != tensor.shape().get(1..)) {
                return Err(Error::handler("the rows of a split request came back in different sizes"));
            }
            let rows = tensor.shape()[0] + others().map(|other| other.shape()[0]).sum::<usize>();
            Ok(concatenate(tensor, others, rows).into_shared())
        })
        .collect()
}

/// Splits a request with more rows than one batch holds.
pub fn split(inputs: Inputs, rows: usize, max_rows: usize) -> Vec<(Inputs, usize)> {
    let sizes: Vec<usize> = (0..rows).step_by(max_rows.max(1)).map(|start| max_rows.min(rows - start)).collect();
    let mut parts: Vec<(Inputs, usize)> = sizes.iter().map(|&size| (Inputs::new(), size)).collect();
    for input in inputs {
        match input {
            None => parts.iter_mut().for_each(|(inputs, _)| inputs.push(None)),
            Some(tensor) => {
                for ((inputs, _), mut outputs) in parts.iter_mut().zip(scatter(smallvec::smallvec![tensor], &sizes)) {
                    inputs.push(outputs.pop());
                }
            }
        }
    }
    parts
}
