//! The repository's messages, in Triton's form and in KServe's.
//!
//! KServe's requests have the model's name as field 1, where Triton's have the repository's. A request
//! without a model's name is therefore KServe's, and its field 1 names the model. Answers carry the two
//! fields of KServe's, which Triton's clients do not know and pass over.

use crate::{
    generated::{inference as pb, inference::model_repository_parameter::ParameterChoice},
    repository::{
        FILE, LoadRequest, named_repository, selected, unknown_load_parameter, unknown_unload_parameter,
        wrong_dependents, wrong_load_parameter,
    },
};
use penstock_core::{Error, IndexEntry, Result, VersionState};

/// Response to an index request.
///
/// # Errors
/// `Unsupported` for a named repository.
pub fn index(request: &pb::RepositoryIndexRequest, index: &[IndexEntry]) -> Result<pb::RepositoryIndexResponse> {
    if !request.repository_name.is_empty() {
        return Err(named_repository(&request.repository_name));
    }
    let row = |entry: &IndexEntry| pb::repository_index_response::ModelIndex {
        name: entry.name.to_string(),
        version: entry.version_text().unwrap_or_default().to_owned(),
        state: entry.state().map_or("", VersionState::name).to_owned(),
        reason: entry.reason.clone(),
    };
    Ok(pb::RepositoryIndexResponse { models: selected(index, request.ready).map(row).collect() })
}

/// The model that a request to load names, and how to load it.
///
/// # Errors
/// `Unsupported` for a named repository, `InvalidInput` that names the parameter.
pub fn load(request: pb::RepositoryModelLoadRequest) -> Result<(String, LoadRequest)> {
    let name = model(request.repository_name, request.model_name)?;
    let mut load = LoadRequest::default();
    for (key, value) in request.parameters {
        match (key.strip_prefix(FILE), value.parameter_choice) {
            (Some(file), Some(ParameterChoice::BytesParam(bytes))) => load.files.push((file.to_owned(), bytes)),
            (Some(_), _) => return Err(wrong_load_parameter(&key, "bytes_param")),
            (None, Some(ParameterChoice::StringParam(text))) if key == "config" => load.config = Some(text),
            (None, _) if key == "config" => return Err(wrong_load_parameter(&key, "string_param")),
            (None, _) => return Err(unknown_load_parameter(&key)),
        }
    }
    Ok((name, load.checked()?))
}

/// The model that a request to unload names. No model here depends on another, so its parameter changes
/// nothing.
///
/// # Errors
/// `Unsupported` for a named repository, `InvalidInput` that names the parameter.
pub fn unload(request: pb::RepositoryModelUnloadRequest) -> Result<String> {
    let name = model(request.repository_name, request.model_name)?;
    for (key, value) in request.parameters {
        match (key.as_str(), value.parameter_choice) {
            ("unload_dependents", Some(ParameterChoice::BoolParam(_))) => {}
            ("unload_dependents", _) => return Err(wrong_dependents()),
            _ => return Err(unknown_unload_parameter(&key)),
        }
    }
    Ok(name)
}

fn model(first: String, second: String) -> Result<String> {
    match (first.is_empty(), second.is_empty()) {
        (true, true) => Err(Error::invalid("the request names no model")),
        (false, true) => Ok(first),
        (true, false) => Ok(second),
        (false, false) => Err(named_repository(&first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::Kind;
    use prost::Message as _;

    fn request(
        repository: &str,
        model: &str,
        parameters: &[(&str, ParameterChoice)],
    ) -> pb::RepositoryModelLoadRequest {
        pb::RepositoryModelLoadRequest {
            repository_name: repository.to_owned(),
            model_name: model.to_owned(),
            parameters: parameters
                .iter()
                .map(|(name, choice)| {
                    let value = pb::ModelRepositoryParameter { parameter_choice: Some(choice.clone()) };
                    ((*name).to_owned(), value)
                })
                .collect(),
        }
    }

    #[test]
    fn kserve_load_request_is_decoded() {
        // Field 1, a text of one byte: all that KServe's message has.
        let kserve = pb::RepositoryModelLoadRequest::decode(&b"\x0a\x01m"[..]).unwrap();
        assert_eq!(load(kserve).unwrap(), ("m".to_owned(), LoadRequest::default()));
        assert_eq!(load(request("", "m", &[])).unwrap().0, "m");
        let response = pb::RepositoryModelLoadResponse { model_name: "m".to_owned(), is_loaded: true };
        assert_eq!(response.encode_to_vec(), b"\x0a\x01m\x10\x01");
    }

    #[test]
    fn named_repositories_are_refused() {
        let refused = load(request("west", "m", &[])).unwrap_err();
        assert_eq!(refused.kind(), Kind::Unsupported);
        assert_eq!(refused.message(), "repository 'west': repositories are not named, leave its name out");
        let named = pb::RepositoryIndexRequest { repository_name: "west".to_owned(), ready: false };
        assert_eq!(index(&named, &[]).unwrap_err().kind(), Kind::Unsupported);
        assert_eq!(load(request("", "", &[])).unwrap_err().message(), "the request names no model");
    }

    #[test]
    fn load_parameters_are_type_checked() {
        let (text, bytes) = (ParameterChoice::StringParam("{}".to_owned()), ParameterChoice::BytesParam("x".into()));
        let (_, given) = load(request("", "m", &[("config", text.clone()), ("file:1/a", bytes.clone())])).unwrap();
        assert_eq!((given.config.as_deref(), given.files.len()), (Some("{}"), 1));
        for (parameters, message) in [
            (vec![("config", bytes.clone())], "load parameter 'config' is not string_param"),
            (vec![("file:1/a", text.clone())], "load parameter 'file:1/a' is not bytes_param"),
            (vec![("x", text)], "unknown load parameter 'x', expected 'config' or 'file:<version>/<file>'"),
            (vec![("file:1/a", bytes)], "load parameters 'file:...' need the load parameter 'config' too"),
        ] {
            assert_eq!(load(request("", "m", &parameters)).unwrap_err().message(), message);
        }
    }
}
