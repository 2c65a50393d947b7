//! msgpack, item by item, as it lies in the body.

use penstock_core::{Error, Result};
use rmp::Marker;

/// A value, or the head of one that has more in it.
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
    /// What it is, in a message.
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

    /// How many bytes are left.
    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// An error that says where it is, and what was expected there.
    pub(super) fn fault(&self, expected: &str) -> Error {
        let at = self.whole - self.rest.len();
        Error::invalid(format!("request msgpack at byte {at}: expected {expected}"))
    }

    /// The next item.
    pub(super) fn item(&mut self) -> Result<Item<'b>> {
        let (&first, rest) = self.rest.split_first().ok_or_else(|| self.fault("a value"))?;
        let before = std::mem::replace(&mut self.rest, rest);
        let item = self.after(Marker::from_u8(first));
        item.ok_or_else(|| {
            self.rest = before;
            self.fault("a whole value of msgpack")
        })
    }

    fn after(&mut self, marker: Marker) -> Option<Item<'b>> {
        Some(match marker {
            Marker::FixPos(value) => Item::Uint(value.into()),
            Marker::FixNeg(value) => Item::Int(value.into()),
            Marker::Null => Item::Nil,
            Marker::True => Item::Bool(true),
            Marker::False => Item::Bool(false),
            Marker::U8 => Item::Uint(self.fixed::<1>().map(u8::from_be_bytes)?.into()),
            Marker::U16 => Item::Uint(self.fixed().map(u16::from_be_bytes)?.into()),
            Marker::U32 => Item::Uint(self.fixed().map(u32::from_be_bytes)?.into()),
            Marker::U64 => Item::Uint(self.fixed().map(u64::from_be_bytes)?),
            Marker::I8 => Item::Int(self.fixed().map(i8::from_be_bytes)?.into()),
            Marker::I16 => Item::Int(self.fixed().map(i16::from_be_bytes)?.into()),
            Marker::I32 => Item::Int(self.fixed().map(i32::from_be_bytes)?.into()),
            Marker::I64 => Item::Int(self.fixed().map(i64::from_be_bytes)?),
            Marker::F32 => Item::Float(self.fixed().map(f32::from_be_bytes)?.into()),
            Marker::F64 => Item::Float(self.fixed().map(f64::from_be_bytes)?),
            Marker::FixStr(length) => Item::Str(self.bytes(length.into())?),
            Marker::Str8 => Item::Str(self.sized(Self::length8)?),
            Marker::Str16 => Item::Str(self.sized(Self::length16)?),
            Marker::Str32 => Item::Str(self.sized(Self::length32)?),
            Marker::Bin8 => Item::Bin(self.sized(Self::length8)?),
            Marker::Bin16 => Item::Bin(self.sized(Self::length16)?),
            Marker::Bin32 => Item::Bin(self.sized(Self::length32)?),
            Marker::FixArray(length) => Item::Array(length.into()),
            Marker::Array16 => Item::Array(self.length16()?),
            Marker::Array32 => Item::Array(self.length32()?),
            Marker::FixMap(length) => Item::Map(length.into()),
            Marker::Map16 => Item::Map(self.length16()?),
            Marker::Map32 => Item::Map(self.length32()?),
            Marker::FixExt1 => self.extension(1)?,
            Marker::FixExt2 => self.extension(2)?,
            Marker::FixExt4 => self.extension(4)?,
            Marker::FixExt8 => self.extension(8)?,
            Marker::FixExt16 => self.extension(16)?,
            Marker::Ext8 => self.length8().and_then(|length| self.extension(length))?,
            Marker::Ext16 => self.length16().and_then(|length| self.extension(length))?,
            Marker::Ext32 => self.length32().and_then(|length| self.extension(length))?,
            Marker::Reserved => return None,
        })
    }

    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (value, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*value)
    }

    fn bytes(&mut self, length: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    fn sized(&mut self, length: impl FnOnce(&mut Self) -> Option<usize>) -> Option<&'b [u8]> {
        let length = length(self)?;
        self.bytes(length)
    }

    fn length8(&mut self) -> Option<usize> {
        self.fixed::<1>().map(|[length]| length.into())
    }

    fn length16(&mut self) -> Option<usize> {
        self.fixed().map(u16::from_be_bytes).map(usize::from)
    }

    fn length32(&mut self) -> Option<usize> {
        usize::try_from(self.fixed().map(u32::from_be_bytes)?).ok()
    }

    fn extension(&mut self, length: usize) -> Option<Item<'b>> {
        // Its type comes first.
        self.bytes(length.checked_add(1)?).map(|_| Item::Ext)
    }

    /// Text: a string, or bytes as older writers have it.
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
