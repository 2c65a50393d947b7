//! Repository index: the state of each version of each model.

use super::{Model, Readiness};
use std::{collections::BTreeMap, sync::Arc};

/// Status of a version that does not serve, or of a failed reload of one that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionStatus {
    /// The version is loading.
    pub loading: bool,
    /// Reason for not serving; public text.
    pub reason: String,
}

/// State of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionState {
    /// Accepts requests.
    Ready,
    /// Loads for the first time.
    Loading,
    /// Finishes its requests, and accepts no more.
    Unloading,
    /// Accepts no requests.
    Unavailable,
}

impl VersionState {
    /// Name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "READY",
            Self::Loading => "LOADING",
            Self::Unloading => "UNLOADING",
            Self::Unavailable => "UNAVAILABLE",
        }
    }
}

/// Entry of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Model.
    pub name: Arc<str>,
    /// Version and state; `None` for a model that was never loaded.
    pub version: Option<(Arc<str>, VersionState)>,
    /// Reason, mostly empty.
    pub reason: String,
}

/// Reason, in Triton's word, of a version that a client unloaded.
const UNLOADED: &str = "unloaded";

/// Statuses by version.
pub(crate) type Notes = BTreeMap<Arc<str>, VersionStatus>;

impl IndexEntry {
    /// Version, if there is one.
    pub fn version_text(&self) -> Option<&str> {
        self.version.as_ref().map(|(version, _)| &**version)
    }

    /// True if a client unloaded the version.
    pub fn is_unloaded(&self) -> bool {
        self.state() == Some(VersionState::Unavailable) && self.reason == UNLOADED
    }

    /// State; `None` for a model that was never loaded.
    pub fn state(&self) -> Option<VersionState> {
        self.version.as_ref().map(|(_, state)| *state)
    }
}

/// Builds the index from the models in the table and the versions that are draining.
pub(crate) fn index<'a>(
    models: impl Iterator<Item = (&'a Arc<str>, &'a [Arc<Model>], &'a Notes)>,
    leaving: impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)>,
) -> Vec<IndexEntry> {
    let mut found = Vec::new();
    // A name with a colon is an explainer, which is part of its model.
    models
        .filter(|(name, ..)| !name.contains(':'))
        .for_each(|(name, serving, notes)| rows(name, serving, notes, &mut found));
    for (name, version) in leaving.filter(|(name, _)| !name.contains(':')) {
        let version = Some((Arc::clone(version), VersionState::Unloading));
        let row = IndexEntry { name: Arc::clone(name), version, reason: String::new() };
        let same = |known: &IndexEntry| known.name == row.name && known.version_text() == row.version_text();
        match found.iter_mut().find(|known| same(known)) {
            // An unloaded version that still has requests.
            Some(known) if known.state() == Some(VersionState::Unavailable) => *known = row,
            // A newer instance of this version serves or loads.
            Some(_) => {}
            None => found.push(row),
        }
    }
    let key = |row: &IndexEntry| row.version_text().map(str::to_owned).unwrap_or_default();
    found.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| version_key(&key(a)).cmp(&version_key(&key(b)))));
    found
}

fn rows(name: &Arc<str>, serving: &[Arc<Model>], notes: &Notes, rows: &mut Vec<IndexEntry>) {
    let mut row = |version, reason: &str| {
        rows.push(IndexEntry { name: Arc::clone(name), version, reason: reason.to_owned() });
    };
    if serving.is_empty() && notes.is_empty() {
        row(None, "");
    }
    for model in serving {
        let version = &model.spec().version;
        let state = match model.readiness() {
            Readiness::Ready => VersionState::Ready,
            Readiness::Loading => VersionState::Loading,
            Readiness::Unavailable => VersionState::Unavailable,
        };
        let refusal = model.refusal();
        let noted = notes.get(version).map_or("", |note| &note.reason);
        row(Some((Arc::clone(version), state)), refusal.as_deref().filter(|why| !why.is_empty()).unwrap_or(noted));
    }
    let serves = |version: &str| serving.iter().any(|model| &*model.spec().version == version);
    for (version, note) in notes.iter().filter(|(version, _)| !serves(version)) {
        let state = if note.loading { VersionState::Loading } else { VersionState::Unavailable };
        row(Some((Arc::clone(version), state)), &note.reason);
    }
}

/// Sort key of versions: numbers by value, before other texts.
pub(crate) fn version_key(version: &str) -> (bool, u64, &str) {
    match version.parse() {
        Ok(number) => (false, number, ""),
        Err(_) => (true, 0, version),
    }
}
