//! Shape arithmetic against arithmetic that cannot overflow, and rows that are split and joined.
#![no_main]

use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use penstock_core::{
    Buffer, Datatype, Inputs, Tensor, aligned_with_capacity,
    batch::gather::{gather, split},
    byte_size, element_count,
};
use penstock_wire_fuzz::{Declaration, same_tensors, within_budget};

/// Rows of the tensors that are split.
const MAX_ROWS: usize = 4096;

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    declaration: Declaration,
    shape: Vec<Dimension>,
    max_rows: u8,
    bytes: &'a [u8],
}

/// Small sizes make tensors, huge ones test the arithmetic.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Dimension {
    Small(u8),
    Any(usize),
}

fuzz_target!(|case: Case<'_>| {
    within_budget(case.shape.len(), || {
        let shape: Vec<usize> = case
            .shape
            .iter()
            .map(|&dimension| match dimension {
                Dimension::Small(size) => usize::from(size % 8),
                Dimension::Any(size) => size,
            })
            .collect();
        arithmetic(&shape);
        let spec = case.declaration.spec();
        // A model that takes any tensors declares none to check them against.
        let Some(datatype) = spec.inputs.first().map(|input| input.datatype) else { return };
        // Its refusal is a message, and making it must not panic either.
        let _ = spec.check_input(0, datatype, &shape);
        let mut buffer = aligned_with_capacity(case.bytes.len());
        buffer.extend_from_slice(case.bytes);
        let Ok(tensor) = Tensor::new(datatype, shape.as_slice().into(), Buffer::Aligned(buffer)) else { return };
        // A tensor without elements may have any number of rows; how many parts there may be is the queue's to bound.
        if let Some(&rows) = shape.first().filter(|&&rows| rows <= MAX_ROWS) {
            parts_and_joins(&tensor, rows, usize::from(case.max_rows).max(1));
        }
    });
});

fn arithmetic(shape: &[usize]) {
    let Ok(count) = element_count(shape) else { return };
    let exact = shape.iter().try_fold(1_u128, |product, &size| product.checked_mul(size as u128));
    assert_eq!(exact, Some(count as u128), "{shape:?}");
    for datatype in Datatype::ALL {
        let size = byte_size(datatype, shape).expect("as many elements as above");
        assert_eq!(size, datatype.size().map(|size| size * count));
        assert!(size.is_none_or(|size| isize::try_from(size).is_ok()));
    }
}

fn parts_and_joins(tensor: &Tensor, rows: usize, max_rows: usize) {
    let inputs: Inputs = [Some(tensor.clone())].into_iter().collect();
    let mut parts = split(inputs, rows, max_rows);
    assert_eq!(parts.iter().map(|(_, rows)| rows).sum::<usize>(), rows);
    if parts.is_empty() {
        return;
    }
    assert!(parts.iter().all(|(_, rows)| *rows <= max_rows));
    let joined = gather(parts.iter_mut().map(|(inputs, _)| inputs), rows);
    let joined: Vec<Tensor> = joined.into_iter().flatten().collect();
    same_tensors(std::slice::from_ref(tensor), &joined);
}
