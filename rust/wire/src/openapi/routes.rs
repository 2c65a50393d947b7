//! Description of one REST route. The server has the table of all routes and passes it to the document.

/// Body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No body.
    Nothing,
    /// An inference request of the path's model: described once for each model, by its own schema.
    Inference,
    /// An inference request with any number of responses.
    InferStream,
    /// One flat JSON object for the path's model.
    Generate,
    /// One flat JSON object with any number of responses.
    GenerateStream,
    /// Values in the types of the path's model.
    Plain,
    /// Instances of the path's model in V1's form.
    Predict,
    /// Instances of a model that has an explainer, in V1's form.
    Explain,
    /// JSON of a schema in `components.json`. An empty body stands for `{}`.
    Json(&'static str),
}

/// Body of a successful response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// JSON of a schema in `components.json`.
    Json(&'static str),
    /// Text of this media type.
    Text(&'static str),
    /// A response of the path's model.
    OfModel,
    /// No body: the status is 204.
    Nothing,
}

/// One method of one path.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// `get`, `post` or `delete`.
    pub method: &'static str,
    /// Pattern of the path, with `{model}` and `{version}`.
    pub path: &'static str,
    /// The group in which it is listed.
    pub tag: Tag,
    /// Operation id for generated clients; the id of a path without a version plus `_version` is that of its version.
    pub id: &'static str,
    /// Its purpose, in a line.
    pub summary: &'static str,
    /// Body of the request.
    pub takes: Takes,
    /// Body of the response.
    pub gives: Gives,
    /// Set where 503 carries the same body, with the reason in it.
    pub may_be_unready: bool,
}

/// Group of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Inference on a model.
    Inference,
    /// Metadata and readiness of models.
    Models,
    /// The server as a whole.
    Server,
    /// Loading and unloading.
    Repository,
    /// Regions of shared memory.
    SharedMemory,
    /// KServe's V1 protocol.
    V1,
    /// Routes that models declare.
    OfModels,
    /// The document and its page.
    Documentation,
}

impl Tag {
    /// All groups, in the order of the document.
    pub(super) const ALL: [Self; 8] = [
        Self::Inference,
        Self::Models,
        Self::Server,
        Self::Repository,
        Self::SharedMemory,
        Self::V1,
        Self::OfModels,
        Self::Documentation,
    ];

    /// Its name in the document.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Inference => "inference",
            Self::Models => "models",
            Self::Server => "server",
            Self::Repository => "repository",
            Self::SharedMemory => "shared memory",
            Self::V1 => "v1",
            Self::OfModels => "routes of models",
            Self::Documentation => "documentation",
        }
    }

    /// Its description in the document.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Inference => "Ask a model. Each model has its own path and its own schema.",
            Self::Models => "What a model takes and gives, and whether it takes requests.",
            Self::Server => "The server as a whole.",
            Self::Repository => "Load and unload models, where the server lets clients do so.",
            Self::SharedMemory => {
                "Tensors that no body carries, for callers on the same machine where that is allowed."
            }
            Self::V1 => "KServe's V1 protocol, which is TensorFlow Serving's REST form.",
            Self::OfModels => {
                "Paths of models' own. Each hands its request to the model as it is, and the model says what is answered."
            }
            Self::Documentation => "This document, and a page made of it.",
        }
    }
}

impl Route {
    /// A route without a body, whose response is an empty JSON object.
    pub const fn new(
        method: &'static str,
        path: &'static str,
        (id, tag, summary): (&'static str, Tag, &'static str),
    ) -> Self {
        let (takes, gives) = (Takes::Nothing, Gives::Json("Object"));
        Self { method, path, tag, id, summary, takes, gives, may_be_unready: false }
    }

    /// Sets the schema of the response.
    #[must_use]
    pub const fn json(self, schema: &'static str) -> Self {
        Self { gives: Gives::Json(schema), ..self }
    }

    /// Sets the media type of a response that is text.
    #[must_use]
    pub const fn text(self, media_type: &'static str) -> Self {
        Self { gives: Gives::Text(media_type), ..self }
    }

    /// Leaves the response without a body.
    #[must_use]
    pub const fn nothing(self) -> Self {
        Self { gives: Gives::Nothing, ..self }
    }

    /// Sets the request of a route that the path's model answers.
    #[must_use]
    pub const fn of_model(self, takes: Takes) -> Self {
        Self { takes, gives: Gives::OfModel, ..self }
    }

    /// Sets the schema of the request.
    #[must_use]
    pub const fn body(self, schema: &'static str) -> Self {
        Self { takes: Takes::Json(schema), ..self }
    }

    /// Adds 503 with the same body.
    #[must_use]
    pub const fn unready(self) -> Self {
        Self { may_be_unready: true, ..self }
    }

    /// Reports whether the path names a model.
    pub(super) fn has_model(&self) -> bool {
        self.path.contains("{model}")
    }

    /// Reports whether the path names a region of shared memory.
    pub(super) fn has_region(&self) -> bool {
        self.path.contains("{region}")
    }

    /// Reports whether the path names an event stream.
    pub(super) fn has_stream(&self) -> bool {
        self.path.contains("{stream}")
    }

    /// Reports whether the path names a version.
    pub(super) fn has_version(&self) -> bool {
        self.path.contains("{version}")
    }
}
