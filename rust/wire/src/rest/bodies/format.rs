//! Body formats, their names and content types.

use super::{arrow_encode, safetensors};
use crate::rest::media_ranges;
use penstock_core::Datatype;

/// A format of an infer body other than the protocol's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One array, as `numpy.save` writes it.
    Npy,
    /// Arrays by name, as `numpy.savez` writes them.
    Npz,
    /// The protocol's JSON object in msgpack, with tensors as bytes.
    Msgpack,
    /// An Arrow IPC stream of one record batch.
    Arrow,
    /// Tensors by name.
    Safetensors,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 5] = [Self::Npy, Self::Npz, Self::Msgpack, Self::Arrow, Self::Safetensors];

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Msgpack => "msgpack",
            Self::Arrow => "Arrow IPC",
            Self::Safetensors => "safetensors",
        }
    }

    /// Content type of responses.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Npy => "application/x-npy",
            Self::Npz => "application/x-npz",
            Self::Msgpack => "application/msgpack",
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Safetensors => "application/x-safetensors",
        }
    }

    /// Returns whether it can hold elements of this datatype.
    pub fn holds(self, datatype: Datatype) -> bool {
        match self {
            Self::Safetensors => safetensors::dtype(datatype).is_some(),
            Self::Arrow => arrow_encode::data_type(datatype).is_some(),
            Self::Npy | Self::Npz | Self::Msgpack => true,
        }
    }

    /// The format of a content type, whose parameters do not matter.
    pub fn from_content_type(value: &str) -> Option<Self> {
        let kind = value.split_once(';').map_or(value, |(kind, _)| kind).trim();
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        match Self::ALL.into_iter().find(|format| is(format.content_type())) {
            None if is("application/x-msgpack") || is("application/vnd.msgpack") => Some(Self::Msgpack),
            found => found,
        }
    }

    /// Returns the format that an `Accept` header prefers: the first of the highest weight among these formats and the
    /// protocol's JSON (`Some(None)`); `None` if it has none of them.
    pub fn accepted(header: &str) -> Option<Option<Self>> {
        media_ranges(header).into_iter().find_map(|kind| {
            let own = ["application/json", "application/octet-stream"].iter().any(|own| kind.eq_ignore_ascii_case(own));
            let format = Self::from_content_type(kind);
            (own || format.is_some()).then_some(format)
        })
    }
}
