//! Metadata and health of the server and its models, as JSON bodies.

use penstock_core::{ModelSpec, TensorSpec};
use serde::Serialize;

/// The body of `GET /v2`.
pub fn server(name: &str, version: &str, extensions: &[&str]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Server<'a> {
        name: &'a str,
        version: &'a str,
        extensions: &'a [&'a str],
    }
    json(&Server { name, version, extensions })
}

/// The body of a model's metadata, with the versions that are ready. Shapes begin with `-1` for
/// models that have a batch axis.
pub fn model(spec: &ModelSpec, versions: &[&str]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Model<'a> {
        name: &'a str,
        versions: &'a [&'a str],
        platform: &'a str,
        inputs: Vec<Tensor<'a>>,
        outputs: Vec<Tensor<'a>>,
    }
    let batched = spec.has_batch_axis();
    json(&Model {
        name: &spec.name,
        versions,
        platform: &spec.platform,
        inputs: spec.inputs.iter().map(|input| Tensor::new(input, batched)).collect(),
        outputs: spec.outputs.iter().map(|output| Tensor::new(output, batched)).collect(),
    })
}

/// The body of `GET /v2/models`.
pub fn models(names: &[&str]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Models<'a> {
        models: &'a [&'a str],
    }
    json(&Models { models: names })
}

/// The body of `GET /`, which KServe's clients take for the server's liveness.
pub fn alive() -> Vec<u8> {
    br#"{"status":"alive"}"#.to_vec()
}

/// The body of `GET /v2/health/live`; `reason` says why the server is not live.
pub fn live(reason: Option<&str>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Live<'a> {
        live: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    }
    json(&Live { live: reason.is_none(), reason })
}

/// Body of `GET /v2/health/ready`; `error` is the reason if the server is not ready. `live` is the key in the
/// protocol's text.
pub fn ready(error: Option<&str>, live: bool) -> Vec<u8> {
    #[derive(Serialize)]
    struct Ready<'a> {
        ready: bool,
        live: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
    }
    json(&Ready { ready: error.is_none(), live, error })
}

/// Body of a model's ready route; `error` is the reason if the model is not ready.
pub fn model_ready(name: &str, error: Option<&str>) -> Vec<u8> {
    #[derive(Serialize)]
    struct ModelReady<'a> {
        name: &'a str,
        ready: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
    }
    json(&ModelReady { name, ready: error.is_none(), error })
}

#[derive(Serialize)]
struct Tensor<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: Vec<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Parameters<'a>>,
}

/// Parameters of a tensor of documents or files.
#[derive(Serialize)]
struct Parameters<'a> {
    content_type: &'a str,
}

impl<'a> Tensor<'a> {
    fn new(spec: &'a TensorSpec, batched: bool) -> Self {
        let content_type = if spec.document { Some("application/json") } else { spec.media_type.as_deref() };
        Self {
            name: &spec.name,
            datatype: spec.datatype.name(),
            shape: spec.wire_shape(batched),
            parameters: content_type.map(|content_type| Parameters { content_type }),
        }
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Strings, numbers and lists in memory: this cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::testing;

    fn text(body: Vec<u8>) -> String {
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn health_bodies_have_the_fields_of_each_client() {
        assert_eq!(text(live(None)), r#"{"live":true}"#);
        assert_eq!(text(live(Some("stuck"))), r#"{"live":false,"reason":"stuck"}"#);
        assert_eq!(text(ready(None, true)), r#"{"ready":true,"live":true}"#);
        assert_eq!(text(ready(Some("draining"), true)), r#"{"ready":false,"live":true,"error":"draining"}"#);
        assert_eq!(text(model_ready("m", None)), r#"{"name":"m","ready":true}"#);
        assert_eq!(text(model_ready("m", Some("loading"))), r#"{"name":"m","ready":false,"error":"loading"}"#);
    }

    #[test]
    fn metadata_has_every_required_key() {
        assert_eq!(
            text(server("penstock", "0.1.0", &["binary_tensor_data"])),
            r#"{"name":"penstock","version":"0.1.0","extensions":["binary_tensor_data"]}"#
        );
        assert_eq!(text(models(&["a", "b"])), r#"{"models":["a","b"]}"#);
        assert_eq!(
            text(model(&testing::add(), &["1"])),
            concat!(
                r#"{"name":"add","versions":["1"],"platform":"penstock","inputs":["#,
                r#"{"name":"a","datatype":"FP32","shape":[-1,4]},{"name":"b","datatype":"FP32","shape":[-1,4]}],"#,
                r#""outputs":[{"name":"sum","datatype":"FP32","shape":[-1,4]}]}"#
            )
        );
        let document = TensorSpec { document: true, ..testing::tensor("d", penstock_core::Datatype::Bytes, &[]) };
        assert!(text(model(&testing::model("m", vec![document], Vec::new()), &["1"])).contains(
            r#"{"name":"d","datatype":"BYTES","shape":[],"parameters":{"content_type":"application/json"}}"#
        ));
    }
}
