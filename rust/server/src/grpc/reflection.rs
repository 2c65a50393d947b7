//! `grpc.reflection`, for ghz, grpcurl and other tools without a proto file. tonic serves it, and answers
//! calls of unknown services.

use axum::Router;
use penstock_wire::generated::DESCRIPTORS;
use tonic::service::Routes;
use tonic_reflection::server::Builder;

/// Longest message of a client, in bytes: it has names only.
const MESSAGE: usize = 64 << 10;

/// Creates the router of one I/O thread. Unknown calls are answered with UNIMPLEMENTED.
pub(crate) fn router(reflects: bool) -> Router {
    let routes = Routes::default();
    if reflects { add(routes) } else { routes }.into_axum_router()
}

/// Adds both versions of the service; each describes all services, and both versions.
fn add(routes: Routes) -> Routes {
    let builder = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
            .include_reflection_service(false)
    };
    // They fail on inconsistent descriptors; these are constants, and a test describes them all.
    match (builder().build_v1(), builder().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes
            .add_service(v1.max_decoding_message_size(MESSAGE))
            .add_service(v1alpha.max_decoding_message_size(MESSAGE)),
        (v1, v1alpha) => {
            tracing::error!(v1 = ?v1.err(), v1alpha = ?v1alpha.err(), "gRPC reflection is not served");
            routes
        }
    }
}
