//! Responses of a process, on the server's side: mapped for reading, and released when they were sent.

use crate::{
    codec::{
        response::{Response, ResponseMessage},
        tensors::TensorEntry,
    },
    transport::{
        frame::{Frame, MAX_SLOTS, NEW_REGION},
        region::{Region, aligned},
    },
};
use bytes::Bytes;
use penstock_core::metrics::MetricUpdate;
use std::{
    ops::Range,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Below this size a copy costs less than to retain the region until all is sent.
const COPY_BELOW: usize = 64 << 10;

/// With so many regions retained for slow clients, large responses are copied too.
const MAX_RETAINED: usize = MAX_SLOTS / 2;

/// The regions of a process's responses, by slot.
#[derive(Debug, Default)]
pub(crate) struct ResponseRegions {
    regions: Vec<Option<Arc<Region>>>,
    freed: Arc<FreedSlots>,
}

/// The slots whose last byte was sent, until the process knows.
#[derive(Debug, Default)]
struct FreedSlots {
    slots: Mutex<Vec<u32>>,
    retained: AtomicUsize,
}

/// A slot whose response is being sent from its region.
#[derive(Debug)]
struct RetainedSlot {
    slot: u32,
    region: Arc<Region>,
    freed: Arc<FreedSlots>,
}

/// A range of a retained slot.
struct RetainedRange {
    retained: Arc<RetainedSlot>,
    range: Range<usize>,
}

impl Drop for RetainedSlot {
    fn drop(&mut self) {
        self.freed.retained.fetch_sub(1, Ordering::Relaxed);
        self.freed.add(self.slot);
    }
}

impl AsRef<[u8]> for RetainedRange {
    fn as_ref(&self) -> &[u8] {
        self.retained.region.bytes(self.range.clone()).unwrap_or_default()
    }
}

impl FreedSlots {
    fn add(&self, slot: u32) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }
}

impl ResponseRegions {
    /// Reads the response of a frame; `None` for one that breaks the protocol.
    pub(crate) fn read(&mut self, frame: &Frame, descriptor: Option<OwnedFd>) -> Option<(Response, Vec<MetricUpdate>)> {
        let region = self.region(frame, descriptor)?;
        let len = usize::try_from(frame.length).ok()?;
        // Copied first: the process could change bytes that were already checked.
        let description = region.copied(0..len)?;
        let message = ResponseMessage::decode(&description)?;
        let start = aligned(len);
        let retains = || self.freed.retained.load(Ordering::Relaxed) < MAX_RETAINED;
        if region.len() < COPY_BELOW + start || !retains() || message.tensors_len() < COPY_BELOW {
            let copy =
                |entries: Vec<TensorEntry>| entries.into_iter().map(|entry| entry.copy(&region, start)).collect();
            let response = message.response(&copy);
            self.freed.add(frame.region);
            return response;
        }
        self.freed.retained.fetch_add(1, Ordering::Relaxed);
        let retained = Arc::new(RetainedSlot { slot: frame.region, region, freed: Arc::clone(&self.freed) });
        let view = |entry: TensorEntry| {
            entry.view(start, |range| {
                retained.region.bytes(range.clone())?;
                Some(Bytes::from_owner(RetainedRange { retained: Arc::clone(&retained), range }))
            })
        };
        message.response(&|entries| entries.into_iter().map(view).collect())
    }

    /// The description of a frame that is not a response.
    pub(crate) fn description(&mut self, frame: &Frame, descriptor: Option<OwnedFd>) -> Option<Vec<u8>> {
        let region = self.region(frame, descriptor)?;
        self.freed.add(frame.region);
        region.copied(0..usize::try_from(frame.length).ok()?)
    }

    fn region(&mut self, frame: &Frame, descriptor: Option<OwnedFd>) -> Option<Arc<Region>> {
        let slot = usize::try_from(frame.region).ok().filter(|&slot| slot < MAX_SLOTS)?;
        if frame.has(NEW_REGION) {
            let region = Region::adopt(&descriptor?, false).ok()?;
            if self.regions.len() <= slot {
                self.regions.resize(slot + 1, None);
            }
            self.regions[slot] = Some(Arc::new(region));
        }
        self.regions.get(slot)?.clone()
    }

    /// Takes the slots that became free since the last call.
    pub(crate) fn take_freed(&self) -> Vec<u32> {
        std::mem::take(&mut self.freed.slots.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
