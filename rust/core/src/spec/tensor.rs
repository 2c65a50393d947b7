//! Declared tensors: names, datatypes, shapes.

use crate::Datatype;
use std::sync::Arc;

/// A declared input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name on the wire.
    pub name: Arc<str>,
    /// Datatype of the elements.
    pub datatype: Datatype,
    /// Dimensions without the batch axis; `None` is variable (`-1` on the wire).
    pub dims: Vec<Option<usize>>,
    /// Requests may omit it (inputs), or the handler may (outputs).
    pub optional: bool,
    /// Elements of a BYTES tensor must be UTF-8.
    pub text: bool,
    /// Labels of the elements of a row, for classification (outputs only).
    pub labels: Arc<[Box<str>]>,
    /// Elements of a BYTES tensor are JSON documents, which JSON protocols may inline.
    pub document: bool,
    /// Media type of a BYTES element, for example `image/png` (outputs only); `None` if it is not known.
    pub media_type: Option<Arc<str>>,
    /// Schema of the JSON documents in a BYTES tensor. For descriptions only, not checked here.
    pub described: Option<Arc<Document>>,
    /// Representation of rows that differ in their first dimension; `None` if they share no batch.
    pub ragged: Option<Ragged>,
}

/// Schema and example of the JSON documents in a BYTES tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// JSON Schema, as JSON text. References are local.
    pub schema: String,
    /// A valid document, as JSON text.
    pub example: Option<String>,
}

/// Representation of rows of different lengths in one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ragged {
    /// Rows are concatenated: the first axis has the steps of all rows, and there is no batch axis.
    Joined,
    /// Rows are padded to the longest with this element. A BYTES element includes its length prefix.
    Padded(Arc<[u8]>),
}

impl TensorSpec {
    /// A required tensor without further options.
    pub fn new(name: &str, datatype: Datatype, dims: Vec<Option<usize>>) -> Self {
        Self {
            name: name.into(),
            datatype,
            dims,
            optional: false,
            text: false,
            document: false,
            labels: Arc::default(),
            media_type: None,
            described: None,
            ragged: None,
        }
    }

    /// Returns true if a shape matches the dimensions, after a batch axis of any size if `batched`.
    pub fn fits(&self, shape: &[usize], batched: bool) -> bool {
        let row = shape.get(usize::from(batched)..).unwrap_or_default();
        shape.len() == self.dims.len() + usize::from(batched)
            && row.iter().zip(&self.dims).all(|(&dim, expected)| expected.is_none_or(|expected| expected == dim))
    }

    /// Shape in the metadata: `-1` for variable dimensions and for the batch axis.
    pub fn wire_shape(&self, batched: bool) -> Vec<i64> {
        let dims = self.dims.iter().map(|dim| dim.map_or(-1, |dim| i64::try_from(dim).unwrap_or(i64::MAX)));
        batched.then_some(-1).into_iter().chain(dims).collect()
    }
}

/// Shape in an error message, for example `[-1, 16]`.
pub fn shape_text(spec: &TensorSpec, batched: bool) -> String {
    format!("{:?}", spec.wire_shape(batched))
}

/// Names in an error message, for example `'a', 'b'`.
pub fn names(specs: &[TensorSpec]) -> String {
    if specs.is_empty() {
        return "none".to_owned();
    }
    specs.iter().map(|spec| format!("'{}'", spec.name)).collect::<Vec<_>>().join(", ")
}
