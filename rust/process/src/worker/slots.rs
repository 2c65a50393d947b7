//! Response regions of a process, reused once the server has released them.

use crate::{
    codec::response::EncodedResponse,
    transport::{
        frame::{Frame, MAX_SLOTS, NEW_REGION},
        region::Region,
    },
};
use penstock_core::copies::{self, Step};
use std::{io, os::fd::OwnedFd};

/// The regions of a process, by slot.
#[derive(Debug, Default)]
pub(crate) struct Slots(Vec<Slot>);

#[derive(Debug)]
struct Slot {
    region: Region,
    free: bool,
}

impl Slots {
    /// Writes a response. Returns its frame, and the descriptor of a new region.
    ///
    /// # Errors
    /// No memory is left, or the server has released none of the regions.
    pub(crate) fn write(&mut self, response: &EncodedResponse, frame: Frame) -> io::Result<(Frame, Option<OwnedFd>)> {
        let (index, descriptor) = self.take(response.len())?;
        let slot = &mut self.0[index];
        slot.region.write(0, &response.description);
        for (offset, tensor) in &response.tensors {
            slot.region.write(response.start() + offset, tensor.as_slice());
            copies::count(Step::HandOut, tensor.as_slice().len());
        }
        let flags = if descriptor.is_some() { frame.flags | NEW_REGION } else { frame.flags };
        let frame = Frame { flags, region: index as u32, length: response.description.len() as u64, ..frame };
        Ok((frame, descriptor))
    }

    fn take(&mut self, len: usize) -> io::Result<(usize, Option<OwnedFd>)> {
        let free = || self.0.iter().enumerate().filter(|(_, slot)| slot.free);
        let fits = free().filter(|(_, slot)| slot.region.len() >= len).min_by_key(|(_, slot)| slot.region.len());
        if let Some((index, _)) = fits {
            self.0[index].free = false;
            return Ok((index, None));
        }
        // A region that is too small is replaced by a larger one.
        let replaced = free().map(|(index, _)| index).next();
        if replaced.is_none() && self.0.len() == MAX_SLOTS {
            return Err(io::Error::other("the server released no response region"));
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

    /// Marks a slot as free: the server has sent its response.
    pub(crate) fn release(&mut self, slot: u32) {
        if let Some(slot) = self.0.get_mut(slot as usize) {
            slot.free = true;
        }
    }
}
