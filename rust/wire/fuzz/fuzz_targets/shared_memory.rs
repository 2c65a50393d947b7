//! Registrations of shared memory: refused, or returned unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::Kind;
use penstock_wire::rest::shared_memory::{registration, status};
use penstock_wire_fuzz::within_budget;

fuzz_target!(|body: &[u8]| {
    within_budget(body.len(), || {
        match registration("r".to_owned(), body) {
            Err(error) => assert!(error.kind() == Kind::InvalidInput && error.message().contains("'r'"), "{error:?}"),
            Ok(region) => {
                let shown = status(std::slice::from_ref(&region));
                // One region of a list, which is a registration but for the name that it ignores.
                let again = registration("r".to_owned(), &shown[1..shown.len() - 1]).expect("its own JSON");
                assert_eq!(region, again);
            }
        }
    });
});
