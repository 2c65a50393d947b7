//! One row of the table of routes.

use super::{
    handler::{Handler, Read},
    operation::Operation,
};
use crate::settings::{Categories, Category, Requirement};
use penstock_wire::openapi::{self, Tag, Takes};

/// One method of one path.
#[derive(Debug)]
pub(crate) struct Route {
    /// The secret that requests must carry.
    pub(crate) requires: Requirement,
    pub(crate) handler: Handler,
    /// Method, path and description in the OpenAPI document.
    pub(crate) doc: openapi::Route,
    /// Set for routes that the OpenAPI document leaves out.
    pub(crate) hidden: bool,
    /// Set for the live page, which has its own setting.
    pub(crate) live: bool,
    /// Action in the audit log; `None` where nothing is changed.
    pub(crate) audited: Option<&'static str>,
}

/// Id, group and summary in the OpenAPI document.
pub(super) type Doc = (&'static str, Tag, &'static str);

pub(super) const OPEN: Requirement = Requirement::Nothing;
pub(super) const HEALTH: Requirement = Requirement::Category(Category::Health);
pub(super) const METADATA: Requirement = Requirement::Category(Category::Metadata);
pub(super) const INFERENCE: Requirement = Requirement::Category(Category::Inference);
pub(super) const SHARED_MEMORY: Requirement = Requirement::Category(Category::SharedMemory);
pub(super) const MODEL_CONFIG: Requirement = Requirement::Category(Category::ModelConfig);
pub(super) const REPOSITORY: Requirement = Requirement::Category(Category::ModelRepository);
pub(super) const STATISTICS: Requirement = Requirement::Category(Category::Statistics);
pub(super) const TRACE: Requirement = Requirement::Category(Category::Trace);
pub(super) const LOGGING: Requirement = Requirement::Category(Category::Logging);
pub(super) const METRICS: Requirement = Requirement::Category(Category::Metrics);
pub(super) const DEBUG: Requirement = Requirement::Category(Category::Debug);

/// Description of a route that the document leaves out.
pub(super) const HIDDEN: Doc = ("", Tag::Server, "");

pub(super) const fn get(path: &'static str, requires: Requirement, handler: Read, doc: Doc) -> Route {
    get_by(path, requires, Handler::Read(handler), doc)
}

pub(super) const fn get_by(path: &'static str, requires: Requirement, handler: Handler, doc: Doc) -> Route {
    Route { requires, handler, doc: openapi::Route::new("get", path, doc), hidden: false, live: false, audited: None }
}

pub(super) const fn post(path: &'static str, requires: Requirement, handler: Handler, doc: Doc) -> Route {
    Route { requires, handler, doc: openapi::Route::new("post", path, doc), hidden: false, live: false, audited: None }
}

/// A `DELETE` route, whose response is empty.
pub(super) const fn delete(path: &'static str, requires: Requirement, handler: Read, doc: Doc) -> Route {
    let doc = openapi::Route::new("delete", path, doc).nothing();
    Route { requires, handler: Handler::Remove(handler), doc, hidden: false, live: false, audited: None }
}

/// A route of inference, which is always of that category.
pub(super) const fn infer(path: &'static str, operation: Operation, takes: Takes, doc: Doc) -> Route {
    let route = post(path, INFERENCE, Handler::Inference(operation), doc);
    Route { doc: route.doc.of_model(takes), ..route }
}

impl Route {
    pub(super) const fn json(self, schema: &'static str) -> Self {
        Self { doc: self.doc.json(schema), ..self }
    }

    pub(super) const fn text(self, media_type: &'static str) -> Self {
        Self { doc: self.doc.text(media_type), ..self }
    }

    pub(super) const fn body(self, schema: &'static str) -> Self {
        Self { doc: self.doc.body(schema), ..self }
    }

    pub(super) const fn unready(self) -> Self {
        Self { doc: self.doc.unready(), ..self }
    }

    pub(super) const fn hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    /// A control change, which the audit log has.
    pub(super) const fn audited(self, action: &'static str) -> Self {
        Self { audited: Some(action), ..self }
    }

    /// A route of the live page. It is for people: a client that reads all of its events would never end.
    pub(super) const fn of_live_page(self) -> Self {
        Self { live: true, hidden: true, ..self }
    }

    /// Reports whether an address does not serve it. The live page is nothing without its events.
    pub(crate) fn is_hidden(&self, hidden: Categories) -> bool {
        match self.requires {
            Requirement::Category(category) => hidden.contain(category),
            Requirement::Nothing => self.live && hidden.contain(Category::Debug),
        }
    }

    /// Reports whether the setting `docs` switches it off.
    pub(crate) fn is_documentation(&self) -> bool {
        self.doc.tag == Tag::Documentation
    }

    /// The names of the path's parameters.
    pub(crate) fn params(&self) -> impl Iterator<Item = &'static str> {
        self.doc.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }
}
