//! What describes a batch or its answer, as bytes: little-endian numbers, and texts behind their lengths.

use penstock_core::{Headers, Parameter, Parameters};
use std::time::Duration;

/// How deep lists of parameters may lie in one another.
const DEPTH: usize = 8;

/// Puts values one after another.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    pub(crate) fn headers(&mut self, headers: &Headers) {
        self.number(headers.len() as u64);
        for (name, value) in headers.iter() {
            self.text(name);
            self.text(value);
        }
    }

    pub(crate) fn duration(&mut self, value: Duration) {
        self.number(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn parameters(&mut self, parameters: &Parameters) {
        self.number(parameters.len() as u64);
        for (name, value) in parameters {
            self.text(name);
            self.parameter(value);
        }
    }

    fn parameter(&mut self, value: &Parameter) {
        match value {
            Parameter::Bool(value) => self.0.extend([0, u8::from(*value)]),
            Parameter::Int(value) => self.tagged(1, value.cast_unsigned()),
            Parameter::Uint(value) => self.tagged(2, *value),
            Parameter::Float(value) => self.tagged(3, value.to_bits()),
            Parameter::String(value) => {
                self.byte(4);
                self.text(value);
            }
            Parameter::List(values) => {
                self.tagged(5, values.len() as u64);
                values.iter().for_each(|value| self.parameter(value));
            }
        }
    }

    fn tagged(&mut self, tag: u8, value: u64) {
        self.byte(tag);
        self.number(value);
    }
}

/// Takes values one after another. `None` where there is none of the kind.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    pub(crate) fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    /// A number of things that follow, of at least one byte each; so it allocates no more than there is.
    pub(crate) fn count(&mut self) -> Option<usize> {
        self.size().filter(|&count| count <= self.0.len())
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.size()?;
        let (first, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(first)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    pub(crate) fn headers(&mut self) -> Option<Headers> {
        (0..self.count()?).map(|_| Some((self.text()?, self.text()?))).collect()
    }

    pub(crate) fn duration(&mut self) -> Option<Duration> {
        self.number().map(Duration::from_nanos)
    }

    pub(crate) fn parameters(&mut self) -> Option<Parameters> {
        (0..self.count()?).map(|_| Some((self.text()?, self.parameter(0)?))).collect()
    }

    fn parameter(&mut self, depth: usize) -> Option<Parameter> {
        Some(match self.byte()? {
            0 => Parameter::Bool(self.byte()? != 0),
            1 => Parameter::Int(self.number()?.cast_signed()),
            2 => Parameter::Uint(self.number()?),
            3 => Parameter::Float(f64::from_bits(self.number()?)),
            4 => Parameter::String(self.text()?),
            5 if depth < DEPTH => {
                Parameter::List((0..self.count()?).map(|_| self.parameter(depth + 1)).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parameter() -> impl Strategy<Value = Parameter> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Parameter::Bool),
            any::<i64>().prop_map(Parameter::Int),
            any::<u64>().prop_map(Parameter::Uint),
            (-1e300..1e300).prop_map(Parameter::Float),
            any::<String>().prop_map(Parameter::String),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Parameter::List))
    }

    proptest! {
        #[test]
        fn values_round_trip(
            parameters in prop::collection::vec((any::<String>(), parameter()), 0..6),
            bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut writer = Writer::default();
            writer.parameters(&parameters);
            writer.bytes(&bytes);
            let mut reader = Reader(&writer.0);
            prop_assert_eq!(reader.parameters(), Some(parameters));
            prop_assert_eq!(reader.bytes(), Some(&bytes[..]));
            prop_assert!(reader.0.is_empty());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Reader(&bytes).parameters();
            let _ = Reader(&bytes).text();
        }
    }
}
