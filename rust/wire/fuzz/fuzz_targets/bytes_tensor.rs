//! BYTES framing: what `check` accepts is read whole, and framing its elements again gives the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::bytes_tensor::{check, elements, offset_after, prefix};
use penstock_wire_fuzz::within_budget;

fuzz_target!(|case: (u16, &[u8])| {
    within_budget(case.1.len(), || {
        let (count, buffer) = (usize::from(case.0), case.1);
        let read = elements(buffer).count();
        if check(buffer, count).is_err() {
            return;
        }
        assert_eq!(read, count);
        assert_eq!(offset_after(buffer, count), buffer.len());
        let mut framed = Vec::with_capacity(buffer.len());
        for (index, element) in elements(buffer).enumerate() {
            assert_eq!(offset_after(buffer, index), framed.len());
            framed.extend_from_slice(&prefix(element.len()).expect("an element that was read"));
            framed.extend_from_slice(element);
        }
        assert_eq!(framed, buffer);
        assert!(check(buffer, count + 1).is_err(), "an element more than there is");
        assert!(count == 0 || check(buffer, count - 1).is_err(), "bytes after the last element");
    });
});
