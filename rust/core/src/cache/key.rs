//! Cache keys: all parts of a request that the model can see, and the identity of the client.
//!
//! A key is a BLAKE3 digest of 256 bits. Each part is preceded by its length, so different requests have different
//! digest inputs. BLAKE3 is collision resistant, so keys are compared and requests are not stored.

use crate::{ClientIdentity, InferRequest, ModelSpec, Parameter, Tensor};
use std::fmt;

/// Domain of the digest. It changes with the digest's input.
const CONTEXT: &str = "penstock: the key of a cached response, form 2";
const SHARED: &str = "penstock: the key of a shared response, form 1";
const CHECKSUM: &str = "penstock: the checksum of a shared response, form 1";

/// Identity of a client: header names in lower case, and their values.
pub type Identity = Vec<(String, Vec<u8>)>;

/// Key of one request to one model. Clients cannot choose it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// Key of a request by a client.
    ///
    /// Requested outputs are included only if the handler knows them. Otherwise a model computes all outputs, and the
    /// encoder selects. The deadline is not included.
    pub fn new(spec: &ModelSpec, request: &InferRequest, identity: &Identity) -> Self {
        let mut digest = Digest(blake3::Hasher::new_derive_key(CONTEXT));
        digest.text(&spec.name);
        digest.text(&spec.version);
        digest.number(identity.len() as u64);
        for (name, value) in identity {
            digest.text(name);
            digest.bytes(value);
        }
        digest.number(request.inputs.len() as u64);
        request.inputs.iter().for_each(|input| digest.input(input.as_ref()));
        // A handler that reads metadata may depend on any of it.
        digest.number(u64::from(request.metadata.is_some()));
        if let Some(metadata) = &request.metadata {
            let apart = spec.cache.as_ref().is_none_or(|caching| caching.per_client);
            digest.number(u64::from(apart));
            if apart {
                digest.number(request.schedule.priority);
                digest.text(&metadata.id);
                digest.client(metadata.client.as_deref());
                digest.number(metadata.headers.len() as u64);
                for (name, value) in metadata.headers.iter() {
                    digest.text(name);
                    digest.text(value);
                }
            }
            // The handler may compute the requested outputs only.
            digest.number(metadata.outputs.as_ref().map_or(u64::MAX, |outputs| outputs.len() as u64));
            metadata.outputs.iter().flatten().for_each(|&output| digest.number(output as u64));
            digest.number(metadata.parameters.len() as u64);
            for (name, value) in &metadata.parameters {
                digest.text(name);
                digest.parameter(value);
            }
        }
        Self(digest.0.finalize().into())
    }

    /// Key of the request on all servers with the same revision and outputs of the model.
    pub fn shared(&self, spec: &ModelSpec, revision: &str) -> Self {
        let mut digest = Digest(blake3::Hasher::new_derive_key(SHARED));
        digest.bytes(&self.0);
        digest.text(revision);
        digest.number(u64::from(spec.batching.is_some()));
        for output in &spec.outputs {
            digest.text(&output.name);
            digest.text(output.datatype.name());
            digest.number(output.dims.len() as u64);
            output.dims.iter().for_each(|dim| digest.number(dim.map_or(u64::MAX, |dim| dim as u64)));
        }
        for input in &spec.inputs {
            digest.text(&input.name);
        }
        Self(digest.0.finalize().into())
    }

    /// Digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", blake3::Hash::from(self.0).to_hex())
    }
}

/// Checksum of an entry in a shared cache: detects truncated entries, and entries of other keys.
pub fn checksum(key: &Key, bytes: &[u8]) -> [u8; 32] {
    let mut digest = Digest(blake3::Hasher::new_derive_key(CHECKSUM));
    digest.bytes(&key.0);
    digest.bytes(bytes);
    digest.0.finalize().into()
}

struct Digest(blake3::Hasher);

impl Digest {
    fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn client(&mut self, client: Option<&ClientIdentity>) {
        self.number(u64::from(client.is_some()));
        let Some(client) = client else { return };
        self.text(client.kind());
        self.text(&client.name());
        self.text(&client.address.map_or_else(String::new, |address| address.to_string()));
        self.text(client.certificate.as_ref().map_or("", |certificate| &certificate.fingerprint));
    }

    fn input(&mut self, input: Option<&Tensor>) {
        self.number(u64::from(input.is_some()));
        let Some(tensor) = input else { return };
        self.text(tensor.datatype().name());
        self.number(tensor.shape().len() as u64);
        tensor.shape().iter().for_each(|&axis| self.number(axis as u64));
        self.bytes(tensor.as_slice());
    }

    fn parameter(&mut self, value: &Parameter) {
        match value {
            Parameter::Bool(value) => [0, u64::from(*value)].into_iter().for_each(|number| self.number(number)),
            Parameter::Int(value) => [1, value.cast_unsigned()].into_iter().for_each(|number| self.number(number)),
            Parameter::Uint(value) => [2, *value].into_iter().for_each(|number| self.number(number)),
            Parameter::Float(value) => [3, value.to_bits()].into_iter().for_each(|number| self.number(number)),
            Parameter::String(value) => {
                self.number(4);
                self.text(value);
            }
            Parameter::List(values) => {
                [5, values.len() as u64].into_iter().for_each(|number| self.number(number));
                values.iter().for_each(|value| self.parameter(value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Caching, Datatype, Protocol, RequestMetadata, Schedule, TensorSpec, aligned_zeroed};
    use proptest::prelude::*;
    use smallvec::SmallVec;
    use std::collections::HashSet;

    fn spec() -> ModelSpec {
        let input = |name| TensorSpec { optional: true, ..TensorSpec::new(name, Datatype::Uint8, vec![None]) };
        ModelSpec { name: "m".into(), inputs: vec![input("a"), input("b")], ..ModelSpec::default() }
    }

    fn tensor(bytes: &[u8], shape: &[usize]) -> Tensor {
        let mut buffer = aligned_zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        Tensor::new(Datatype::Uint8, shape.into(), Buffer::Aligned(buffer)).unwrap()
    }

    fn request(inputs: [Option<&[u8]>; 2]) -> InferRequest {
        let inputs = inputs.into_iter().map(|bytes| bytes.map(|bytes| tensor(bytes, &[bytes.len()])));
        let (inputs, protocol) = (inputs.collect(), Protocol::InProcess);
        InferRequest {
            inputs,
            rows: 1,
            metadata: None,
            deadline: None,
            protocol,
            schedule: Schedule::default(),
            takes_ownership: false,
            context: None,
            raw: None,
        }
    }

    fn request_with_metadata(id: &str, parameters: &[(&str, Parameter)], headers: &[(&str, &str)]) -> InferRequest {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let headers = headers.iter().copied().collect();
        let metadata = RequestMetadata { id: id.to_owned(), parameters, headers, outputs: None, client: None };
        InferRequest { metadata: Some(Box::new(metadata)), ..request([Some(b"x"), None]) }
    }

    #[test]
    fn cache_key_covers_everything_the_handler_sees() {
        let spec = spec();
        let list = |values: &[i64]| Parameter::List(values.iter().map(|&value| Parameter::Int(value)).collect());
        let mut requests = vec![
            request([None, None]),
            request([Some(b""), None]),
            request([None, Some(b"")]),
            request([Some(b"x"), None]),
            request([Some(b"x"), Some(b"")]),
            request([Some(b""), Some(b"x")]),
            request([Some(b"xy"), None]),
            request_with_metadata("", &[], &[]),
            request_with_metadata("1", &[], &[]),
            request_with_metadata("", &[("p", Parameter::Int(1))], &[]),
            request_with_metadata("", &[("p", Parameter::Uint(1))], &[]),
            request_with_metadata("", &[("p", Parameter::Bool(true))], &[]),
            request_with_metadata("", &[("p", Parameter::Float(1.0))], &[]),
            request_with_metadata("", &[("p", Parameter::String("1".into()))], &[]),
            request_with_metadata("", &[("p", list(&[1]))], &[]),
            request_with_metadata("", &[("p", list(&[1, 2]))], &[]),
            request_with_metadata("", &[("p", list(&[])), ("q", list(&[]))], &[]),
            request_with_metadata("", &[], &[("p", "1")]),
            request_with_metadata("", &[], &[("p", ""), ("1", "")]),
        ];
        let mut shaped = request([None, None]);
        shaped.inputs = SmallVec::from_vec(vec![Some(tensor(b"xy", &[2, 1])), None]);
        requests.push(shaped);
        let mut urgent = request_with_metadata("", &[], &[]);
        urgent.schedule.priority = 1;
        requests.push(urgent);
        let keys: HashSet<Key> = requests.iter().map(|request| Key::new(&spec, request, &Identity::new())).collect();
        assert_eq!(keys.len(), requests.len());
        // Without metadata the handler cannot see the priority or the deadline.
        let mut same = request([Some(b"x"), None]);
        (same.schedule.priority, same.deadline) = (3, Some(std::time::Instant::now()));
        assert!(keys.contains(&Key::new(&spec, &same, &Identity::new())));
    }

    #[test]
    fn cache_key_without_vary_ignores_ids_and_headers() {
        let caching = Caching { max_bytes: 1, ttl: None, vary: Vec::new(), revision: None, per_client: false };
        let spec = ModelSpec { cache: Some(caching), ..spec() };
        let key = |request: &InferRequest| Key::new(&spec, request, &Identity::new());
        let one = request_with_metadata("1", &[("p", Parameter::Int(1))], &[("x", "y")]);
        assert_eq!(key(&one), key(&request_with_metadata("2", &[("p", Parameter::Int(1))], &[])));
        assert_ne!(key(&one), key(&request_with_metadata("1", &[("p", Parameter::Int(2))], &[("x", "y")])));
        let key_of_outputs = |outputs: &[usize]| {
            let mut request = request_with_metadata("1", &[("p", Parameter::Int(1))], &[]);
            request.metadata.as_mut().unwrap().outputs = Some(outputs.into());
            key(&request)
        };
        let keys = HashSet::from([
            key(&one),
            key_of_outputs(&[]),
            key_of_outputs(&[0]),
            key_of_outputs(&[1]),
            key_of_outputs(&[0, 1]),
        ]);
        assert_eq!(keys.len(), 5);
    }

    #[test]
    fn cache_key_differs_by_model_version_and_client() {
        let one = request([Some(b"x"), None]);
        let named = |name: &str, version: &str| ModelSpec { name: name.into(), version: version.into(), ..spec() };
        let identity = |pairs: &[(&str, &str)]| -> Identity {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect()
        };
        let identities = [
            (named("m", "1"), identity(&[])),
            (named("m1", ""), identity(&[])),
            (named("m", "2"), identity(&[])),
            (named("m", "1"), identity(&[("authorization", "a")])),
            (named("m", "1"), identity(&[("authorization", "b")])),
            (named("m", "1"), identity(&[("x", "a")])),
            (named("m", "1"), identity(&[("authorization", "a"), ("authorization", "b")])),
        ];
        let keys: HashSet<Key> = identities.iter().map(|(spec, identity)| Key::new(spec, &one, identity)).collect();
        assert_eq!(keys.len(), identities.len());
    }

    proptest! {
        #[test]
        fn cache_keys_are_equal_exactly_if_inputs_are(
            one in any::<[Option<Vec<u8>>; 2]>(), other in any::<[Option<Vec<u8>>; 2]>(),
        ) {
            let spec = spec();
            let key = |inputs: &[Option<Vec<u8>>; 2]| {
                let inputs = inputs.each_ref().map(|bytes| bytes.as_deref());
                Key::new(&spec, &request(inputs), &Identity::new())
            };
            prop_assert_eq!(key(&one) == key(&other), one == other);
            prop_assert_eq!(key(&one), key(&one.clone()));
        }
    }
}
