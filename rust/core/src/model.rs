//! A served model: its declaration, queue, metrics and readiness; and the table of all of them.

use crate::{
    Changes, Desk, Error, InferRequest, InferResponse, Kind, ModelSpec, Pieces, Result,
    batch::gather::{concatenate_outputs, split},
    metrics::{Metrics, ModelMetrics},
    queue::Queue,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU8, Ordering},
    },
};

/// Whether a model takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Its instances are being built.
    Loading,
    /// It takes requests.
    Ready,
    /// It does not, and will not by itself.
    Unavailable,
}

/// One version of a model.
#[derive(Debug)]
pub struct Model {
    spec: Arc<ModelSpec>,
    queue: Arc<Queue>,
    readiness: AtomicU8,
    /// Those of the table that it is in.
    changes: OnceLock<Arc<Changes>>,
}

impl Model {
    /// A model that is not ready yet.
    pub fn new(spec: ModelSpec, metrics: &Metrics) -> Self {
        let spec = Arc::new(spec);
        let metrics = Arc::new(metrics.model(&spec));
        let queue = Arc::new(Queue::new(Arc::clone(&spec), metrics));
        Self { spec, queue, readiness: AtomicU8::new(Readiness::Loading as u8), changes: OnceLock::new() }
    }

    /// Its declaration.
    pub fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    /// Where its instances pull their batches from.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Its metrics.
    pub fn metrics(&self) -> &Arc<ModelMetrics> {
        self.queue.metrics()
    }

    /// Whether it takes requests.
    pub fn readiness(&self) -> Readiness {
        match self.readiness.load(Ordering::Acquire) {
            0 => Readiness::Loading,
            1 => Readiness::Ready,
            _ => Readiness::Unavailable,
        }
    }

    /// Changes whether it takes requests.
    pub fn set_readiness(&self, readiness: Readiness) {
        self.readiness.store(readiness as u8, Ordering::Release);
        if let Some(changes) = self.changes.get() {
            changes.tell();
        }
    }

    /// Refuses early what cannot be served: called before a body is read.
    ///
    /// # Errors
    /// `Unavailable` if the model is not ready, `Overloaded` if its queue is full.
    pub fn admit(&self) -> Result<()> {
        if self.readiness() != Readiness::Ready {
            return Err(Error::new(Kind::Unavailable, format!("model '{}' is not ready", self.spec.name))
                .retry_after(std::time::Duration::from_secs(1)));
        }
        if self.queue.is_full() {
            return Err(self.queue.refusal());
        }
        Ok(())
    }

    /// Refuses a call that can carry one answer only, if the model gives any number of them.
    ///
    /// # Errors
    /// `Unsupported`, with what to call instead.
    pub fn check_answers_once(&self) -> Result<()> {
        if self.spec.streams {
            return Err(Error::new(
                Kind::Unsupported,
                format!(
                    "model '{}' streams its answers: call generate_stream or infer_stream, or ModelStreamInfer over gRPC",
                    self.spec.name
                ),
            ));
        }
        Ok(())
    }

    /// Computes any number of answers, for models that stream. Dropping the pieces abandons the request.
    ///
    /// # Errors
    /// `InvalidInput` for more rows than a batch holds; else what the queue answers.
    pub fn stream(&self, request: InferRequest, desk: Option<&Desk>) -> Result<Pieces> {
        let max_rows = self.spec.max_batch_size();
        if max_rows > 0 && request.rows > max_rows {
            return Err(Error::invalid(format!(
                "the request has a batch of {} rows, model '{}' streams at most {max_rows}",
                request.rows, self.spec.name
            )));
        }
        self.queue.submit_stream(request, desk)
    }

    /// Computes an answer. Dropping the future abandons the request.
    ///
    /// # Errors
    /// What the queue, the batch or the handler answered.
    pub async fn infer(&self, request: InferRequest, desk: Option<&Desk>) -> Result<InferResponse> {
        self.check_answers_once()?;
        let max_rows = self.spec.max_batch_size();
        // A step of a sequence is never parted; the queue says that it has too many rows.
        if max_rows == 0 || request.rows <= max_rows || self.spec.sequences.is_some() {
            return self.queue.submit(request, desk)?.await;
        }
        let batches = request.rows.div_ceil(max_rows);
        if batches > self.spec.max_queue {
            let most = self.spec.max_queue.saturating_mul(max_rows);
            return Err(Error::invalid(format!(
                "the request has a batch of {} rows, model '{}' accepts at most {most}",
                request.rows, self.spec.name
            )));
        }
        let InferRequest { inputs, rows, caller, deadline, protocol, schedule } = request;
        let tickets = split(inputs, rows, max_rows)
            .into_iter()
            .map(|(inputs, rows)| {
                let (caller, schedule) = (caller.clone(), schedule.clone());
                let part = InferRequest { inputs, rows, caller, deadline, protocol, schedule };
                self.queue.submit(part, desk)
            })
            .collect::<Result<Vec<_>>>()?;
        let mut answer: Option<InferResponse> = None;
        let mut outputs = Vec::with_capacity(tickets.len());
        for ticket in tickets {
            let mut part = ticket.await?;
            outputs.push(std::mem::take(&mut part.outputs));
            answer.get_or_insert(part);
        }
        self.metrics().statistics.were_one(batches);
        let mut answer = answer.ok_or_else(|| Error::new(Kind::Internal, "a split request has no parts"))?;
        answer.outputs = concatenate_outputs(outputs)?;
        Ok(answer)
    }
}

/// All served models, by name and version.
#[derive(Debug, Default)]
pub struct Registry {
    models: RwLock<BTreeMap<Arc<str>, Vec<Arc<Model>>>>,
    changes: Arc<Changes>,
}

impl Registry {
    /// Adds a version of a model. Versions are kept in ascending order, numbers by value.
    ///
    /// # Errors
    /// `InvalidInput` if that version is there already.
    pub fn insert(&self, model: Arc<Model>) -> Result<()> {
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        let versions = models.entry(Arc::clone(&model.spec.name)).or_default();
        if versions.iter().any(|known| known.spec.version == model.spec.version) {
            return Err(Error::invalid(format!(
                "model '{}' version '{}' is given twice",
                model.spec.name, model.spec.version
            )));
        }
        // A model is in one table only; were it in two, the first would be told.
        let _ = model.changes.set(Arc::clone(&self.changes));
        versions.push(model);
        versions.sort_by(|a, b| version_key(&a.spec.version).cmp(&version_key(&b.spec.version)));
        drop(models);
        self.changes.tell();
        Ok(())
    }

    /// A model by name, and by version or else its highest ready one.
    ///
    /// # Errors
    /// `NotFound` that names the model or version.
    pub fn find(&self, name: &str, version: Option<&str>) -> Result<Arc<Model>> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let versions = models
            .get(name)
            .ok_or_else(|| Error::new(Kind::NotFound, format!("unknown model '{}'", printable(name))))?;
        let found = match version {
            Some(version) => versions.iter().find(|model| &*model.spec.version == version),
            None => {
                versions.iter().rev().find(|model| model.readiness() == Readiness::Ready).or_else(|| versions.last())
            }
        };
        found.cloned().ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                format!("model '{name}' has no version '{}'", printable(version.unwrap_or_default())),
            )
        })
    }

    /// The named version of a model, or else all of its versions.
    ///
    /// # Errors
    /// `NotFound` that names the model or version.
    pub fn select(&self, name: &str, version: Option<&str>) -> Result<Vec<Arc<Model>>> {
        let found = self.find(name, version)?;
        Ok(if version.is_some() { vec![found] } else { self.versions(name) })
    }

    /// Who is told of each change.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The versions of a model in ascending order; empty if it is unknown.
    pub fn versions(&self, name: &str) -> Vec<Arc<Model>> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        models.get(name).cloned().unwrap_or_default()
    }

    /// The versions of a model that take requests, in ascending order.
    pub fn ready_versions(&self, name: &str) -> Vec<Arc<str>> {
        let versions = self.versions(name);
        let ready = versions.iter().filter(|model| model.readiness() == Readiness::Ready);
        ready.map(|model| Arc::clone(&model.spec.version)).collect()
    }

    /// Every version of every model.
    pub fn all(&self) -> Vec<Arc<Model>> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        models.values().flatten().cloned().collect()
    }
}

/// Numbers by value and before other texts, so that "10" comes after "9".
fn version_key(version: &str) -> (bool, u64, &str) {
    match version.parse() {
        Ok(number) => (false, number, ""),
        Err(_) => (true, 0, version),
    }
}

/// A client's text in a message: short, and without control characters.
fn printable(text: &str) -> String {
    text.chars().take(128).map(|c| if c.is_control() { '?' } else { c }).collect()
}
