//! Requests about a server or its models other than inference.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

/// Operation of an [`AdminRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminOperation {
    /// Server liveness; the result is `true` or `false`.
    Live,
    /// Server readiness; the result is `true` or `false`.
    Ready,
    /// Model readiness; the result is `true` or `false`.
    ModelReady,
    /// The server's name, version and extensions.
    ServerMetadata,
    /// A model's inputs and outputs.
    Metadata,
    /// A model's configuration.
    Config,
    /// Counts and times, of one model or all.
    Statistics,
    /// The models that the server knows.
    Index,
    /// Loads a model.
    Load(LoadOverride),
    /// Unloads a model.
    Unload {
        /// Unload the models that only this one needs too.
        dependents: bool,
    },
}

/// Overrides that a load request carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOverride {
    /// The model's configuration, as JSON.
    pub config: Option<String>,
    /// The model's files by name: `file:1/model.py`.
    pub files: Vec<(String, Bytes)>,
}

/// Operation, and the model that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminRequest {
    /// The operation.
    pub operation: AdminOperation,
    /// The model's name; empty where there is none.
    pub model: String,
    /// The model's version; empty where there is none.
    pub version: String,
}

impl AdminRequest {
    /// Returns whether the request only reads, so that it can be repeated.
    pub fn is_idempotent(&self) -> bool {
        !matches!(self.operation, AdminOperation::Load(_) | AdminOperation::Unload { .. })
    }

    /// Returns whether the response's status is the whole result.
    pub(crate) fn is_health(&self) -> bool {
        matches!(self.operation, AdminOperation::Live | AdminOperation::Ready | AdminOperation::ModelReady)
    }

    /// Its REST method, path and body.
    pub(crate) fn rest(&self) -> (&'static str, String, Vec<u8>) {
        let model = || model_path(&self.model, &self.version);
        let repository = |verb: &str| format!("/v2/repository/models/{}/{verb}", segment(&self.model));
        let (method, path, body) = match &self.operation {
            AdminOperation::Live => ("GET", "/v2/health/live".to_owned(), None),
            AdminOperation::Ready => ("GET", "/v2/health/ready".to_owned(), None),
            AdminOperation::ModelReady => ("GET", model() + "/ready", None),
            AdminOperation::ServerMetadata => ("GET", "/v2".to_owned(), None),
            AdminOperation::Metadata => ("GET", model(), None),
            AdminOperation::Config => ("GET", model() + "/config", None),
            AdminOperation::Statistics if self.model.is_empty() => ("GET", "/v2/models/stats".to_owned(), None),
            AdminOperation::Statistics => ("GET", model() + "/stats", None),
            AdminOperation::Index => ("POST", "/v2/repository/index".to_owned(), Some(json!({}))),
            AdminOperation::Load(instead) => ("POST", repository("load"), Some(instead.rest())),
            AdminOperation::Unload { dependents } => {
                let parameters = json!({"parameters": {"unload_dependents": dependents}});
                ("POST", repository("unload"), Some(parameters))
            }
        };
        (method, path, body.map(|body| body.to_string().into_bytes()).unwrap_or_default())
    }
}

impl LoadOverride {
    /// As the body of a REST call, where files are base64.
    fn rest(&self) -> Value {
        let files = self.files.iter().map(|(name, file)| (name.clone(), Value::from(STANDARD.encode(file))));
        let config = self.config.iter().map(|config| ("config".to_owned(), Value::from(config.as_str())));
        let parameters: Map<String, Value> = config.chain(files).collect();
        if parameters.is_empty() { json!({}) } else { json!({"parameters": parameters}) }
    }
}

/// The path of a model's routes.
pub(crate) fn model_path(model: &str, version: &str) -> String {
    let mut path = format!("/v2/models/{}", segment(model));
    if !version.is_empty() {
        path.push_str("/versions/");
        path.push_str(&segment(version));
    }
    path
}

fn segment(text: &str) -> String {
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_names_are_percent_encoded_in_admin_paths() {
        assert_eq!(model_path("a/b c.é", "1 "), "/v2/models/a%2Fb%20c.%C3%A9/versions/1%20");
        let rest_of = |operation| AdminRequest { operation, model: "m".to_owned(), version: String::new() }.rest();
        assert_eq!(rest_of(AdminOperation::Config).1, "/v2/models/m/config");
        assert_eq!(rest_of(AdminOperation::Load(LoadOverride::default())).2, b"{}");
        let config = Some("{}".to_owned());
        let files = vec![("file:1/a".to_owned(), Bytes::from_static(b"\xff"))];
        let loaded = rest_of(AdminOperation::Load(LoadOverride { config, files })).2;
        assert_eq!(loaded, br#"{"parameters":{"config":"{}","file:1/a":"/w=="}}"#);
        assert_eq!(rest_of(AdminOperation::Unload { dependents: true }).1, "/v2/repository/models/m/unload");
    }
}
