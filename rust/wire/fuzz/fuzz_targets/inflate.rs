//! Compressed bodies: any bytes, in any chunks, within any limits; and bodies compressed here.
#![no_main]

use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use penstock_core::Result;
use penstock_wire::coding::{Coding, InflateLimits, Inflater, compress};
use penstock_wire_fuzz::{pieces, within_budget};

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    coding: u8,
    bytes: u16,
    ratio: u8,
    room: u16,
    sizes: [u8; 4],
    body: &'a [u8],
}

fuzz_target!(|case: Case<'_>| {
    within_budget(case.body.len(), || {
        let coding = Coding::ALL[usize::from(case.coding) % Coding::ALL.len()];
        let bounds = InflateLimits { bytes: usize::from(case.bytes), ratio: usize::from(case.ratio) };
        let whole = inflated(coding, bounds, usize::MAX, std::iter::once(case.body));
        let parts = inflated(coding, bounds, usize::from(case.room).max(1), pieces(case.body, &case.sizes));
        assert_eq!(whole.is_ok(), parts.is_ok(), "{whole:?} {parts:?}");
        if let (Ok(whole), Ok(parts)) = (whole, parts) {
            assert_eq!(whole, parts);
            assert!(whole.len() <= bounds.bytes);
        }
        // What is written is read.
        let Ok(small) = compress(coding, &[case.body]) else { return };
        let wide = InflateLimits { bytes: case.body.len(), ratio: usize::MAX };
        assert_eq!(inflated(coding, wide, 1000, pieces(&small, &case.sizes)).expect("its own data"), case.body);
    });
});

fn inflated<'a>(
    coding: Coding,
    bounds: InflateLimits,
    room: usize,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<u8>> {
    let mut inflater = Inflater::new(coding, bounds);
    for mut piece in pieces {
        while inflater.is_pending() || !piece.is_empty() {
            inflater.write(&mut piece, room)?;
        }
    }
    inflater.finish()
}
