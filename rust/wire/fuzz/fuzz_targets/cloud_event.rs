//! Structured CloudEvents: no bytes cause a panic, and the response to an accepted event is an event.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use penstock_wire::{
    Limits,
    rest::cloud_event::{Event, ResponseAttributes},
};
use penstock_wire_fuzz::within_budget;

fuzz_target!(|json: &[u8]| {
    within_budget(json.len(), || {
        let Ok((event, data)) = Event::structured(&Bytes::copy_from_slice(json), &Limits::default()) else { return };
        let fresh = ResponseAttributes { id: "1", time: "2026-01-31T12:00:00Z", source: "s", kind: "k" };
        for merge in [false, true] {
            let answer = event.answer(merge, fresh).write("application/octet-stream", &data);
            let again = Event::structured(&Bytes::from(answer), &Limits::default());
            let (_, same) = again.unwrap_or_else(|error| panic!("{error}: {}", json.escape_ascii()));
            assert_eq!(data, same);
        }
    });
});
