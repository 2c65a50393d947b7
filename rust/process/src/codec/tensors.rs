//! Tensors in a region: their types, shapes and places.

use crate::transport::region::{Region, aligned};
use bytes::Bytes;
use penstock_core::{
    Buffer, Datatype, MAX_RANK, Memory, Tensor, aligned_with_capacity,
    copies::{self, Step},
};
use serde::{Deserialize, Serialize};
use std::{ops::Range, sync::Arc};

/// A tensor in a region. Nothing in it is checked before the tensor is made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TensorEntry {
    /// The index in [`Datatype::ALL`].
    datatype: u8,
    shape: Vec<usize>,
    /// The lengths of its rows, where they differ.
    row_lengths: Option<Vec<usize>>,
    /// Its bytes, from the beginning of the tensors; `None` for an output that was left out.
    bytes: Option<Range<usize>>,
}

/// The places of a region's tensors, from the beginning of the tensors.
#[derive(Debug, Default)]
pub(crate) struct Layout(usize);

impl Layout {
    /// Places a tensor of `len` bytes.
    pub(crate) fn place(
        &mut self,
        datatype: Datatype,
        shape: &[usize],
        row_lengths: Option<&[usize]>,
        len: usize,
    ) -> (TensorEntry, usize) {
        let offset = aligned(self.0);
        self.0 = offset + len;
        let row_lengths = row_lengths.map(<[usize]>::to_vec);
        let bytes = Some(offset..offset + len);
        (TensorEntry { datatype: datatype as u8, shape: shape.to_vec(), row_lengths, bytes }, offset)
    }

    /// The bytes of all tensors, with the gaps between them.
    pub(crate) fn len(&self) -> usize {
        self.0
    }
}

impl TensorEntry {
    /// An output that was left out.
    pub(crate) fn absent(datatype: Datatype) -> Self {
        Self { datatype: datatype as u8, shape: Vec::new(), row_lengths: None, bytes: None }
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.as_ref().map_or(0, ExactSizeIterator::len)
    }

    /// A tensor over memory that belongs to the batch alone. The tensors begin at `start`.
    pub(crate) fn lend(self, region: &Arc<Region>, start: usize) -> Option<Tensor> {
        self.tensor(start, |range| {
            region.bytes(range.clone())?;
            Some(Buffer::Lent(Arc::new(LentRange { region: Arc::clone(region), range })))
        })
    }

    /// A tensor over the view that `view` makes of a range of the region.
    pub(crate) fn view(self, start: usize, view: impl FnOnce(Range<usize>) -> Option<Bytes>) -> Option<Tensor> {
        self.tensor(start, |range| view(range).map(Buffer::Shared))
    }

    /// A tensor over a copy of its bytes.
    pub(crate) fn copy(self, region: &Region, start: usize) -> Option<Tensor> {
        self.tensor(start, |range| {
            let bytes = region.bytes(range)?;
            copies::count(Step::HandOut, bytes.len());
            let mut copy = aligned_with_capacity(bytes.len());
            copy.extend_from_slice(bytes);
            Some(Buffer::Aligned(copy))
        })
    }

    fn tensor(self, start: usize, buffer: impl FnOnce(Range<usize>) -> Option<Buffer>) -> Option<Tensor> {
        let datatype = Datatype::ALL.get(usize::from(self.datatype)).copied()?;
        let Some(bytes) = self.bytes else { return Some(Tensor::absent(datatype)) };
        if self.shape.len() > MAX_RANK {
            return None;
        }
        let buffer = buffer(start.checked_add(bytes.start)?..start.checked_add(bytes.end)?)?;
        let tensor = Tensor::new(datatype, self.shape.into(), buffer).ok()?;
        Some(match self.row_lengths {
            Some(lengths) => tensor.with_lengths(lengths.into()),
            None => tensor,
        })
    }
}

/// A range of a region that an array may keep alive.
#[derive(Debug)]
struct LentRange {
    region: Arc<Region>,
    range: Range<usize>,
}

impl Memory for LentRange {
    fn as_slice(&self) -> &[u8] {
        self.region.bytes(self.range.clone()).unwrap_or_default()
    }

    fn as_mut_ptr(&self) -> *mut u8 {
        self.region.pointer(self.range.start)
    }
}
