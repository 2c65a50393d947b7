//! A process's answers, on the server's side: mapped for reading, and given back when they were sent.

use crate::{
    codec::{
        response::{Outputs, PlacedOutputs, Response, unpack},
        tensors::Placed,
    },
    transport::{
        frame::{Frame, MAX_SLOTS, NEW},
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

/// Below this size a copy is cheaper than to keep the region until all is sent.
const COPIED_BELOW: usize = 64 << 10;

/// With so many regions on their way to slow callers, large answers are copied too.
const MAX_PINNED: usize = MAX_SLOTS / 2;

/// The regions in which a process answers.
#[derive(Debug, Default)]
pub(crate) struct ResponseRegions {
    regions: Vec<Option<Arc<Region>>>,
    returned: Arc<Returned>,
}

/// Slots whose last byte was sent, until the process is told so.
#[derive(Debug, Default)]
struct Returned {
    slots: Mutex<Vec<u32>>,
    held: AtomicUsize,
}

/// A slot that answers are being sent from.
#[derive(Debug)]
struct Held {
    slot: u32,
    region: Arc<Region>,
    returned: Arc<Returned>,
}

/// A part of it.
struct Part {
    held: Arc<Held>,
    range: Range<usize>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.returned.held.fetch_sub(1, Ordering::Relaxed);
        self.returned.add(self.slot);
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self.held.region.bytes(self.range.clone()).unwrap_or_default()
    }
}

impl Returned {
    fn add(&self, slot: u32) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }
}

impl ResponseRegions {
    /// Reads the answer that a frame speaks of; `None` for one that is not as it must be.
    pub(crate) fn read(
        &mut self,
        frame: &Frame,
        descriptor: Option<OwnedFd>,
    ) -> Option<(Response<Outputs>, Vec<MetricUpdate>)> {
        let region = self.region(frame, descriptor)?;
        let len = usize::try_from(frame.length).ok()?;
        // Copied first: the process could change what was already checked.
        let (answer, kept) = unpack(&region.copied(0..len)?)?;
        let start = aligned(len);
        let holds = || self.returned.held.load(Ordering::Relaxed) < MAX_PINNED;
        if region.len() < COPIED_BELOW + start || !holds() || !is_large(&answer) {
            let copy = |placed: PlacedOutputs| placed.into_iter().map(|one| one.copied(&region, start)).collect();
            let answer = answer.map(copy);
            self.returned.add(frame.region);
            return Some((answer?, kept));
        }
        self.returned.held.fetch_add(1, Ordering::Relaxed);
        let held = Arc::new(Held { slot: frame.region, region, returned: Arc::clone(&self.returned) });
        let view = |placed: Placed| {
            placed.viewed(start, |range| {
                held.region.bytes(range.clone())?;
                Some(Bytes::from_owner(Part { held: Arc::clone(&held), range }))
            })
        };
        let answer = answer.map(|placed| placed.into_iter().map(&view).collect())?;
        Some((answer, kept))
    }

    /// The bytes of a description that is no answer.
    pub(crate) fn description(&mut self, frame: &Frame, descriptor: Option<OwnedFd>) -> Option<Vec<u8>> {
        let region = self.region(frame, descriptor)?;
        self.returned.add(frame.region);
        region.copied(0..usize::try_from(frame.length).ok()?)
    }

    fn region(&mut self, frame: &Frame, descriptor: Option<OwnedFd>) -> Option<Arc<Region>> {
        let slot = usize::try_from(frame.region).ok().filter(|&slot| slot < MAX_SLOTS)?;
        if frame.has(NEW) {
            let region = Region::adopt(&descriptor?, false).ok()?;
            if self.regions.len() <= slot {
                self.regions.resize(slot + 1, None);
            }
            self.regions[slot] = Some(Arc::new(region));
        }
        self.regions.get(slot)?.clone()
    }

    /// The slots that are free again since this was asked last.
    pub(crate) fn take_returned(&self) -> Vec<u32> {
        std::mem::take(&mut self.returned.slots.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn is_large(answer: &Response<PlacedOutputs>) -> bool {
    let outputs = match answer {
        Response::Done { outputs, .. } | Response::Piece { outputs, .. } => outputs,
        _ => return false,
    };
    outputs.iter().map(Placed::len).sum::<usize>() >= COPIED_BELOW
}
