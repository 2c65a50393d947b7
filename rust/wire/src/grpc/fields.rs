//! Fields of an encoded protobuf message, read in place.

use prost::encoding::decode_varint;

/// Reason why bytes are no message, to follow the message's name.
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
