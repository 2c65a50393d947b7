//! The index: every version of every model, and where it is in its life.

use super::{Model, Readiness};
use std::{collections::BTreeMap, sync::Arc};

/// What is known of a version that does not serve, or why the newest form of one that does was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionStatus {
    /// Whether it is being loaded now.
    pub loading: bool,
    /// Why it does not serve; public text.
    pub reason: String,
}

/// Where a version is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionState {
    /// It takes requests.
    Ready,
    /// It is being loaded for the first time.
    Loading,
    /// It takes no more requests; those it has finish.
    Unloading,
    /// It takes no requests.
    Unavailable,
}

impl VersionState {
    /// The protocol's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "READY",
            Self::Loading => "LOADING",
            Self::Unloading => "UNLOADING",
            Self::Unavailable => "UNAVAILABLE",
        }
    }
}

/// A row of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The model.
    pub name: Arc<str>,
    /// The version and its state; `None` for a model that was never loaded.
    pub version: Option<(Arc<str>, VersionState)>,
    /// What is to be said of it; mostly empty.
    pub reason: String,
}

/// What is known of a model's versions.
pub(crate) type Notes = BTreeMap<Arc<str>, VersionStatus>;

impl IndexEntry {
    /// The version, if it has one.
    pub fn version_text(&self) -> Option<&str> {
        self.version.as_ref().map(|(version, _)| &**version)
    }

    /// Its state; `None` for a model that was never loaded.
    pub fn state(&self) -> Option<VersionState> {
        self.version.as_ref().map(|(_, state)| *state)
    }
}

/// The rows of models with what serves and what is known of them, and of versions that are on their way out.
pub(crate) fn index<'a>(
    models: impl Iterator<Item = (&'a Arc<str>, &'a [Arc<Model>], &'a Notes)>,
    leaving: impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>)>,
) -> Vec<IndexEntry> {
    let mut found = Vec::new();
    // An explainer, whose name has a colon, is its model's.
    models
        .filter(|(name, ..)| !name.contains(':'))
        .for_each(|(name, serving, notes)| rows(name, serving, notes, &mut found));
    for (name, version) in leaving.filter(|(name, _)| !name.contains(':')) {
        let version = Some((Arc::clone(version), VersionState::Unloading));
        let row = IndexEntry { name: Arc::clone(name), version, reason: String::new() };
        let same = |known: &IndexEntry| known.name == row.name && known.version_text() == row.version_text();
        match found.iter_mut().find(|known| same(known)) {
            // What was unloaded still finishes what it has.
            Some(known) if known.state() == Some(VersionState::Unavailable) => *known = row,
            // A later form of it serves or loads.
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

/// Numbers by value and before other texts, so that "10" comes after "9".
pub(crate) fn version_key(version: &str) -> (bool, u64, &str) {
    match version.parse() {
        Ok(number) => (false, number, ""),
        Err(_) => (true, 0, version),
    }
}
