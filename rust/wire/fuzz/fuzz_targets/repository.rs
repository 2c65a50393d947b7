//! Bodies and messages of the repository's calls: an accepted load is the same in both protocols.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::{Error, Kind};
use penstock_wire::{
    LoadRequest,
    generated::inference::{
        ModelRepositoryParameter, RepositoryModelLoadRequest, RepositoryModelUnloadRequest,
        model_repository_parameter::ParameterChoice,
    },
    grpc, rest,
};
use penstock_wire_fuzz::within_budget;
use prost::Message;

fuzz_target!(|body: &[u8]| {
    within_budget(body.len(), || {
        rest::repository::ready(body).map_or_else(|error| refused(&error), drop);
        rest::repository::unload(body).map_or_else(|error| refused(&error), drop);
        match rest::repository::load(body) {
            Err(error) => refused(&error),
            Ok(load) => {
                assert_eq!(grpc::repository::load(message(&load)).expect("the same load"), ("m".to_owned(), load))
            }
        }
        if let Ok(request) = RepositoryModelLoadRequest::decode(body) {
            let named = !request.repository_name.is_empty() && !request.model_name.is_empty();
            match grpc::repository::load(request) {
                Err(error) => refused(&error),
                Ok((name, load)) => {
                    assert!(!named && !name.is_empty() && (load.files.is_empty() || load.config.is_some()))
                }
            }
        }
        if let Ok(request) = RepositoryModelUnloadRequest::decode(body) {
            grpc::repository::unload(request).map_or_else(|error| refused(&error), |name| assert!(!name.is_empty()));
        }
    });
});

/// An error of the client.
fn refused(error: &Error) {
    assert!(matches!(error.kind(), Kind::InvalidInput | Kind::Unsupported), "{error:?}");
    assert!(!error.message().is_empty());
}

fn message(load: &LoadRequest) -> RepositoryModelLoadRequest {
    let config = load.config.iter().map(|text| ("config".to_owned(), ParameterChoice::StringParam(text.clone())));
    let files =
        load.files.iter().map(|(name, data)| (format!("file:{name}"), ParameterChoice::BytesParam(data.clone())));
    RepositoryModelLoadRequest {
        repository_name: String::new(),
        model_name: "m".to_owned(),
        parameters: config
            .chain(files)
            .map(|(name, choice)| (name, ModelRepositoryParameter { parameter_choice: Some(choice) }))
            .collect(),
    }
}
