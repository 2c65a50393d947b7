//! safetensors: a JSON header, and tensors after it.

use super::tensors::{Inputs, Output};
use ::safetensors::{Dtype, SafeTensors, tensor::TensorView};
use penstock_core::{
    BodyChunks, Datatype, Error, Kind, MAX_RANK, ModelSpec, ResponsePlan, Result,
    copies::{self, Step},
};
use std::collections::HashMap;

pub(super) fn decode(body: &[u8], inputs: &mut Inputs<'_>) -> Result<()> {
    let file = SafeTensors::deserialize(body)
        .map_err(|error| Error::invalid(format!("the request's body is not valid safetensors data: {error}")))?;
    if file.len() > inputs.limits.max_inputs {
        return Err(Error::invalid(format!("the request has more than {} inputs", inputs.limits.max_inputs)));
    }
    for (name, tensor) in file.iter() {
        let index = inputs.index(name)?;
        let Some(datatype) = datatype(tensor.dtype()) else {
            return Err(Error::invalid(format!(
                "input '{name}' has dtype {:?}, which no datatype has",
                tensor.dtype()
            )));
        };
        if tensor.shape().len() > MAX_RANK {
            return Err(Error::invalid(format!("input '{name}' has more than {MAX_RANK} dimensions")));
        }
        inputs.copy(index, datatype, tensor.shape().iter().copied().collect(), tensor.data())?;
    }
    Ok(())
}

fn datatype(dtype: Dtype) -> Option<Datatype> {
    Some(match dtype {
        Dtype::BOOL => Datatype::Bool,
        Dtype::U8 => Datatype::Uint8,
        Dtype::U16 => Datatype::Uint16,
        Dtype::U32 => Datatype::Uint32,
        Dtype::U64 => Datatype::Uint64,
        Dtype::I8 => Datatype::Int8,
        Dtype::I16 => Datatype::Int16,
        Dtype::I32 => Datatype::Int32,
        Dtype::I64 => Datatype::Int64,
        Dtype::F16 => Datatype::Fp16,
        Dtype::BF16 => Datatype::Bf16,
        Dtype::F32 => Datatype::Fp32,
        Dtype::F64 => Datatype::Fp64,
        _ => return None,
    })
}

const fn dtype(datatype: Datatype) -> Option<Dtype> {
    Some(match datatype {
        Datatype::Bool => Dtype::BOOL,
        Datatype::Uint8 => Dtype::U8,
        Datatype::Uint16 => Dtype::U16,
        Datatype::Uint32 => Dtype::U32,
        Datatype::Uint64 => Dtype::U64,
        Datatype::Int8 => Dtype::I8,
        Datatype::Int16 => Dtype::I16,
        Datatype::Int32 => Dtype::I32,
        Datatype::Int64 => Dtype::I64,
        Datatype::Fp16 => Dtype::F16,
        Datatype::Bf16 => Dtype::BF16,
        Datatype::Fp32 => Dtype::F32,
        Datatype::Fp64 => Dtype::F64,
        Datatype::Bytes => return None,
    })
}

pub(super) fn encode(spec: &ModelSpec, plan: &ResponsePlan, outputs: &[Output<'_>]) -> Result<BodyChunks> {
    let failed = || Error::new(Kind::Internal, "the answer could not be written as safetensors");
    let mut views = Vec::with_capacity(outputs.len());
    for output in outputs {
        let (name, tensor) = (&*output.spec.name, output.tensor);
        let dtype = dtype(tensor.datatype()).ok_or_else(failed)?;
        copies::count(Step::Encode, tensor.as_slice().len());
        let view = TensorView::new(dtype, tensor.shape().to_vec(), tensor.as_slice()).map_err(|_| failed())?;
        views.push((name, view));
    }
    let mut metadata: HashMap<String, String> = HashMap::new();
    metadata.insert("model_name".to_owned(), spec.name.to_string());
    metadata.insert("model_version".to_owned(), spec.version.to_string());
    if !plan.id.is_empty() {
        metadata.insert("id".to_owned(), plan.id.clone());
    }
    let bytes = ::safetensors::serialize(views, Some(metadata)).map_err(|_| failed())?;
    Ok(BodyChunks::from_iter([bytes.into()]))
}
