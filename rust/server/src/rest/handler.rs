//! Forms of a route's handler, and the body that each form receives.

use super::{
    codec::receive::{receive_small, receive_whole},
    error,
    operation::Operation,
};
use crate::{
    body::{Body, RequestBody},
    state::Context,
};
use bytes::Bytes;
use http::{HeaderMap, Response};
use penstock_core::{Result, footprint};
use std::pin::Pin;

/// A future on the heap: only rare requests have one.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Handler of a `GET` or `DELETE` route. Its requests have no body.
pub(crate) type Read = fn(&Context, &PathParams) -> Result<Response<Body>>;

/// Handler of a `GET` route that waits for something.
pub(crate) type SlowRead = for<'a> fn(&'a Context, &'a HeaderMap) -> BoxFuture<'a, Result<Response<Body>>>;

/// Handler of a `POST` route. Returns the JSON of the response.
pub(crate) type Write = fn(&Context, &PathParams, &[u8]) -> Result<Vec<u8>>;

/// Handler of a `POST` route that waits for something. Returns the JSON of the response.
pub(crate) type SlowWrite = for<'a> fn(&'a Context, &'a PathParams, Bytes) -> BoxFuture<'a, Result<Vec<u8>>>;

/// Handler of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handler {
    /// `GET`, and `HEAD` without the body.
    Read(Read),
    /// As [`Read`](Self::Read), where the response depends on headers, such as `Accept`.
    Negotiated(fn(&Context, &HeaderMap) -> Result<Response<Body>>),
    /// As [`Read`](Self::Read), of a response that takes its time.
    SlowRead(SlowRead),
    /// `DELETE`, without a body.
    Remove(Read),
    /// `POST` of settings.
    Write(Input, Write),
    /// `POST` of settings that takes its time.
    SlowWrite(Input, SlowWrite),
    /// `POST` of an inference request. [`Operation::parse`] recognizes its path before the router.
    Inference(Operation),
}

/// The body that a `POST` handler receives, and what is checked before it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input {
    /// No body: it is left unread.
    Nothing,
    /// A small body, also while the server starts or drains.
    Settings,
    /// A small body, once this check has passed.
    SettingsIf(fn(&Context) -> Result<()>),
    /// A small body of a request that a drain waits for. Refused while the server starts or drains.
    Counted,
    /// As [`Input::Counted`], once this check has passed.
    CountedIf(fn(&Context) -> Result<()>),
    /// As [`Input::Counted`], of any length up to the limit on bodies: it may hold a model's files.
    Upload,
}

/// The decoded parameters of a path, by name.
#[derive(Debug, Default)]
pub(crate) struct PathParams(Vec<(&'static str, String)>);

impl PathParams {
    pub(crate) fn new(params: Vec<(&'static str, String)>) -> Self {
        Self(params)
    }

    /// A parameter, if the route has it.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|(known, value)| (*known == name).then_some(value.as_str()))
    }

    /// The `{model}` of a route that has one.
    pub(crate) fn model(&self) -> &str {
        self.get("model").unwrap_or_default()
    }

    /// Model, and version if the route has one, for the audit log; `None` on routes of the server.
    pub(crate) fn target(&self) -> Option<String> {
        let model = self.get("model")?;
        Some(self.version().map_or_else(|| model.to_owned(), |version| format!("{model}/{version}")))
    }

    /// The `{version}`; `None` on routes without one.
    pub(crate) fn version(&self) -> Option<&str> {
        self.get("version")
    }
}

impl Handler {
    /// The method that it answers.
    pub(crate) const fn method(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::Negotiated(_) | Self::SlowRead(_) => "get",
            Self::Remove(_) => "delete",
            Self::Write(..) | Self::SlowWrite(..) | Self::Inference(_) => "post",
        }
    }

    /// Reads the body and runs the handler.
    ///
    /// # Errors
    /// The handler's, and those of its [`Input`].
    pub(crate) async fn run<B: RequestBody>(
        self,
        context: &Context,
        params: &PathParams,
        (headers, body): (&HeaderMap, B),
    ) -> Result<Response<Body>> {
        let json = match self {
            Self::Read(handler) | Self::Remove(handler) => return handler(context, params),
            Self::Negotiated(handler) => return handler(context, headers),
            Self::SlowRead(handler) => return handler(context, headers).await,
            // The dispatcher answers inference requests before.
            Self::Inference(_) => return Ok(error::not_found(None)),
            Self::Write(input, handler) => {
                let (bytes, _guard) = input.receive(context, headers, body).await?;
                handler(context, params, &bytes)?
            }
            Self::SlowWrite(input, handler) => {
                let (bytes, _guard) = input.receive(context, headers, body).await?;
                handler(context, params, bytes).await?
            }
        };
        Ok(error::json(200, json))
    }
}

impl Input {
    /// Reads the body. A drain waits until the guard is dropped.
    async fn receive<B: RequestBody>(
        self,
        context: &Context,
        headers: &HeaderMap,
        body: B,
    ) -> Result<(Bytes, Option<crate::state::RequestGuard>)> {
        if let Self::SettingsIf(check) | Self::CountedIf(check) = self {
            check(context)?;
        }
        match self {
            Self::Nothing => Ok((Bytes::new(), None)),
            Self::Settings | Self::SettingsIf(_) => Ok((receive_small(context, headers, body).await?, None)),
            Self::Counted | Self::CountedIf(_) => {
                let guard = context.app.enter()?;
                Ok((receive_small(context, headers, body).await?, Some(guard)))
            }
            Self::Upload => {
                let mut guard = context.app.enter()?;
                let bytes = receive_whole(headers, body, &context.app.config.limits, guard.memory()).await?;
                guard.reserve_at_least(bytes.len() + footprint::of_json(&bytes))?;
                Ok((bytes, Some(guard)))
            }
        }
    }
}
