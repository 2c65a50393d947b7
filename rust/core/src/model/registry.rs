//! Model table: versions that serve, versions that drain, and the status of others.

use super::{
    Changes, Dialect, IndexEntry, Model, Readiness, VersionStatus,
    dialect::printable,
    index::{self, version_key},
    routes,
};
use crate::{Error, Kind, Result, queue::Queue};
use std::time::Duration;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

/// All models, by name and version.
///
/// The table and running requests own the [`Model`]s. A model that was removed from the table finishes these requests,
/// and ends with the last one.
#[derive(Debug, Default)]
pub struct Registry {
    table: RwLock<Table>,
    /// A serving model has routes.
    pub(super) routed: AtomicBool,
    /// One of these routes is a V2 inference path.
    pub(super) infers: AtomicBool,
    changes: Arc<Changes>,
    dialect: Dialect,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) models: BTreeMap<Arc<str>, Entry>,
    leaving: Vec<Leaving>,
    pub(super) routes: routes::Routes,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Ascending versions.
    pub(super) serving: Vec<Arc<Model>>,
    /// Statuses by version, in addition to or in place of serving.
    notes: BTreeMap<Arc<str>, VersionStatus>,
}

/// A removed version. Its instances own the queue until they end.
#[derive(Debug)]
pub(super) struct Leaving {
    name: Arc<str>,
    version: Arc<str>,
    queue: Weak<Queue>,
}

impl Registry {
    /// An empty table, whose errors are in a dialect.
    #[must_use]
    pub fn with_dialect(dialect: Dialect) -> Self {
        Self { dialect, ..Self::default() }
    }

    /// Adds a version of a model. Versions ascend, numbers by value.
    ///
    /// # Errors
    /// `InvalidInput`: the version exists, or another model has one of its routes.
    pub fn insert(&self, model: Arc<Model>) -> Result<()> {
        let spec = Arc::clone(model.spec());
        let mut table = self.write();
        table.check_routes(&spec)?;
        let serving = &mut table.models.entry(Arc::clone(&spec.name)).or_default().serving;
        if serving.iter().any(|known| known.spec().version == spec.version) {
            return Err(Error::invalid(format!("model '{}' version '{}' is given twice", spec.name, spec.version)));
        }
        self.adopt(&model);
        serving.push(Arc::clone(&model));
        sort(serving);
        if !spec.routes.is_empty() {
            table.add_routes(&model);
            self.routed.store(true, Ordering::Relaxed);
            self.infers.fetch_or(routes::infers(&spec), Ordering::Relaxed);
        }
        drop(table);
        self.changes.notify();
        Ok(())
    }

    /// Replaces the versions of `name` by `models` in one step, except those that `keep` names.
    /// The others drain: they finish their requests, and end.
    pub fn swap(&self, name: &str, models: Vec<Arc<Model>>, keep: &[String]) {
        let mut table = self.write();
        let entry = table.models.entry(name.into()).or_default();
        models.iter().for_each(|model| self.adopt(model));
        let (kept, left): (Vec<_>, Vec<_>) = std::mem::take(&mut entry.serving).into_iter().partition(|model| {
            let version = &model.spec().version;
            keep.iter().any(|kept| **kept == **version) && !models.iter().any(|new| new.spec().version == *version)
        });
        entry.serving = kept;
        entry.serving.extend(models);
        sort(&mut entry.serving);
        let changes_routes = left.iter().chain(&entry.serving).any(|model| !model.spec().routes.is_empty());
        for model in &left {
            let same = entry.serving.iter().find(|new| new.spec().version == model.spec().version);
            if let Some(successor) = same.or_else(|| entry.serving.last()) {
                successor.take_over(model);
            }
        }
        table.leaving.retain(|leaving| leaving.queue.strong_count() > 0);
        table.leaving.extend(left.iter().map(|model| Leaving {
            name: Arc::clone(&model.spec().name),
            version: Arc::clone(&model.spec().version),
            queue: Arc::downgrade(model.queue()),
        }));
        if changes_routes {
            let (any, infers) = table.rebuild_routes();
            self.routed.store(any, Ordering::Relaxed);
            self.infers.store(infers, Ordering::Relaxed);
        }
        drop(table);
        self.changes.notify();
        // Unused models are dropped here, without the lock.
        drop(left);
    }

    /// Sets the statuses of a model's versions.
    pub fn set_statuses(&self, name: &str, notes: impl IntoIterator<Item = (String, VersionStatus)>) {
        let notes = notes.into_iter().map(|(version, note)| (version.into(), note)).collect();
        self.write().models.entry(name.into()).or_default().notes = notes;
        self.changes.notify();
    }

    /// Removes the statuses of a model, and the model if no version serves.
    pub fn forget(&self, name: &str) {
        let mut table = self.write();
        if let Some(entry) = table.models.get_mut(name) {
            entry.notes.clear();
            if entry.serving.is_empty() {
                table.models.remove(name);
            }
        }
        drop(table);
        self.changes.notify();
    }

    /// The error for a model that is not known.
    pub fn unknown(&self, name: &str) -> Error {
        self.dialect.unknown(name)
    }

    /// Finds a version of a model; without a version the highest ready one.
    ///
    /// # Errors
    /// `NotFound`: unknown model or version. `Unavailable`: known, but not serving.
    pub fn find(&self, name: &str, version: Option<&str>) -> Result<Arc<Model>> {
        let table = self.read();
        let Some(entry) = table.models.get(name) else {
            return Err(self.dialect.unknown(name));
        };
        let found = match version {
            Some(version) => entry.serving.iter().find(|model| &*model.spec().version == version),
            None => {
                let ready = entry.serving.iter().rev().find(|model| model.readiness() == Readiness::Ready);
                ready.or_else(|| entry.serving.last())
            }
        };
        found.cloned().ok_or_else(|| entry.missing(name, version))
    }

    /// Finds a version of a model. In a permissive dialect, a raw-request model answers for versions that it lacks.
    ///
    /// # Errors
    /// As [`Registry::find`].
    pub fn find_permissively(&self, name: &str, version: Option<&str>) -> Result<Arc<Model>> {
        let found = self.find(name, version);
        if found.is_err() && version.is_some() && self.dialect.is_permissive() {
            return self.find(name, None).ok().filter(|model| model.spec().raw_requests).map_or(found, Ok);
        }
        found
    }

    /// Reason for which a model or version is not ready; `None` if it is.
    ///
    /// # Errors
    /// `NotFound`: unknown model or version.
    pub fn not_ready_reason(&self, name: &str, version: Option<&str>) -> Result<Option<String>> {
        Self::reason(self.find(name, version))
    }

    /// Reason for which the result of a search is not ready; `None` if it is.
    ///
    /// # Errors
    /// `NotFound`: unknown model or version.
    pub fn reason(found: Result<Arc<Model>>) -> Result<Option<String>> {
        match found {
            Ok(model) => Ok(match model.readiness() {
                Readiness::Ready => None,
                Readiness::Loading => Some("the model is loading".to_owned()),
                Readiness::Unavailable => {
                    let told = model.refusal().filter(|why| !why.is_empty());
                    Some(told.as_deref().unwrap_or("the model is not available").to_owned())
                }
            }),
            Err(error) if error.kind() == Kind::Unavailable => Ok(Some(error.message().to_owned())),
            Err(error) => Err(error),
        }
    }

    /// Sets or clears a reason to refuse requests, for one version or for all.
    ///
    /// # Errors
    /// As [`Registry::find`].
    pub fn set_refusal(&self, name: &str, version: Option<&str>, reason: Option<&str>) -> Result<()> {
        self.select(name, version)?.iter().for_each(|model| model.set_refusal(reason));
        Ok(())
    }

    /// One version of a model, or all.
    ///
    /// # Errors
    /// As [`Registry::find`].
    pub fn select(&self, name: &str, version: Option<&str>) -> Result<Vec<Arc<Model>>> {
        let found = self.find(name, version)?;
        Ok(if version.is_some() { vec![found] } else { self.versions(name) })
    }

    /// Listeners for changes.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Versions of a model, ascending; empty if it is unknown.
    pub fn versions(&self, name: &str) -> Vec<Arc<Model>> {
        self.read().models.get(name).map(|entry| entry.serving.clone()).unwrap_or_default()
    }

    /// Ready versions of a model, ascending.
    pub fn ready_versions(&self, name: &str) -> Vec<Arc<str>> {
        let versions = self.versions(name);
        let ready = versions.iter().filter(|model| model.readiness() == Readiness::Ready);
        ready.map(|model| Arc::clone(&model.spec().version)).collect()
    }

    /// All versions of all models.
    pub fn all(&self) -> Vec<Arc<Model>> {
        self.read().models.values().flat_map(|entry| &entry.serving).cloned().collect()
    }

    /// Drops replaced versions whose sequences are over.
    pub fn drop_drained(&self) {
        self.all().iter().for_each(|model| model.drop_drained());
    }

    /// Queues of removed versions that have not ended yet.
    pub fn draining_queues(&self) -> Vec<Arc<Queue>> {
        self.read().leaving.iter().filter_map(|leaving| leaving.queue.upgrade()).collect()
    }

    /// Repository index, by name and version.
    pub fn index(&self) -> Vec<IndexEntry> {
        let table = self.read();
        let serving = table.models.iter().map(|(name, entry)| (name, &*entry.serving, &entry.notes));
        let leaving = table.leaving.iter().filter(|leaving| leaving.queue.strong_count() > 0);
        index::index(serving, leaving.map(|leaving| (&leaving.name, &leaving.version)))
    }

    fn adopt(&self, model: &Model) {
        model.set_table(Arc::clone(&self.changes), self.dialect);
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Error for a version, or for any version, that does not serve.
    fn missing(&self, name: &str, version: Option<&str>) -> Error {
        let unavailable = |text: String| Error::new(Kind::Unavailable, text).retry_after(Duration::from_secs(1));
        let is_loading = |note: Option<&VersionStatus>| note.is_some_and(|note| note.loading);
        match version {
            Some(version) => match self.notes.get(version) {
                note if is_loading(note) => unavailable(format!("model '{name}' version '{version}' is loading")),
                Some(_) => unavailable(format!("model '{name}' version '{version}' is not loaded")),
                None => Error::new(Kind::NotFound, format!("model '{name}' has no version '{}'", printable(version))),
            },
            None if self.notes.values().any(|note| note.loading) => unavailable(format!("model '{name}' is loading")),
            None => unavailable(format!("model '{name}' is not loaded")),
        }
    }
}

fn sort(models: &mut [Arc<Model>]) {
    models.sort_by(|a, b| version_key(&a.spec().version).cmp(&version_key(&b.spec().version)));
}
