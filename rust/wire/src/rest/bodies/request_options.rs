//! Options of a request, in formats without a place for them.

use crate::{json::reader::Reader, rest::parameters::RequestParameters};
use penstock_core::{Error, ModelSpec, RequestMetadata, RequestedOutput, ResponsePlan, Result, Schedule};
use smallvec::SmallVec;
use std::time::Duration;

/// Id, outputs and parameters of a request.
#[derive(Debug, Default)]
pub struct RequestOptions {
    pub(super) plan: ResponsePlan,
    pub(super) caller: Option<Box<RequestMetadata>>,
    pub(super) timeout: Option<Duration>,
    pub(super) schedule: Schedule,
}

impl RequestOptions {
    /// Reads the members of a query, whose names and values are decoded: `id`, `output` (any number of
    /// them) and `parameters` (the protocol's JSON object). Others are passed over.
    ///
    /// # Errors
    /// `InvalidInput` that names the member.
    pub fn from_query<'q>(spec: &ModelSpec, members: impl IntoIterator<Item = (&'q str, &'q str)>) -> Result<Self> {
        let mut plan = ResponsePlan::default();
        let mut outputs: SmallVec<[RequestedOutput; 4]> = SmallVec::new();
        let mut parameters = RequestParameters::default();
        for (name, value) in members {
            match name {
                "id" => value.clone_into(&mut plan.id),
                "output" => {
                    let index = spec.output_index(value)?;
                    if outputs.iter().any(|output| output.index == index) {
                        return Err(Error::invalid(format!("output '{value}' is requested twice")));
                    }
                    outputs.push(RequestedOutput::new(index, true));
                }
                "parameters" => read_parameters(&mut parameters, value, spec.wants_context)?,
                _ => {}
            }
        }
        plan.outputs = (!outputs.is_empty()).then_some(outputs);
        let caller = spec.wants_context.then(|| {
            let (id, parameters, outputs) = (plan.id.clone(), parameters.custom, plan.requested_indices());
            Box::new(RequestMetadata { id, parameters, outputs, ..RequestMetadata::default() })
        });
        Ok(Self { plan, caller, timeout: parameters.timeout, schedule: parameters.schedule.finish() })
    }

    /// The plan of the response.
    pub fn plan(&self) -> &ResponsePlan {
        &self.plan
    }
}

fn read_parameters(parameters: &mut RequestParameters, text: &str, keep_custom: bool) -> Result<()> {
    let mut reader = Reader::new(text.as_bytes());
    let read = parameters.read(&mut reader, keep_custom).and_then(|()| match reader.peek() {
        None => Ok(()),
        Some(_) => Err(reader.fault("nothing after the object of 'parameters'").into()),
    });
    read.map_err(|error| Error::new(error.kind(), error.message().replace("request JSON", "'parameters' of the query")))
}
