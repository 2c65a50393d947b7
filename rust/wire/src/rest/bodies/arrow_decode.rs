//! Arrow IPC streams of one record batch: a column is an input, a row is a row of its first axis.

use super::{arrow_encode::data_type, tensors::Inputs};
use ::bytes::Bytes;
use arrow_array::{Array, ArrayRef, RecordBatch, cast::AsArray};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{ArrowError, DataType};
use penstock_core::{
    AlignedBuffer, Datatype, Error, MAX_RANK, Result, Shape, aligned_with_capacity, aligned_zeroed, bytes_tensor,
    copies::{self, Step},
};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(super) fn decode(body: Bytes, inputs: &mut Inputs<'_>) -> Result<()> {
    let batch = batch(body)?;
    if batch.num_columns() > inputs.limits.max_inputs {
        return Err(Error::invalid(format!("the request has more than {} inputs", inputs.limits.max_inputs)));
    }
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let index = inputs.index(field.name())?;
        input(column, index, inputs)?;
    }
    Ok(())
}

/// The only record batch of a stream.
fn batch(body: Bytes) -> Result<RecordBatch> {
    // The reader checks what it reads; should a check be missing, it is this request that fails.
    let read = catch_unwind(AssertUnwindSafe(|| {
        let mut decoder = StreamDecoder::new();
        let mut rest = Buffer::from(body);
        let mut first = None;
        while !rest.is_empty() {
            match decoder.decode(&mut rest)? {
                Some(_) if first.is_some() => return Ok(Err(several())),
                Some(batch) => first = Some(batch),
                None => break,
            }
        }
        decoder.finish()?;
        Ok::<_, ArrowError>(first.ok_or_else(|| Error::invalid("the Arrow IPC stream has no record batch")))
    }));
    match read {
        Ok(Ok(batch)) => batch,
        Ok(Err(error)) => Err(Error::invalid(format!("the request's body is not a valid Arrow IPC stream: {error}"))),
        Err(_) => Err(Error::invalid("the request's body is not a valid Arrow IPC stream")),
    }
}

fn several() -> Error {
    Error::invalid("the Arrow IPC stream has several record batches, expected one: combine their chunks")
}

fn input(column: &ArrayRef, index: usize, inputs: &mut Inputs<'_>) -> Result<()> {
    let declared = inputs.declared(index);
    let name = &declared.name;
    let mut shape = Shape::new();
    // Without a batch axis, one row is a scalar of a scalar input.
    if !(declared.dims.is_empty() && inputs.spec.batching.is_none() && column.len() == 1) {
        shape.push(column.len());
    }
    let mut values = column.clone();
    loop {
        if values.null_count() > 0 {
            return Err(Error::invalid(format!("input '{name}' has nulls, expected values only")));
        }
        let Some(list) = values.as_fixed_size_list_opt() else { break };
        let size = usize::try_from(list.value_length()).unwrap_or(0);
        shape.push(size);
        if shape.len() > MAX_RANK {
            return Err(Error::invalid(format!("input '{name}' has more than {MAX_RANK} dimensions")));
        }
        // A list may be a window of longer ones.
        let start = list.offset() * size;
        let end = list.len() * size;
        values = if list.values().len() == end { list.values().clone() } else { list.values().slice(start, end) };
    }
    let (datatype, buffer) = elements(&values).map_err(|error| inputs.with_input_name(index, &error))?;
    inputs.check(index, datatype, &shape)?;
    copies::count(Step::Receive, buffer.len());
    inputs.put(index, datatype, shape, buffer)
}

/// The elements of an array without lists.
fn elements(values: &ArrayRef) -> Result<(Datatype, AlignedBuffer)> {
    Ok(match values.data_type() {
        DataType::Boolean => {
            let bits = values.as_boolean();
            let mut buffer = aligned_zeroed(bits.len());
            buffer.iter_mut().zip(bits.values()).for_each(|(byte, bit)| *byte = bit.into());
            (Datatype::Bool, buffer)
        }
        DataType::Utf8 => strings(values.as_string::<i32>().iter().flatten().map(str::as_bytes))?,
        DataType::LargeUtf8 => strings(values.as_string::<i64>().iter().flatten().map(str::as_bytes))?,
        DataType::Binary => strings(values.as_binary::<i32>().iter().flatten())?,
        DataType::LargeBinary => strings(values.as_binary::<i64>().iter().flatten())?,
        other => match Datatype::ALL.into_iter().find(|datatype| data_type(*datatype).as_ref() == Some(other)) {
            Some(datatype) => (datatype, numbers(values, datatype)),
            None => {
                return Err(Error::invalid(format!(
                    "Arrow type {other} is not read, expected numbers, booleans, strings or binary, or fixed-size lists of them"
                )));
            }
        },
    })
}

/// Elements of fixed size, little-endian in Arrow too.
fn numbers(values: &ArrayRef, datatype: Datatype) -> AlignedBuffer {
    let (data, size) = (values.to_data(), datatype.size().unwrap_or(0));
    let bytes = &data.buffers()[0].as_slice()[data.offset() * size..][..data.len() * size];
    let mut buffer = aligned_with_capacity(bytes.len());
    buffer.extend_from_slice(bytes);
    buffer
}

fn strings<'a>(elements: impl Iterator<Item = &'a [u8]>) -> Result<(Datatype, AlignedBuffer)> {
    let mut buffer = aligned_with_capacity(0);
    for element in elements {
        buffer.extend_from_slice(&bytes_tensor::prefix(element.len())?);
        buffer.extend_from_slice(element);
    }
    Ok((Datatype::Bytes, buffer))
}
