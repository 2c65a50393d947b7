//! The vector files; their README describes them.

use super::values::{hex, unhex};
use penstock_core::{Batching, Datatype, ModelSpec, Tensor as CoreTensor, TensorSpec};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{fs, path::PathBuf};

/// A declared model.
#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    pub(crate) name: String,
    version: String,
    max_batch_size: usize,
    context: bool,
    inputs: Vec<RequestSchema>,
    outputs: Vec<RequestSchema>,
}

#[derive(Debug, Deserialize)]
struct RequestSchema {
    name: String,
    datatype: String,
    shape: Vec<i64>,
}

/// A request in several encodings, and its outcome.
#[derive(Debug, Deserialize)]
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) model: String,
    pub(crate) wires: Vec<Wire>,
    pub(crate) request: Option<Request>,
    pub(crate) answer: Option<ClientResponse>,
    pub(crate) refusal: Option<Refusal>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WireKind {
    RestJson,
    RestBinary,
    Grpc,
}

/// One encoding of a request.
#[derive(Debug, Deserialize)]
pub(crate) struct Wire {
    pub(crate) wire: WireKind,
    #[serde(default)]
    pub(crate) note: String,
    #[serde(default)]
    text: String,
    text_hex: Option<String>,
    #[serde(default)]
    tail: String,
    pub(crate) json_length: Option<usize>,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) parameters: Map<String, Value>,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) outputs: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ClientResponse {
    pub(crate) parameters: Map<String, Value>,
    pub(crate) outputs: Vec<Tensor>,
    pub(crate) grpc: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) kind: String,
    pub(crate) status: u16,
    pub(crate) code: i32,
    pub(crate) message: Vec<String>,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) datatype: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) hex: String,
}

#[derive(Deserialize)]
struct Models {
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Vectors {
    vectors: Vec<Vector>,
}

/// All declared models.
pub(crate) fn models() -> Vec<Model> {
    let text = fs::read_to_string(folder().join("models.json")).expect("models.json");
    serde_json::from_str::<Models>(&text).expect("models.json").models
}

/// The vectors of every file.
pub(crate) fn vectors() -> Vec<Vector> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the folder of the vectors")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json") && !path.ends_with("models.json"))
        .collect();
    files.sort();
    assert!(files.len() > 5, "vector files are missing");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a file of vectors");
        serde_json::from_str::<Vectors>(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())).vectors
    };
    files.into_iter().flat_map(read).collect()
}

pub(super) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors")
}

impl Model {
    pub(crate) fn spec(&self) -> ModelSpec {
        let batching = Batching { hold: false, ..Batching::new(self.max_batch_size) };
        ModelSpec {
            name: self.name.as_str().into(),
            version: self.version.as_str().into(),
            inputs: self.inputs.iter().map(RequestSchema::spec).collect(),
            outputs: self.outputs.iter().map(RequestSchema::spec).collect(),
            batching: (self.max_batch_size > 0).then_some(batching),
            wants_context: self.context,
            ..ModelSpec::default()
        }
    }
}

impl RequestSchema {
    fn spec(&self) -> TensorSpec {
        let dims = self.shape.iter().map(|&size| usize::try_from(size).ok()).collect();
        TensorSpec::new(&self.name, Datatype::from_name(&self.datatype).expect("a datatype"), dims)
    }
}

impl Wire {
    pub(crate) fn json(&self) -> Vec<u8> {
        self.text_hex.as_deref().map_or_else(|| self.text.clone().into_bytes(), unhex)
    }

    pub(crate) fn tail(&self) -> Vec<u8> {
        unhex(&self.tail)
    }

    pub(crate) fn message(&self) -> Vec<u8> {
        unhex(&self.message)
    }
}

impl Tensor {
    pub(crate) fn of(name: &str, tensor: &CoreTensor) -> Self {
        Self {
            name: name.to_owned(),
            datatype: tensor.datatype().name().to_owned(),
            shape: tensor.shape().to_vec(),
            hex: hex(tensor.as_slice()),
        }
    }

    pub(crate) fn raw(&self) -> Vec<u8> {
        unhex(&self.hex)
    }
}
