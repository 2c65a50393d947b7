//! Protobuf's variable-length integers: seven bits a byte, the lowest first.

use bytes::BufMut;
use penstock_core::{Error, Result};

/// A varint that arrives in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Varint {
    value: u64,
    shift: u32,
}

impl Varint {
    /// Takes bytes from the front of `chunk`; the value once its last byte is there.
    #[inline]
    pub(super) fn read(&mut self, chunk: &mut &[u8]) -> Result<Option<u64>> {
        while let Some((&byte, rest)) = chunk.split_first() {
            *chunk = rest;
            // Nine bytes hold 63 bits: the tenth has room for one.
            if self.shift == 63 && byte > 1 {
                return Err(Error::invalid("the protobuf message has a varint of more than 64 bits"));
            }
            self.value |= u64::from(byte & 0x7f) << self.shift;
            if byte < 0x80 {
                return Ok(Some(self.value));
            }
            self.shift += 7;
        }
        Ok(None)
    }

    /// Whether no byte has been taken.
    pub(super) fn is_empty(self) -> bool {
        self.shift == 0
    }
}

/// How many bytes `value` takes.
#[inline]
pub(super) fn size(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes `value`.
#[inline]
pub(super) fn put(buffer: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        buffer.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.put_u8(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn more_than_64_bits_are_refused() {
        let read = |bytes: &[u8]| Varint::default().read(&mut &*bytes);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).unwrap(), Some(u64::MAX));
        for last in [2, 0x80] {
            let error = read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, last]).unwrap_err();
            assert_eq!(error.message(), "the protobuf message has a varint of more than 64 bits");
        }
    }

    proptest! {
        #[test]
        fn round_trips_over_any_cut(value: u64, bits in 0u32..64, cut in 0usize..10) {
            let value = value >> bits;
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            prop_assert_eq!(bytes.len(), size(value));
            let (mut first, mut second) = bytes.split_at(cut.min(bytes.len() - 1));
            let mut varint = Varint::default();
            prop_assert_eq!(varint.read(&mut first).unwrap(), None);
            prop_assert_eq!(varint.read(&mut second).unwrap(), Some(value));
        }
    }
}
