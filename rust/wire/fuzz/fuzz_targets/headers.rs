//! Headers with a grammar: deadlines, codings, and events whose attributes are headers.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use penstock_wire::{
    Limits,
    coding::{Coding, choose},
    grpc,
    rest::cloud_event::{Event, ResponseAttributes},
};
use penstock_wire_fuzz::within_budget;

#[derive(Arbitrary, Debug)]
struct Case {
    timeout: Vec<u8>,
    accept: String,
    attributes: Vec<(String, String)>,
    complete: bool,
}

fuzz_target!(|case: Case| {
    within_budget(case.timeout.len(), || {
        if grpc::timeout(&case.timeout).is_some() {
            assert!((2..=9).contains(&case.timeout.len()));
        }
        // Brotli is read and not written.
        if let Some(coding) = choose(&case.accept) {
            assert!(matches!(coding, Coding::Gzip | Coding::Deflate | Coding::Zstd));
        }
        event(&case);
    });
});

fn event(case: &Case) {
    let needed = [("specversion", "1.0"), ("id", "7"), ("source", "/s"), ("type", "t")];
    let needed = needed.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let needed = needed.into_iter().filter(|_| case.complete);
    let Ok(event) = Event::binary(case.attributes.iter().cloned().chain(needed)) else { return };
    for merge in [false, true] {
        let fresh = ResponseAttributes { id: "1", time: "2026-01-31T12:00:00Z", source: "s", kind: "k" };
        let written = event.answer(merge, fresh).write("application/json", b"{}");
        let again = Event::structured(&Bytes::from(written.clone()), &Limits::default());
        again.unwrap_or_else(|error| panic!("{error}: {}", written.escape_ascii()));
    }
}
