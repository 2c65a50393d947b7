//! A process's own regions, for its answers: used again when the server says that they are free.

use crate::{
    codec::response::EncodedResponse,
    transport::{
        frame::{Frame, MAX_SLOTS, NEW},
        region::Region,
    },
};
use penstock_core::copies::{self, Step};
use std::{io, os::fd::OwnedFd};

/// The regions of a process, by their number.
#[derive(Debug, Default)]
pub(crate) struct Slots(Vec<Slot>);

#[derive(Debug)]
struct Slot {
    region: Region,
    free: bool,
}

impl Slots {
    /// Writes an answer, and gives the frame that speaks of it; for a new region also its descriptor.
    ///
    /// # Errors
    /// There is no memory, or the server has not given back any of the regions.
    pub(crate) fn write(&mut self, packed: &EncodedResponse, frame: Frame) -> io::Result<(Frame, Option<OwnedFd>)> {
        let (index, descriptor) = self.take(packed.len())?;
        let slot = &mut self.0[index];
        slot.region.write(0, &packed.description);
        for (offset, tensor) in &packed.tensors {
            slot.region.write(packed.start() + offset, tensor.as_slice());
            copies::count(Step::HandOut, tensor.as_slice().len());
        }
        let flags = if descriptor.is_some() { frame.flags | NEW } else { frame.flags };
        let frame = Frame { flags, region: index as u32, length: packed.description.len() as u64, ..frame };
        Ok((frame, descriptor))
    }

    fn take(&mut self, len: usize) -> io::Result<(usize, Option<OwnedFd>)> {
        let free = || self.0.iter().enumerate().filter(|(_, slot)| slot.free);
        let fits = free().filter(|(_, slot)| slot.region.len() >= len).min_by_key(|(_, slot)| slot.region.len());
        if let Some((index, _)) = fits {
            self.0[index].free = false;
            return Ok((index, None));
        }
        // One that is too small makes room for a larger one.
        let replaced = free().map(|(index, _)| index).next();
        if replaced.is_none() && self.0.len() == MAX_SLOTS {
            return Err(io::Error::other("no answer was taken"));
        }
        let (region, descriptor) = Region::create(len)?;
        let slot = Slot { region, free: false };
        let index = match replaced {
            Some(index) => {
                self.0[index] = slot;
                index
            }
            None => {
                self.0.push(slot);
                self.0.len() - 1
            }
        };
        Ok((index, Some(descriptor)))
    }

    /// The server is done with a slot.
    pub(crate) fn give_back(&mut self, slot: u32) {
        if let Some(slot) = self.0.get_mut(slot as usize) {
            slot.free = true;
        }
    }
}
