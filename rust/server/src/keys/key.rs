//! A key: the name of its client, and what the client may do.

use super::{
    address_limits::AddressLimits,
    limits::{ClientLimits, ClientSlot},
};
use crate::settings::{Categories, Category};
use chrono::{DateTime, Utc};
use penstock_core::{ClientIdentity, Error, Kind, ModelPatterns, metrics::DeniedReason};
use std::{sync::Arc, time::SystemTime};

/// Text for a request without a key.
const NEEDED: &str = "a key is needed: send it as 'authorization: Bearer KEY' or 'x-api-key: KEY'";

/// A refusal of a client.
#[derive(Debug)]
pub(crate) struct Denied {
    pub(crate) reason: DeniedReason,
    pub(crate) error: Error,
}

/// Rights of the client of a key.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// `None` for clients without a key.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) scopes: Categories,
    /// Models that it may use; `None` for all.
    pub(crate) models: Option<Arc<ModelPatterns>>,
    /// The time from which it is not valid.
    pub(crate) expires: Option<DateTime<Utc>>,
    pub(crate) limits: Limits,
}

/// Limits on inference requests.
#[derive(Clone, Debug, Default)]
pub(crate) enum Limits {
    #[default]
    None,
    /// Of the key.
    Key(Arc<ClientLimits>),
    /// Of each address without a key.
    Addresses(Arc<AddressLimits>),
}

impl Key {
    /// A key with all scopes that does not expire.
    pub(crate) fn unlimited(name: &str) -> Self {
        Self { name: Some(name.into()), scopes: Categories::ALL, models: None, expires: None, limits: Limits::None }
    }

    /// Rights of clients without a key where nothing else is configured: probes have no key.
    pub(crate) fn anonymous_by_default() -> Self {
        Self {
            name: None,
            scopes: Categories::of([Category::Health]),
            models: None,
            expires: None,
            limits: Limits::None,
        }
    }

    /// Checks that it has not expired.
    ///
    /// # Errors
    /// `Unauthenticated` with the date.
    pub(crate) fn check_expiry(&self) -> Result<(), Denied> {
        // The clock is read for keys that expire only.
        match self.expires.filter(|expires| DateTime::<Utc>::from(SystemTime::now()) >= *expires) {
            None => Ok(()),
            Some(expires) => {
                let text = format!("this key expired on {}", expires.date_naive());
                Err(Denied::new(DeniedReason::Expired, Error::new(Kind::Unauthenticated, text)))
            }
        }
    }

    /// Checks that it may use the routes of a category.
    ///
    /// # Errors
    /// `Forbidden`; without a key `Unauthenticated`.
    pub(crate) fn check_scope(&self, category: Category) -> Result<(), Denied> {
        match &self.name {
            _ if self.scopes.contain(category) => Ok(()),
            None => Err(Denied::missing()),
            Some(name) => {
                let text = format!("key '{name}' may not use {}", category.name());
                Err(Denied::new(DeniedReason::Scope, Error::new(Kind::Forbidden, text)))
            }
        }
    }

    /// Admits an inference request.
    ///
    /// # Errors
    /// `Throttled` beyond its limits.
    pub(crate) fn enter(&self, client: &ClientIdentity) -> Result<Option<ClientSlot>, Denied> {
        match &self.limits {
            Limits::None => Ok(None),
            Limits::Key(limits) => {
                limits.enter(&format!("key '{}'", self.name.as_deref().unwrap_or_default())).map(Some)
            }
            // Programs of this machine on a Unix socket have no address, and no limit.
            Limits::Addresses(limits) => client.address.map(|address| limits.enter(address)).transpose(),
        }
    }

    /// Takes over the use of the same limits before a reload.
    pub(super) fn take_over(&mut self, before: &Self) {
        let is_same = match (&self.limits, &before.limits) {
            (Limits::Key(one), Limits::Key(other)) => one.is_like(other),
            (Limits::Addresses(one), Limits::Addresses(other)) => one.is_like(other),
            _ => false,
        };
        if is_same {
            self.limits = before.limits.clone();
        }
    }

    /// Checks that it may see all models, for routes whose response is about all of them.
    ///
    /// # Errors
    /// As [`Key::check_scope`].
    pub(crate) fn check_all_models(&self) -> Result<(), Denied> {
        match (&self.models, &self.name) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(Denied::missing()),
            (Some(_), Some(name)) => {
                let text = format!("key '{name}' may not use this route, which shows all models");
                Err(Denied::new(DeniedReason::Model, Error::new(Kind::Forbidden, text)))
            }
        }
    }
}

impl Denied {
    pub(crate) const fn new(reason: DeniedReason, error: Error) -> Self {
        Self { reason, error }
    }

    fn missing() -> Self {
        Self::new(DeniedReason::Missing, Error::new(Kind::Unauthenticated, NEEDED))
    }
}
