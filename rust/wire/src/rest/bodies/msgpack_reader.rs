//! Pull reader of msgpack, in place.

use penstock_core::{Error, Result};
use rmp::{Marker, decode};

/// A value, or the header of a list or map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item<'b> {
    Nil,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    /// Not checked to be UTF-8: older writers have bytes so.
    Str(&'b [u8]),
    Bin(&'b [u8]),
    /// So many values follow.
    Array(usize),
    /// So many keys follow, each with a value.
    Map(usize),
    /// An extension's data, which has no meaning here.
    Ext,
}

impl Item<'_> {
    /// Describes the item for an error.
    pub(super) fn what(&self) -> String {
        match self {
            Self::Nil => "nil".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Str(_) => "a string".to_owned(),
            Self::Bin(_) => "bytes".to_owned(),
            Self::Array(_) => "an array".to_owned(),
            Self::Map(_) => "a map".to_owned(),
            Self::Ext => "an extension".to_owned(),
        }
    }
}

/// Reads items from the front of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'b> {
    rest: &'b [u8],
    whole: usize,
    max_depth: usize,
}

impl<'b> Reader<'b> {
    pub(super) fn new(body: &'b [u8], max_depth: usize) -> Self {
        Self { rest: body, whole: body.len(), max_depth }
    }

    /// Number of bytes left.
    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Error for an unexpected byte.
    pub(super) fn fault(&self, expected: &str) -> Error {
        let at = self.whole - self.rest.len();
        Error::invalid(format!("request msgpack at byte {at}: expected {expected}"))
    }

    /// Takes the next item.
    pub(super) fn item(&mut self) -> Result<Item<'b>> {
        let &first = self.rest.first().ok_or_else(|| self.fault("a value"))?;
        let before = self.rest;
        self.value(Marker::from_u8(first)).ok_or_else(|| {
            self.rest = before;
            self.fault("a whole value of msgpack")
        })
    }

    /// Takes the value that begins with `marker`; `None` if it is cut short.
    fn value(&mut self, marker: Marker) -> Option<Item<'b>> {
        let rest = &mut self.rest;
        Some(match marker {
            Marker::Null => decode::read_nil(rest).map(|()| Item::Nil).ok()?,
            Marker::True | Marker::False => Item::Bool(decode::read_bool(rest).ok()?),
            Marker::FixPos(_) | Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => {
                Item::Uint(decode::read_int(rest).ok()?)
            }
            Marker::FixNeg(_) | Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64 => {
                Item::Int(decode::read_int(rest).ok()?)
            }
            Marker::F32 => Item::Float(decode::read_f32(rest).ok()?.into()),
            Marker::F64 => Item::Float(decode::read_f64(rest).ok()?),
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let length = decode::read_str_len(rest).ok()?;
                Item::Str(self.bytes(length)?)
            }
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let length = decode::read_bin_len(rest).ok()?;
                Item::Bin(self.bytes(length)?)
            }
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
                Item::Array(usize::try_from(decode::read_array_len(rest).ok()?).ok()?)
            }
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => {
                Item::Map(usize::try_from(decode::read_map_len(rest).ok()?).ok()?)
            }
            Marker::Reserved => return None,
            _ => {
                let size = decode::read_ext_meta(rest).ok()?.size;
                self.bytes(size).map(|_| Item::Ext)?
            }
        })
    }

    fn bytes(&mut self, length: u32) -> Option<&'b [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Reads text: a string, or bytes, which older writers use.
    pub(super) fn text(&mut self, expected: &str) -> Result<&'b str> {
        let start = *self;
        match self.item()? {
            Item::Str(bytes) | Item::Bin(bytes) => std::str::from_utf8(bytes).map_err(|_| start.fault("UTF-8 text")),
            _ => Err(start.fault(expected)),
        }
    }

    /// The length of a map.
    pub(super) fn map(&mut self, expected: &str) -> Result<usize> {
        let start = *self;
        match self.item()? {
            Item::Map(length) => Ok(length),
            _ => Err(start.fault(expected)),
        }
    }

    /// The length of an array.
    pub(super) fn array(&mut self, expected: &str) -> Result<usize> {
        let start = *self;
        match self.item()? {
            Item::Array(length) => Ok(length),
            _ => Err(start.fault(expected)),
        }
    }

    /// A size.
    pub(super) fn size(&mut self, expected: &str) -> Result<usize> {
        let start = *self;
        let size = match self.item()? {
            Item::Uint(value) => usize::try_from(value).ok(),
            Item::Int(value) => usize::try_from(value).ok(),
            _ => None,
        };
        size.ok_or_else(|| start.fault(expected))
    }

    /// Passes over a value and all that is in it.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.skip_level(1)
    }

    fn skip_level(&mut self, depth: usize) -> Result<()> {
        if depth > self.max_depth {
            return Err(self.fault(&format!("at most {} levels of nesting", self.max_depth)));
        }
        let within = match self.item()? {
            Item::Array(length) => length,
            Item::Map(length) => length.saturating_mul(2),
            _ => 0,
        };
        (0..within).try_for_each(|_| self.skip_level(depth + 1))
    }

    /// Writes a value as JSON.
    pub(super) fn json(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.json_level(out, 1)
    }

    fn json_level(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        if depth > self.max_depth {
            return Err(self.fault(&format!("at most {} levels of nesting", self.max_depth)));
        }
        let start = *self;
        match self.item()? {
            Item::Nil => out.extend_from_slice(b"null"),
            Item::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Item::Int(value) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
            Item::Uint(value) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
            Item::Float(value) if value.is_finite() => {
                out.extend_from_slice(zmij::Buffer::new().format(value).as_bytes())
            }
            Item::Str(bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| start.fault("UTF-8 text"))?;
                crate::json::string::write(out, text);
            }
            Item::Array(length) => {
                for position in 0..length {
                    out.push(if position == 0 { b'[' } else { b',' });
                    self.json_level(out, depth + 1)?;
                }
                out.extend_from_slice(if length == 0 { b"[]" } else { b"]" });
            }
            Item::Map(length) => {
                for position in 0..length {
                    out.push(if position == 0 { b'{' } else { b',' });
                    crate::json::string::write(out, self.text("a string for a key")?);
                    out.push(b':');
                    self.json_level(out, depth + 1)?;
                }
                out.extend_from_slice(if length == 0 { b"{}" } else { b"}" });
            }
            Item::Float(_) | Item::Bin(_) | Item::Ext => return Err(start.fault("a value that JSON has too")),
        }
        Ok(())
    }
}
