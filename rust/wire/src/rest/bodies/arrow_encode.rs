//! Writes an Arrow IPC stream of one record batch: a column for each output.

use super::tensors::Output;
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, FixedSizeListArray, RecordBatch, StringArray, make_array};
use arrow_buffer::BooleanBuffer;
use arrow_data::ArrayData;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use penstock_core::{
    BodyChunks, Buffer, Datatype, Error, Kind, ModelSpec, ResponsePlan, Result, Tensor, bytes_tensor,
    copies::{self, Step},
    element_count, for_each_datatype,
};
use std::{collections::HashMap, sync::Arc};

pub(super) fn encode(spec: &ModelSpec, plan: &ResponsePlan, outputs: &[Output<'_>]) -> Result<BodyChunks> {
    let rows = |output: &Output<'_>| output.tensor.shape().first().copied().unwrap_or(1);
    if let Some(other) = outputs.iter().find(|output| rows(output) != rows(&outputs[0])) {
        return Err(Error::invalid(format!(
            "output '{}' has {} rows and output '{}' {}, Arrow has one number for all: accept another format",
            outputs[0].spec.name,
            rows(&outputs[0]),
            other.spec.name,
            rows(other)
        )));
    }
    let mut fields = Vec::with_capacity(outputs.len());
    let mut columns = Vec::with_capacity(outputs.len());
    for output in outputs {
        copies::count(Step::Encode, output.tensor.as_slice().len());
        let column = column(output)?;
        fields.push(Field::new(&*output.spec.name, column.data_type().clone(), false));
        columns.push(column);
    }
    let mut metadata = HashMap::from([
        ("model_name".to_owned(), spec.name.to_string()),
        ("model_version".to_owned(), spec.version.to_string()),
    ]);
    if !plan.id.is_empty() {
        metadata.insert("id".to_owned(), plan.id.clone());
    }
    stream(Schema::new_with_metadata(fields, metadata), columns)
        .map(|bytes| BodyChunks::from_iter([bytes.into()]))
        .map_err(|_| failed())
}

fn stream(schema: Schema, columns: Vec<ArrayRef>) -> std::result::Result<Vec<u8>, ArrowError> {
    let batch = RecordBatch::try_new(Arc::new(schema), columns)?;
    let mut out = Vec::new();
    let mut writer = StreamWriter::try_new(&mut out, batch.schema_ref())?;
    writer.write(&batch)?;
    writer.finish()?;
    drop(writer);
    Ok(out)
}

/// An output as an array of its rows: fixed-size lists within, as deep as its shape.
fn column(output: &Output<'_>) -> Result<ArrayRef> {
    let tensor = output.tensor;
    let mut array = values(output)?;
    let shape = tensor.shape();
    for axis in (1..shape.len()).rev() {
        let size = i32::try_from(shape[axis]).map_err(|_| failed())?;
        let lists = element_count(&shape[..axis])?;
        let item = Arc::new(Field::new("item", array.data_type().clone(), false));
        let list = FixedSizeListArray::try_new_with_length(item, size, array, None, lists).map_err(|_| failed())?;
        array = Arc::new(list);
    }
    Ok(array)
}

fn values(output: &Output<'_>) -> Result<ArrayRef> {
    let tensor = output.tensor;
    let data_type = match tensor.datatype() {
        Datatype::Bool => {
            let bits = BooleanBuffer::from_iter(tensor.as_slice().iter().map(|&byte| byte != 0));
            return Ok(Arc::new(BooleanArray::new(bits, None)));
        }
        Datatype::Bytes => return strings(output),
        datatype => data_type(datatype).ok_or_else(failed)?,
    };
    let data = ArrayData::builder(data_type)
        .len(element_count(tensor.shape())?)
        .add_buffer(buffer(tensor))
        .align_buffers(true)
        .build()
        .map_err(|_| failed())?;
    Ok(make_array(data))
}

macro_rules! define {
    ($($(#[$doc:meta])* ($variant:ident, $name:literal, $kind:ident, $size:literal, $numpy:literal, [$($arrow:ident)?], $safetensors:tt),)*) => {
        /// The Arrow type of a datatype; `None` where Arrow has none.
        pub(super) fn data_type(datatype: Datatype) -> Option<DataType> {
            match datatype {
                $($(Datatype::$variant => Some(DataType::$arrow),)?)*
                _ => None,
            }
        }
    };
}

for_each_datatype!(define);

fn buffer(tensor: &Tensor) -> arrow_buffer::Buffer {
    match tensor.buffer() {
        Buffer::Shared(bytes) => bytes.clone().into(),
        other => arrow_buffer::Buffer::from_slice_ref(other.as_slice()),
    }
}

fn strings(output: &Output<'_>) -> Result<ArrayRef> {
    let elements = bytes_tensor::elements(output.tensor.as_slice());
    if i32::try_from(output.tensor.as_slice().len()).is_err() {
        let name = &output.spec.name;
        return Err(Error::invalid(format!("output '{name}' has more than 2 GiB of strings: accept another format")));
    }
    if !output.spec.text {
        return Ok(Arc::new(BinaryArray::from_iter_values(elements)));
    }
    let texts: std::result::Result<Vec<&str>, _> = elements.map(std::str::from_utf8).collect();
    Ok(Arc::new(StringArray::from_iter_values(texts.map_err(|_| failed())?)))
}

fn failed() -> Error {
    Error::new(Kind::Internal, "the response could not be encoded as an Arrow IPC stream")
}
