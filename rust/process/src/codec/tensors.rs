//! Tensors in a region: where each lies, as the description before them says.

use crate::{
    codec::fields::{Reader, Writer},
    transport::region::{Region, aligned},
};
use bytes::Bytes;
use penstock_core::{
    Buffer, Datatype, MAX_RANK, Memory, RowLengths, Shape, Tensor, aligned_with_capacity,
    copies::{self, Step},
};
use std::{ops::Range, sync::Arc};

/// A tensor as its region describes it.
#[derive(Debug)]
pub(crate) struct Placed {
    datatype: Datatype,
    shape: Shape,
    /// Of its rows, where they differ in length.
    lengths: Option<RowLengths>,
    /// It only stands for an output that was left out.
    absent: bool,
    /// Its bytes, counted from where the tensors begin.
    bytes: Range<usize>,
}

/// Where the next tensors of a region go, counted from where they begin.
#[derive(Debug, Default)]
pub(crate) struct Layout(usize);

impl Layout {
    /// A place for `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> usize {
        let offset = aligned(self.0);
        self.0 = offset + len;
        offset
    }

    /// The bytes that all of them need.
    pub(crate) fn total(&self) -> usize {
        self.0
    }
}

/// Describes a tensor of `len` bytes, for which it takes a place.
pub(crate) fn describe(
    out: &mut Writer,
    places: &mut Layout,
    (datatype, shape, lengths): (Datatype, &[usize], Option<&RowLengths>),
    len: usize,
) -> usize {
    let offset = places.take(len);
    out.byte(datatype as u8);
    out.number(shape.len() as u64);
    shape.iter().for_each(|&dim| out.number(dim as u64));
    out.byte(u8::from(lengths.is_some()));
    if let Some(lengths) = lengths {
        out.number(lengths.len() as u64);
        lengths.iter().for_each(|&length| out.number(length as u64));
    }
    out.number(offset as u64);
    out.number(len as u64);
    offset
}

/// In place of a datatype: an output that was left out.
const ABSENT: u8 = u8::MAX;

/// Describes an output of that type that was left out.
pub(crate) fn describe_absent(out: &mut Writer, datatype: Datatype) {
    out.byte(ABSENT);
    out.byte(datatype as u8);
}

fn datatype(byte: u8) -> Option<Datatype> {
    Datatype::ALL.get(usize::from(byte)).copied()
}

/// Reads what [`describe`] or [`describe_absent`] wrote; `None` for anything else.
pub(crate) fn placed(from: &mut Reader<'_>) -> Option<Placed> {
    let first = from.byte()?;
    if first == ABSENT {
        let datatype = datatype(from.byte()?)?;
        return Some(Placed { datatype, shape: Shape::new(), lengths: None, absent: true, bytes: 0..0 });
    }
    let datatype = datatype(first)?;
    let rank = from.count().filter(|&rank| rank <= MAX_RANK)?;
    let shape = (0..rank).map(|_| from.size()).collect::<Option<Shape>>()?;
    let lengths = match from.byte()? {
        0 => None,
        _ => Some((0..from.count()?).map(|_| from.size()).collect::<Option<RowLengths>>()?),
    };
    let (offset, len) = (from.size()?, from.size()?);
    Some(Placed { datatype, shape, lengths, absent: false, bytes: offset..offset.checked_add(len)? })
}

impl Placed {
    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn range(&self, start: usize) -> Option<Range<usize>> {
        Some(start.checked_add(self.bytes.start)?..start.checked_add(self.bytes.end)?)
    }

    /// A tensor over memory that the batch has to itself. The tensors begin at `start`.
    pub(crate) fn lent(self, region: &Arc<Region>, start: usize) -> Option<Tensor> {
        let range = self.range(start)?;
        region.bytes(range.clone())?;
        let memory = Arc::new(Lent { region: Arc::clone(region), range });
        self.made(Buffer::Lent(memory))
    }

    /// A tensor over a view that `view` makes of a range of the region.
    pub(crate) fn viewed(self, start: usize, view: impl FnOnce(Range<usize>) -> Option<Bytes>) -> Option<Tensor> {
        let bytes = view(self.range(start)?)?;
        self.made(Buffer::Shared(bytes))
    }

    /// A tensor of a copy.
    pub(crate) fn copied(self, region: &Region, start: usize) -> Option<Tensor> {
        let bytes = region.bytes(self.range(start)?)?;
        copies::count(Step::HandOut, bytes.len());
        let mut copy = aligned_with_capacity(bytes.len());
        copy.extend_from_slice(bytes);
        self.made(Buffer::Aligned(copy))
    }

    fn made(self, buffer: Buffer) -> Option<Tensor> {
        if self.absent {
            return Some(Tensor::absent(self.datatype));
        }
        let tensor = Tensor::new(self.datatype, self.shape, buffer).ok()?;
        Some(match self.lengths {
            Some(lengths) => tensor.with_lengths(lengths),
            None => tensor,
        })
    }
}

/// A part of a region that an array may keep.
#[derive(Debug)]
struct Lent {
    region: Arc<Region>,
    range: Range<usize>,
}

impl Memory for Lent {
    fn as_slice(&self) -> &[u8] {
        self.region.bytes(self.range.clone()).unwrap_or_default()
    }

    fn as_mut_ptr(&self) -> *mut u8 {
        self.region.pointer(self.range.start)
    }
}
