//! Layout of BYTES elements: a little-endian `u32` length and that many bytes each, in row-major order.
//!
//! This is the protocol's binary layout, so binary and gRPC tensors need no conversion.

use crate::{Error, Result};

/// Bytes of the length before each element.
pub const PREFIX: usize = 4;

/// Iterates over the elements of a buffer that [`check`] has accepted. Stops at a broken frame.
#[derive(Clone, Debug)]
pub struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (prefix, rest) = self.0.split_first_chunk::<PREFIX>()?;
        let (element, rest) = rest.split_at_checked(u32::from_le_bytes(*prefix) as usize)?;
        self.0 = rest;
        Some(element)
    }
}

/// The elements of a buffer.
pub fn elements(buffer: &[u8]) -> Elements<'_> {
    Elements(buffer)
}

/// Checks that `buffer` holds exactly `count` whole elements.
///
/// # Errors
/// `InvalidInput`: an element is cut short, or the count differs.
pub fn check(buffer: &[u8], count: usize) -> Result<()> {
    let mut elements = elements(buffer);
    for index in 0..count {
        if elements.next().is_none() {
            let reason = if elements.0.is_empty() {
                format!("BYTES data ends after {index} elements, expected {count}")
            } else if elements.0.len() < PREFIX {
                format!("BYTES element {index} has a truncated length prefix")
            } else {
                format!("BYTES element {index} runs past the end of the data")
            };
            return Err(Error::invalid(reason));
        }
    }
    if elements.0.is_empty() {
        Ok(())
    } else {
        Err(Error::invalid(format!("BYTES data has {} bytes after its {count} elements", elements.0.len())))
    }
}

/// Appends the length prefix of an element of `len` bytes.
///
/// # Errors
/// `InvalidInput` when the element does not fit a `u32` length.
pub fn prefix(len: usize) -> Result<[u8; PREFIX]> {
    u32::try_from(len)
        .map(u32::to_le_bytes)
        .map_err(|_| Error::invalid("a BYTES element is longer than 4294967295 bytes"))
}

/// The offset after the first `count` elements: where a row of `count` elements ends.
pub fn offset_after(buffer: &[u8], count: usize) -> usize {
    let mut elements = elements(buffer);
    elements.by_ref().take(count).for_each(drop);
    buffer.len() - elements.0.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(parts: &[Vec<u8>]) -> Vec<u8> {
        parts.iter().flat_map(|part| [&prefix(part.len()).unwrap()[..], part].concat()).collect()
    }

    #[test]
    fn invalid_framing_is_refused_with_its_element() {
        let good = framed(&[b"ab".to_vec(), vec![]]);
        assert!(check(&good, 2).is_ok());
        let message = |buffer: &[u8], count| check(buffer, count).unwrap_err().message().to_owned();
        assert_eq!(message(&good[..5], 1), "BYTES element 0 runs past the end of the data");
        assert_eq!(message(&good[..8], 2), "BYTES element 1 has a truncated length prefix");
        assert_eq!(message(&good, 3), "BYTES data ends after 2 elements, expected 3");
        assert_eq!(message(&good, 1), "BYTES data has 4 bytes after its 1 elements");
    }

    proptest! {
        #[test]
        fn bytes_elements_round_trip(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 0..9)) {
            let buffer = framed(&parts);
            prop_assert!(check(&buffer, parts.len()).is_ok());
            prop_assert_eq!(elements(&buffer).map(<[u8]>::to_vec).collect::<Vec<_>>(), parts.clone());
            prop_assert_eq!(offset_after(&buffer, parts.len()), buffer.len());
        }

        #[test]
        fn arbitrary_bytes_never_panic(buffer in proptest::collection::vec(any::<u8>(), 0..64), count in 0usize..9) {
            let _ = check(&buffer, count);
        }
    }
}
