//! A cached response as bytes that another server reads, and does not trust.
//!
//! Layout: a magic with the version of the layout, BLAKE3's digest of the key and of everything after it, the time of
//! computation, then outputs and parameters, each after its length. Numbers are little-endian.

use bytes::{Buf as _, Bytes};
use penstock_core::{
    Buffer, Datatype, InferResponse, MAX_RANK, ModelSpec, Parameter, Shape, Tensor, Timings,
    batch::gather::check_output,
    cache::{Key, checksum},
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MARK: &[u8; 4] = b"PSC1";
const HEAD: usize = MARK.len() + 32;

/// Encodes a response. `None` for responses without this form: with a list parameter, or an absent output.
pub fn encode(key: &Key, response: &InferResponse, computed: SystemTime) -> Option<Vec<u8>> {
    if response.outputs.iter().any(Tensor::is_absent) {
        return None;
    }
    let length: usize = response.outputs.iter().map(|tensor| tensor.as_slice().len() + 64).sum();
    let mut body = Vec::with_capacity(HEAD + length);
    body.extend_from_slice(&[0; HEAD]);
    let millis = computed.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    number(&mut body, u64::try_from(millis).ok()?);
    number(&mut body, response.outputs.len() as u64);
    for tensor in &response.outputs {
        text(&mut body, tensor.datatype().name().as_bytes());
        number(&mut body, tensor.shape().len() as u64);
        tensor.shape().iter().for_each(|&axis| number(&mut body, axis as u64));
        text(&mut body, tensor.as_slice());
    }
    number(&mut body, response.parameters.len() as u64);
    for (name, value) in &response.parameters {
        text(&mut body, name.as_bytes());
        let (kind, bits) = match value {
            Parameter::Bool(value) => (0, u64::from(*value)),
            Parameter::Int(value) => (1, value.cast_unsigned()),
            Parameter::Uint(value) => (2, *value),
            Parameter::Float(value) => (3, value.to_bits()),
            Parameter::String(value) => (4, value.len() as u64),
            Parameter::List(_) => return None,
        };
        body.push(kind);
        number(&mut body, bits);
        if let Parameter::String(value) = value {
            body.extend_from_slice(value.as_bytes());
        }
    }
    let digest = checksum(key, &body[HEAD..]);
    body[..MARK.len()].copy_from_slice(MARK);
    body[MARK.len()..HEAD].copy_from_slice(&digest);
    Some(body)
}

/// Decodes a response and its age. `None` unless the bytes are a whole response for that key, with that many rows of
/// that model. The tensors are views of the bytes.
pub fn decode(
    spec: &ModelSpec,
    rows: usize,
    key: &Key,
    mut bytes: Bytes,
    now: SystemTime,
) -> Option<(InferResponse, Duration)> {
    if bytes.len() < HEAD || bytes[..MARK.len()] != *MARK || bytes[MARK.len()..HEAD] != checksum(key, &bytes[HEAD..]) {
        return None;
    }
    bytes.advance(HEAD);
    let bytes = &mut bytes;
    let computed = UNIX_EPOCH.checked_add(Duration::from_millis(take_number(bytes)?))?;
    if take_number(bytes)? != spec.outputs.len() as u64 {
        return None;
    }
    let mut outputs = penstock_core::Outputs::new();
    for index in 0..spec.outputs.len() {
        let datatype = Datatype::from_name(std::str::from_utf8(&take(bytes)?).ok()?)?;
        let rank = usize::try_from(take_number(bytes)?).ok().filter(|&rank| rank <= MAX_RANK)?;
        let shape = (0..rank).map(|_| usize::try_from(take_number(bytes)?).ok()).collect::<Option<Shape>>()?;
        let tensor = Tensor::new(datatype, shape, Buffer::Shared(take(bytes)?)).ok()?;
        check_output(spec, index, datatype, tensor.shape(), rows).ok()?;
        outputs.push(tensor);
    }
    let mut parameters = Vec::new();
    for _ in 0..take_number(bytes)? {
        let name = string(take(bytes)?)?;
        let kind = bytes.try_get_u8().ok()?;
        let bits = take_number(bytes)?;
        let value = match kind {
            0 if bits <= 1 => Parameter::Bool(bits == 1),
            1 => Parameter::Int(bits.cast_signed()),
            2 => Parameter::Uint(bits),
            3 => Parameter::Float(f64::from_bits(bits)),
            4 => Parameter::String(string(split(bytes, bits)?)?),
            _ => return None,
        };
        parameters.push((name, value));
    }
    let age = now.duration_since(computed).unwrap_or_default();
    bytes.is_empty().then(|| (InferResponse { outputs, parameters, timings: Timings::default(), head: None }, age))
}

fn number(body: &mut Vec<u8>, number: u64) {
    body.extend_from_slice(&number.to_le_bytes());
}

fn text(body: &mut Vec<u8>, text: &[u8]) {
    number(body, text.len() as u64);
    body.extend_from_slice(text);
}

fn take_number(bytes: &mut Bytes) -> Option<u64> {
    bytes.try_get_u64_le().ok()
}

fn take(bytes: &mut Bytes) -> Option<Bytes> {
    let length = take_number(bytes)?;
    split(bytes, length)
}

fn split(bytes: &mut Bytes, length: u64) -> Option<Bytes> {
    let length = usize::try_from(length).ok().filter(|&length| length <= bytes.len())?;
    Some(bytes.split_to(length))
}

fn string(bytes: Bytes) -> Option<String> {
    String::from_utf8(bytes.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::testing;
    use penstock_core::{InferRequest, Protocol, cache::Identity};
    use proptest::prelude::*;
    use smallvec::smallvec;

    fn key(number: u8) -> Key {
        let request = InferRequest::place(&testing::add(), [], Protocol::InProcess).unwrap();
        Key::new(&testing::add(), &request, &Identity::from([(String::new(), vec![number])]))
    }

    /// Of the model `add`, whose output is FP32 of 4 a row.
    fn response(rows: usize) -> InferResponse {
        let bytes: Vec<u8> = (0..rows * 16).map(|number| number as u8).collect();
        let tensor = Tensor::new(Datatype::Fp32, smallvec![rows, 4], Buffer::Shared(bytes.into())).unwrap();
        let parameters = vec![
            ("a".to_owned(), Parameter::Bool(true)),
            ("b".to_owned(), Parameter::Int(-1)),
            ("c".to_owned(), Parameter::Uint(u64::MAX)),
            ("d".to_owned(), Parameter::Float(0.5)),
            ("e".to_owned(), Parameter::String("\u{e9}".to_owned())),
        ];
        let outputs = testing::add().outputs.iter().map(|_| tensor.clone()).collect();
        InferResponse { outputs, parameters, timings: Timings::default(), head: None }
    }

    fn read(rows: usize, number: u8, bytes: Vec<u8>) -> Option<(InferResponse, Duration)> {
        decode(&testing::add(), rows, &key(number), bytes.into(), UNIX_EPOCH + Duration::from_millis(12))
    }

    #[test]
    fn cache_entry_round_trips_with_its_age() {
        let bytes = encode(&key(1), &response(2), UNIX_EPOCH + Duration::from_millis(5)).unwrap();
        let (read, age) = read(2, 1, bytes).unwrap();
        assert_eq!((age, &read.parameters), (Duration::from_millis(7), &response(2).parameters));
        assert_eq!(read.outputs[0].as_slice(), response(2).outputs[0].as_slice());
        assert_eq!(read.outputs[0].shape(), [2, 4]);
    }

    #[test]
    fn entry_of_another_key_or_row_count_is_refused() {
        let bytes = encode(&key(1), &response(2), UNIX_EPOCH).unwrap();
        assert!(read(2, 2, bytes.clone()).is_none());
        assert!(read(3, 1, bytes.clone()).is_none());
        let mut longer = bytes;
        longer.push(0);
        assert!(read(2, 1, longer).is_none());
        let list = InferResponse { parameters: vec![("l".into(), Parameter::List(Vec::new()))], ..response(1) };
        assert!(encode(&key(1), &list, UNIX_EPOCH).is_none());
    }

    /// The body with a valid digest, as an attacker with write access could make it.
    fn sealed(body: &[u8]) -> Vec<u8> {
        [&MARK[..], &checksum(&key(1), body), body].concat()
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_or_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(read(1, 1, bytes.clone()).is_none());
            let _ = read(1, 1, sealed(&bytes));
        }

        #[test]
        fn changed_or_truncated_entry_is_refused(place in any::<prop::sample::Index>(), byte in 1..=255_u8) {
            let good = encode(&key(1), &response(1), UNIX_EPOCH).unwrap();
            let place = place.index(good.len());
            prop_assert!(read(1, 1, good[..place].to_vec()).is_none());
            let mut changed = good.clone();
            changed[place] ^= byte;
            prop_assert!(read(1, 1, changed.clone()).is_none());
            if place >= HEAD && let Some((read, _)) = read(1, 1, sealed(&changed[HEAD..])) {
                prop_assert_eq!(read.outputs[0].as_slice().len(), 16);
            }
        }
    }
}
