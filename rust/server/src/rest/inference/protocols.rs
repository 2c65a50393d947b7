//! Dispatch of an inference request to the protocol of its operation.

use super::{
    generate::generate,
    infer::{Inference, infer, infer_as},
    v1,
};
use crate::{
    body::{Body, RequestBody},
    rest::{
        codec::plain_body::PlainBody,
        operation::{GenerateMode, Operation},
    },
    state::Context,
};
use http::Response;

/// Answers an inference request in its own protocol. The rarer ones are boxed: their futures would move with every
/// request.
pub(crate) async fn respond<B: RequestBody>(
    context: &Context,
    operation: Operation,
    request: Inference<'_, B>,
) -> Response<Body> {
    match operation {
        Operation::Infer => infer(context, request).await,
        Operation::Plain => {
            let path = &request.path;
            let model = context.models().find(&path.model, path.version.as_deref());
            if model.is_ok_and(|model| model.spec().streams && !model.spec().raw_requests) {
                return Box::pin(generate(context, GenerateMode::PlainStream, request)).await;
            }
            Box::pin(infer_as(context, PlainBody::Always, request)).await
        }
        Operation::Generate(mode) => Box::pin(generate(context, mode, request)).await,
        Operation::V1(verb) => Box::pin(v1::call(context, verb, request)).await,
    }
}
