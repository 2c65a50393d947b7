//! Declared tensors: names, datatypes, shapes.

use crate::Datatype;
use std::sync::Arc;

/// One declared input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name on the wire.
    pub name: Arc<str>,
    /// The type of its elements.
    pub datatype: Datatype,
    /// The sizes of its axes without the batch axis; `None` is variable (`-1` on the wire).
    pub dims: Vec<Option<usize>>,
    /// Whether a request may leave it out (inputs only).
    pub optional: bool,
    /// Whether the elements of a BYTES tensor must be UTF-8.
    pub text: bool,
    /// The names of its elements in a row, for classification (outputs only).
    pub labels: Arc<[Box<str>]>,
    /// Whether the element of a BYTES tensor is a JSON document, which a JSON protocol may carry as it is.
    pub document: bool,
    /// For a BYTES tensor of JSON documents: what such a document is. Only described, never checked here.
    pub described: Option<Arc<Document>>,
    /// How rows that differ in the size of the first axis share a batch; `None`: they do not.
    pub ragged: Option<Ragged>,
}

/// The JSON documents that a BYTES tensor carries, as its description tells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Their JSON Schema, as JSON text; its references point inside itself.
    pub schema: String,
    /// One that is valid, as JSON text.
    pub example: Option<String>,
}

/// How rows of different lengths share a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ragged {
    /// They lie one behind another: the first axis counts the steps of all rows, and there is no batch axis.
    Joined,
    /// They are filled up to the longest with this element; of BYTES, with its length in front.
    Padded(Arc<[u8]>),
}

impl TensorSpec {
    /// A required tensor of arbitrary elements.
    pub fn new(name: &str, datatype: Datatype, dims: Vec<Option<usize>>) -> Self {
        Self {
            name: name.into(),
            datatype,
            dims,
            optional: false,
            text: false,
            document: false,
            labels: Arc::default(),
            described: None,
            ragged: None,
        }
    }

    /// Whether a shape has these axes, behind a batch axis of any size if there is one.
    pub fn fits(&self, shape: &[usize], batched: bool) -> bool {
        let row = shape.get(usize::from(batched)..).unwrap_or_default();
        shape.len() == self.dims.len() + usize::from(batched)
            && row.iter().zip(&self.dims).all(|(&dim, expected)| expected.is_none_or(|expected| expected == dim))
    }

    /// The shape as metadata shows it: `-1` for variable axes, and for the batch axis if there is one.
    pub fn wire_shape(&self, batched: bool) -> Vec<i64> {
        let dims = self.dims.iter().map(|dim| dim.map_or(-1, |dim| i64::try_from(dim).unwrap_or(i64::MAX)));
        batched.then_some(-1).into_iter().chain(dims).collect()
    }
}

/// The shape in an error message, for example `[-1, 16]`.
pub fn shape_text(spec: &TensorSpec, batched: bool) -> String {
    format!("{:?}", spec.wire_shape(batched))
}

/// The names in an error message, for example `'a', 'b'`.
pub fn names(specs: &[TensorSpec]) -> String {
    if specs.is_empty() {
        return "none".to_owned();
    }
    specs.iter().map(|spec| format!("'{}'", spec.name)).collect::<Vec<_>>().join(", ")
}
