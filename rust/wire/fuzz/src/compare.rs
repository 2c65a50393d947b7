//! Equality of tensors and of outcomes.

use penstock_core::{Datatype, InferRequest, Result, Tensor, byte_size, bytes_tensor, element_count};

/// Inputs of a request.
pub fn tensors(request: &InferRequest) -> Vec<Tensor> {
    request.inputs.iter().flatten().cloned().collect()
}

/// Asserts what handlers rely on.
///
/// # Panics
/// A tensor's bytes are not exactly its shape's elements, are not aligned, or hold a bool other than 0 and 1.
pub fn assert_well_formed(tensors: &[Tensor]) {
    for tensor in tensors {
        let (bytes, shape) = (tensor.as_slice(), tensor.shape());
        match byte_size(tensor.datatype(), shape).expect("a tensor's shape was checked") {
            Some(size) => assert_eq!(bytes.len(), size, "{tensor:?}"),
            None => bytes_tensor::check(bytes, element_count(shape).expect("as above")).expect("whole elements"),
        }
        assert_eq!(bytes.as_ptr() as usize % 64, 0, "{tensor:?}");
        if tensor.datatype() == Datatype::Bool {
            assert!(bytes.iter().all(|&byte| byte <= 1), "{bytes:?}");
        }
    }
}

/// Asserts that two lists hold the same tensors. All NaN are equal.
///
/// # Panics
/// They differ.
pub fn same_tensors(left: &[Tensor], right: &[Tensor]) {
    assert_eq!(left.len(), right.len());
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left.datatype(), right.datatype());
        assert_eq!(left.shape(), right.shape());
        let nans = nan_bits(left.datatype());
        let size = left.datatype().size().unwrap_or(1);
        assert_eq!(left.as_slice().len(), right.as_slice().len());
        for (left, right) in left.as_slice().chunks(size).zip(right.as_slice().chunks(size)) {
            let both_nan = nans.is_some_and(|bits| is_nan(left, bits) && is_nan(right, bits));
            assert!(left == right || both_nan, "{left:?} came back as {right:?}");
        }
    }
}

/// Asserts that two ways to decode the same bytes have the same outcome.
///
/// # Panics
/// One is refused and the other is not, or their tensors differ.
pub fn same_outcome(left: &Result<Vec<Tensor>>, right: &Result<Vec<Tensor>>) {
    match (left, right) {
        (Ok(left), Ok(right)) => same_tensors(left, right),
        (Err(_), Err(_)) => {}
        _ => panic!("one way gives {left:?}, the other {right:?}"),
    }
}

/// The bits of infinity: with the sign taken off, a NaN is above them.
fn nan_bits(datatype: Datatype) -> Option<u64> {
    match datatype {
        Datatype::Fp16 => Some(0x7c00),
        Datatype::Bf16 => Some(0x7f80),
        Datatype::Fp32 => Some(0x7f80_0000),
        Datatype::Fp64 => Some(0x7ff0_0000_0000_0000),
        _ => None,
    }
}

fn is_nan(element: &[u8], infinity: u64) -> bool {
    let mut bits = [0; 8];
    bits[..element.len()].copy_from_slice(element);
    let sign = 1_u64 << (element.len() * 8 - 1);
    u64::from_le_bytes(bits) & !sign > infinity
}
