//! BYTES as numpy has them: strings of one width, padded with zeros.

use penstock_core::{AlignedBuffer, Error, Result, Tensor, aligned_with_capacity, bytes_tensor};

/// numpy's kinds of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `S`: bytes.
    Bytes,
    /// `U`: four bytes for each character.
    Text,
}

/// Maximum size of padded strings, in bytes, unless eight times their own size is more.
const MOST_PADDED: usize = 64 << 20;

/// Elements of `width` bytes as framed ones; padding is taken off.
pub(super) fn framed(data: &[u8], width: usize, kind: Kind, big_endian: bool) -> Result<AlignedBuffer> {
    let mut buffer = aligned_with_capacity(data.len() + data.len() / width.max(1) * bytes_tensor::PREFIX);
    let mut text = String::new();
    for (position, element) in data.chunks_exact(width.max(1)).enumerate() {
        let content = match kind {
            Kind::Bytes => element,
            Kind::Text => {
                text.clear();
                for unit in element.as_chunks::<4>().0 {
                    let code = if big_endian { u32::from_be_bytes(*unit) } else { u32::from_le_bytes(*unit) };
                    text.push(char::from_u32(code).ok_or_else(|| {
                        Error::invalid(format!("element {position} has {code:#x}, which is not a character"))
                    })?);
                }
                text.as_bytes()
            }
        };
        let end = content.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        buffer.extend_from_slice(&bytes_tensor::prefix(end)?);
        buffer.extend_from_slice(&content[..end]);
    }
    Ok(buffer)
}

/// The elements of a BYTES tensor at one width, and that width in numpy's units.
///
/// # Errors
/// `InvalidInput` for elements that would not come back the same, and for too much padding.
pub(super) fn padded(name: &str, tensor: &Tensor, kind: Kind) -> Result<(Vec<u8>, usize)> {
    let elements = || bytes_tensor::elements(tensor.as_slice());
    let unit = match kind {
        Kind::Bytes => 1,
        Kind::Text => 4,
    };
    let (mut width, mut count) = (1, 0_usize);
    for (position, element) in elements().enumerate() {
        let refuse =
            |what| Error::invalid(format!("element {position} of output '{name}' {what}: accept another format"));
        if element.last() == Some(&0) {
            return Err(refuse("ends with a zero byte, which numpy's strings cannot hold"));
        }
        let length = match kind {
            Kind::Bytes => element.len(),
            Kind::Text => std::str::from_utf8(element).map_err(|_| refuse("is not UTF-8 text"))?.chars().count(),
        };
        width = width.max(length);
        count += 1;
    }
    let size = count.saturating_mul(width).saturating_mul(unit);
    if size > MOST_PADDED.max(tensor.as_slice().len().saturating_mul(8)) {
        return Err(Error::invalid(format!(
            "output '{name}' takes {size} bytes as numpy strings of one width: accept another format"
        )));
    }
    let mut out = Vec::with_capacity(size);
    for (position, element) in elements().enumerate() {
        match kind {
            Kind::Bytes => out.extend_from_slice(element),
            Kind::Text => {
                let text = std::str::from_utf8(element).unwrap_or_default();
                text.chars().for_each(|character| out.extend_from_slice(&u32::from(character).to_le_bytes()));
            }
        }
        out.resize((position + 1) * width * unit, 0);
    }
    Ok((out, width))
}
