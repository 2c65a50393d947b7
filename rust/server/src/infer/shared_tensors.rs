//! Tensors of a request in shared memory: inputs are read before it is queued, outputs are written once they are
//! computed.

use crate::{
    body::offload,
    shared_memory::{Region, Regions},
    state::{Context, RequestMemory},
};
use penstock_core::{AlignedBuffer, Error, InferResponse, Kind, ModelSpec, Result, byte_size};
use penstock_wire::{DecodedRequest, RegionSlice, SharedInput, SharedOutput};
use smallvec::SmallVec;
use std::sync::Arc;

/// Regions for the outputs of a request. They stay open even if they are unregistered.
#[derive(Debug, Default)]
pub(crate) struct SharedOutputs {
    targets: Vec<(usize, Arc<Region>, RegionSlice)>,
    /// Memory of the inputs, until the request is done.
    _held: Option<RequestMemory>,
}

/// Reads the inputs of a request from shared memory, and finds the regions of its outputs.
///
/// # Errors
/// `NotFound` for an unknown region, `TooLarge` and `Overloaded` by the limit on request memory,
/// `InvalidInput` for invalid ranges and tensors.
pub(crate) async fn fetch(
    context: &Context,
    spec: &Arc<ModelSpec>,
    mut decoded: DecodedRequest,
) -> Result<(DecodedRequest, SharedOutputs)> {
    let regions = context.regions()?;
    let Some(shared) = decoded.shared.as_mut() else { return Ok((decoded, SharedOutputs::default())) };
    let outputs = std::mem::take(&mut shared.outputs);
    let targets = outputs.into_iter().map(|output| target(regions, spec, output)).collect::<Result<_>>()?;
    let mut sources = SmallVec::<[Arc<Region>; 2]>::new();
    let mut bytes = 0_usize;
    for SharedInput { index, span, .. } in &shared.inputs {
        let named = |error| named("input", &spec.inputs[*index].name, &error);
        let region = regions.find(&span.region).map_err(named)?;
        region.check(span).map_err(named)?;
        sources.push(region);
        bytes = bytes.saturating_add(span.size);
    }
    let held = RequestMemory::of_shared_memory(&context.app, bytes)?;
    let spec = Arc::clone(spec);
    let decoded = offload::run(bytes, move || {
        let mut sources = sources.iter();
        decoded.fill(&spec, |input| read(sources.next(), input))?;
        Ok((decoded, spec))
    });
    let (decoded, spec) = decoded.await?;
    let outputs = SharedOutputs { targets, _held: Some(held) };
    outputs.check_known_sizes(&spec, decoded.request.rows)?;
    Ok((decoded, outputs))
}

fn read(region: Option<&Arc<Region>>, input: &SharedInput) -> Result<AlignedBuffer> {
    region.ok_or_else(|| Error::new(Kind::Internal, "an input without its region"))?.read(&input.span)
}

fn target(regions: &Regions, spec: &ModelSpec, output: SharedOutput) -> Result<(usize, Arc<Region>, RegionSlice)> {
    let SharedOutput { index, span } = output;
    let named = |error| named("output", &spec.outputs[index].name, &error);
    let region = regions.find(&span.region).map_err(named)?;
    region.check(&span).map_err(named)?;
    Ok((index, region, span))
}

fn named(role: &str, name: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("{role} '{name}': {}", error.message()))
}

impl SharedOutputs {
    /// Reports whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Refuses outputs that are too large for their spans, where that is known before they are computed.
    fn check_known_sizes(&self, spec: &ModelSpec, rows: usize) -> Result<()> {
        for (index, _, span) in &self.targets {
            let output = &spec.outputs[*index];
            let Some(row) = output.dims.iter().copied().collect::<Option<SmallVec<[usize; 4]>>>() else { continue };
            let size = byte_size(output.datatype, &row)?.and_then(|size| size.checked_mul(rows));
            size.map_or(Ok(()), |size| check_size(&output.name, size, span))?;
        }
        Ok(())
    }

    /// Writes the outputs of a response to their spans; large ones on a blocking thread.
    ///
    /// # Errors
    /// `InvalidInput` for an output that is larger than its span, or an object that has shrunk.
    pub(crate) async fn write(&self, spec: &Arc<ModelSpec>, response: InferResponse) -> Result<InferResponse> {
        let bytes = self.targets.iter().map(|(index, ..)| response.outputs[*index].as_slice().len()).sum();
        let (spec, targets) = (Arc::clone(spec), self.targets.clone());
        offload::run(bytes, move || {
            for (index, region, span) in &targets {
                if response.outputs[*index].is_absent() {
                    continue;
                }
                let (name, bytes) = (&spec.outputs[*index].name, response.outputs[*index].as_slice());
                check_size(name, bytes.len(), span)?;
                region.write(span, bytes).map_err(|error| named("output", name, &error))?;
            }
            Ok(response)
        })
        .await
    }
}

fn check_size(output: &str, size: usize, span: &RegionSlice) -> Result<()> {
    if size <= span.size {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "output '{output}' has {size} bytes, 'shared_memory_byte_size' leaves it {} of region '{}'",
        span.size, span.region
    )))
}
