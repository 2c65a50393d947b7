//! Protobuf primitives: fields of an encoded message, read in place, and varints.

use bytes::BufMut;
use penstock_core::Error;
use prost::encoding::decode_varint;

/// Reason why bytes are not a message, to follow the message's name.
pub(super) type Malformed = &'static str;

type Result<T> = std::result::Result<T, Malformed>;

/// Value of one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1 or 5: eight or four bytes.
    Fixed(&'a [u8]),
    /// Wire type 2: the payload without its length.
    Bytes(&'a [u8]),
}

/// Iterator over a message's fields: number and value, in the order of the bytes.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn read(&mut self) -> Result<(u64, Value<'a>)> {
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut self.0)?),
            1 => Value::Fixed(self.take(8)?),
            2 => {
                let length = varint(&mut self.0)?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed(self.take(4)?),
            _ => return Err("a field has a wire type other than 0, 1, 2 and 5"),
        };
        Ok((key >> 3, value))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let split = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let (taken, rest) = split.ok_or("a field ends after its message")?;
        self.0 = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.read())
    }
}

/// Reads a varint off the front of `bytes`.
#[inline]
fn varint(bytes: &mut &[u8]) -> Result<u64> {
    decode_varint(bytes).map_err(|_| "a varint does not end, or has more than 64 bits")
}

/// Number of varints in packed ones: each ends with a byte below 128.
pub(super) fn count_varints(packed: &[u8]) -> usize {
    packed.iter().filter(|&&byte| byte < 0x80).count()
}

/// Reads packed varints one after the other.
pub(super) fn packed(mut bytes: &[u8]) -> impl Iterator<Item = Result<u64>> {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| varint(&mut bytes)))
}

/// A varint that arrives in chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Varint {
    value: u64,
    shift: u32,
}

impl Varint {
    /// Takes bytes from the front of `chunk`; returns the value after its last byte.
    #[inline]
    pub(super) fn read(&mut self, chunk: &mut &[u8]) -> penstock_core::Result<Option<u64>> {
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

    /// Returns whether no byte was taken.
    pub(super) fn is_empty(self) -> bool {
        self.shift == 0
    }
}

/// Encoded size of `value`, in bytes.
#[inline]
pub(super) fn varint_size(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes `value`.
#[inline]
pub(super) fn put_varint(buffer: &mut impl BufMut, mut value: u64) {
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
    fn varint_over_64_bits_is_refused() {
        let read = |bytes: &[u8]| Varint::default().read(&mut &*bytes);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).unwrap(), Some(u64::MAX));
        for last in [2, 0x80] {
            let error = read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, last]).unwrap_err();
            assert_eq!(error.message(), "the protobuf message has a varint of more than 64 bits");
        }
    }

    proptest! {
        #[test]
        fn varints_round_trip_over_any_chunk_boundary(value: u64, bits in 0u32..64, cut in 0usize..10) {
            let value = value >> bits;
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            prop_assert_eq!(bytes.len(), varint_size(value));
            let (mut first, mut second) = bytes.split_at(cut.min(bytes.len() - 1));
            let mut varint = Varint::default();
            prop_assert_eq!(varint.read(&mut first).unwrap(), None);
            prop_assert_eq!(varint.read(&mut second).unwrap(), Some(value));
        }
    }
}
