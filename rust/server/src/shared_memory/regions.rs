//! Table of the regions that clients have registered.

use super::region::Region;
use penstock_core::{Error, Kind, Result};
use penstock_wire::rest::shared_memory::Region as Described;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Most regions at once: each holds an open file.
const MAX_REGIONS: usize = 1024;

/// The longest name of a region in bytes.
const MAX_NAME_BYTES: usize = 256;

/// All regions of a server.
#[derive(Debug, Default)]
pub(crate) struct Regions(Mutex<BTreeMap<String, Arc<Region>>>);

impl Regions {
    /// Adds a region.
    ///
    /// # Errors
    /// `AlreadyExists` for a name in use, `Overloaded` at the limit, `InvalidInput` for an invalid
    /// name, key or range.
    pub(crate) fn register(&self, described: Described) -> Result<()> {
        let name = described.name.clone();
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(Error::invalid(format!(
                "a shared memory region's name has 1 to {MAX_NAME_BYTES} bytes, this one has {}",
                name.len()
            )));
        }
        self.check_free(&name, &self.lock())?;
        let region = Arc::new(Region::open(described)?);
        let mut regions = self.lock();
        self.check_free(&name, &regions)?;
        regions.insert(name, region);
        Ok(())
    }

    fn check_free(&self, name: &str, regions: &BTreeMap<String, Arc<Region>>) -> Result<()> {
        if regions.contains_key(name) {
            return Err(Error::new(
                Kind::AlreadyExists,
                format!("shared memory region '{name}' is registered already, unregister it first"),
            ));
        }
        if regions.len() >= MAX_REGIONS {
            return Err(Error::new(
                Kind::Overloaded,
                format!("{MAX_REGIONS} shared memory regions are registered, the limit"),
            ));
        }
        Ok(())
    }

    /// Removes a region, or all. Requests that hold one keep it.
    pub(crate) fn unregister(&self, name: Option<&str>) {
        let mut regions = self.lock();
        match name {
            Some(name) => drop(regions.remove(name)),
            None => regions.clear(),
        }
    }

    /// Returns the registered regions by name, or one of them.
    ///
    /// # Errors
    /// `NotFound` for a name that is not registered.
    pub(crate) fn status(&self, name: Option<&str>) -> Result<Vec<Described>> {
        match name {
            Some(name) => Ok(vec![self.find(name)?.described.clone()]),
            None => Ok(self.lock().values().map(|region| region.described.clone()).collect()),
        }
    }

    /// Finds a region by name.
    ///
    /// # Errors
    /// `NotFound` if it is not registered.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Region>> {
        self.lock().get(name).cloned().ok_or_else(|| {
            let shown: String = name.chars().take(MAX_NAME_BYTES).filter(|c| !c.is_control()).collect();
            Error::new(Kind::NotFound, format!("shared memory region '{shown}' is not registered"))
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Region>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
