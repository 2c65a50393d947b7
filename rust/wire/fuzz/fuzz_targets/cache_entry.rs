//! Cached responses of another server: any bytes, with a wrong checksum and with a right one.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use penstock_core::{
    InferRequest, Protocol,
    cache::{Identity, Key, checksum},
};
use penstock_wire::cache_entry::{decode, encode};
use penstock_wire_fuzz::{Declaration, within_budget};
use std::time::UNIX_EPOCH;

#[derive(Arbitrary, Debug)]
struct Case {
    declaration: Declaration,
    rows: u8,
    bytes: Vec<u8>,
}

fuzz_target!(|case: Case| {
    within_budget(0, || {
        let spec = case.declaration.spec();
        let Ok(request) = InferRequest::place(&spec, [], Protocol::InProcess) else { return };
        let key = Key::new(&spec, &request, &Identity::new());
        let read = |bytes: Vec<u8>| decode(&spec, case.rows.into(), &key, Bytes::from(bytes), UNIX_EPOCH);
        let sealed = [&b"PSC1"[..], &checksum(&key, &case.bytes), &case.bytes].concat();
        if let Some((response, _)) = read(sealed) {
            // What is read can be written, and read again as the same.
            let again = encode(&key, &response, UNIX_EPOCH).and_then(read).expect("an answer that was read").0;
            assert_eq!(again.outputs.len(), response.outputs.len());
            for (one, other) in again.outputs.iter().zip(&response.outputs) {
                assert_eq!((one.shape(), one.as_slice()), (other.shape(), other.as_slice()));
            }
        }
        assert!(read(case.bytes.clone()).is_none());
    });
});
