//! Table of keys, by what clients prove who they are with.

use super::key::{Key, Limits};
use crate::settings::Categories;
use penstock_core::ClientCertificate;
use ring::digest::{SHA256, digest};
use std::{collections::HashMap, sync::Arc};

/// The keys of one reading of the file.
#[derive(Debug)]
pub(super) struct KeyTable {
    /// By the SHA-256 of the key. The time of a lookup reveals nothing: a client cannot approach a digest.
    pub(super) by_digest: HashMap<[u8; 32], Arc<Key>>,
    /// By a URI, DNS name or subject of a client certificate.
    pub(super) by_subject: HashMap<String, Arc<Key>>,
    /// Rights of clients without a key.
    pub(super) anonymous: Arc<Key>,
}

impl Default for KeyTable {
    fn default() -> Self {
        let anonymous =
            Key { name: None, scopes: Categories::default(), models: None, expires: None, limits: Limits::None };
        Self { by_digest: HashMap::new(), by_subject: HashMap::new(), anonymous: Arc::new(anonymous) }
    }
}

impl KeyTable {
    /// Adds a key with all scopes.
    pub(super) fn add_unlimited(&mut self, name: &str, key: &str) {
        self.by_digest.insert(sha256(key.as_bytes()), Arc::new(Key::unlimited(name)));
    }

    /// Takes over the use of limits from the table before a reload.
    pub(super) fn take_over(&mut self, before: &Self) {
        let old: HashMap<_, _> = before.keys().filter_map(|key| Some((key.name.clone()?, key))).collect();
        for key in self.by_digest.values_mut().chain(self.by_subject.values_mut()) {
            if let Some(before) = key.name.as_ref().and_then(|name| old.get(name)) {
                Arc::make_mut(key).take_over(before);
            }
        }
        Arc::make_mut(&mut self.anonymous).take_over(&before.anonymous);
    }

    fn keys(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.by_digest.values().chain(self.by_subject.values())
    }

    /// Finds the entry of a key.
    pub(super) fn find(&self, key: &[u8]) -> Option<&Arc<Key>> {
        self.by_digest.get(&sha256(key))
    }

    /// Finds the entry of a certificate: by a URI, a DNS name, or the subject.
    pub(super) fn find_certificate(&self, certificate: &ClientCertificate) -> Option<&Arc<Key>> {
        let names = certificate.uris.iter().chain(&certificate.dns).chain([&certificate.subject]);
        names.into_iter().find_map(|name| self.by_subject.get(name))
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}
