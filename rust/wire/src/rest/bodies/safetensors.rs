//! safetensors: a JSON header, and tensors after it.

use super::tensors::{Inputs, Output};
use ::safetensors::{Dtype, SafeTensors, tensor::TensorView};
use penstock_core::{
    BodyChunks, Datatype, Error, Kind, MAX_RANK, ModelSpec, ResponsePlan, Result,
    copies::{self, Step},
    for_each_datatype,
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
                "input '{name}' has dtype {:?}, expected the dtype of a datatype",
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

macro_rules! define {
    ($($(#[$doc:meta])* ($variant:ident, $name:literal, $kind:ident, $size:literal, $numpy:literal, $arrow:tt, [$($dtype:ident)?]),)*) => {
        /// The datatypes that safetensors has.
        const DTYPES: &[(Datatype, Dtype)] = &[$($((Datatype::$variant, Dtype::$dtype),)?)*];
    };
}

for_each_datatype!(define);

fn datatype(dtype: Dtype) -> Option<Datatype> {
    DTYPES.iter().find_map(|(datatype, known)| (*known == dtype).then_some(*datatype))
}

/// The dtype of a datatype; `None` where safetensors has none.
pub(super) fn dtype(datatype: Datatype) -> Option<Dtype> {
    DTYPES.iter().find_map(|(known, dtype)| (*known == datatype).then_some(*dtype))
}

pub(super) fn encode(spec: &ModelSpec, plan: &ResponsePlan, outputs: &[Output<'_>]) -> Result<BodyChunks> {
    let failed = || Error::new(Kind::Internal, "the response could not be encoded as safetensors");
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
