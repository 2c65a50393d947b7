//! Classification: the largest elements of an output as text, largest first.
//!
//! An element becomes `value:index`, or `value:index:label` if the model has labels. Values are formatted like C's `%f`
//! and `%d`, which clients parse.

use crate::{
    Buffer, Datatype, ElementKind, Error, InferResponse, Kind, ModelSpec, RequestedOutput, ResponsePlan, Result, Shape,
    Tensor, TensorSpec, bytes_tensor,
};
use std::{cmp::Ordering, fmt::Write as _};

/// Maximum elements of an output that is classified.
pub const MAX_CLASSIFIED: usize = 1_000_000;

/// Checks before the computation that an output can be classified.
///
/// # Errors
/// `InvalidInput`: the datatype is not an integer type, FP32 or FP64.
pub fn check(output: &TensorSpec) -> Result<()> {
    match (output.datatype.kind(), output.datatype.size()) {
        (ElementKind::Int | ElementKind::Uint, _) | (ElementKind::Float, Some(4 | 8)) => Ok(()),
        _ => Err(Error::invalid(format!(
            "output '{}' cannot be classified: its datatype is {}, expected integers, FP32 or FP64",
            output.name, output.datatype
        ))),
    }
}

/// Returns true if a response has outputs to classify.
pub fn is_requested(plan: &ResponsePlan) -> bool {
    plan.outputs.as_ref().is_some_and(|outputs| outputs.iter().any(|output| output.classes > 0))
}

/// Replaces the requested outputs of a response by their classes.
///
/// # Errors
/// `InvalidInput`: as [`check`], or an output has more than [`MAX_CLASSIFIED`] elements.
pub fn apply(spec: &ModelSpec, plan: &ResponsePlan, response: &mut InferResponse) -> Result<()> {
    let asked = plan.outputs.iter().flatten().filter(|output| output.classes > 0);
    for &RequestedOutput { index, classes, .. } in asked {
        let (Some(declared), Some(tensor)) = (spec.outputs.get(index), response.outputs.get_mut(index)) else {
            return Err(Error::new(Kind::Internal, format!("model '{}' has no output {index}", spec.name)));
        };
        if tensor.is_absent() {
            continue;
        }
        *tensor = classified(declared, tensor, spec.batching.is_some(), classes)?;
    }
    Ok(())
}

/// A BYTES tensor of the `classes` largest elements, for each row of a batch.
fn classified(output: &TensorSpec, tensor: &Tensor, batched: bool, classes: u32) -> Result<Tensor> {
    check(output)?;
    let (batch, row) = tensor.shape().split_at(usize::from(batched).min(tensor.shape().len()));
    let elements = crate::element_count(tensor.shape())?;
    if elements > MAX_CLASSIFIED {
        return Err(Error::invalid(format!(
            "output '{}' cannot be classified: it has {elements} elements, at most {MAX_CLASSIFIED} are accepted",
            output.name
        )));
    }
    let length = crate::element_count(row)?;
    let kept = length.min(classes as usize);
    let mut shape = Shape::from_slice(batch);
    shape.push(kept);
    let ranking = Ranking { length, kept, labels: &output.labels };
    let bytes = tensor.as_slice();
    let text = match tensor.datatype() {
        Datatype::Uint8 => ranking.of(bytes, u8::from_le_bytes, u8::cmp, put_integer),
        Datatype::Uint16 => ranking.of(bytes, u16::from_le_bytes, u16::cmp, put_integer),
        Datatype::Uint32 => ranking.of(bytes, u32::from_le_bytes, u32::cmp, put_integer),
        Datatype::Uint64 => ranking.of(bytes, u64::from_le_bytes, u64::cmp, put_integer),
        Datatype::Int8 => ranking.of(bytes, i8::from_le_bytes, i8::cmp, put_integer),
        Datatype::Int16 => ranking.of(bytes, i16::from_le_bytes, i16::cmp, put_integer),
        Datatype::Int32 => ranking.of(bytes, i32::from_le_bytes, i32::cmp, put_integer),
        Datatype::Int64 => ranking.of(bytes, i64::from_le_bytes, i64::cmp, put_integer),
        Datatype::Fp32 => ranking.of(bytes, |bytes| f64::from(f32::from_le_bytes(bytes)), by_number, put_float),
        Datatype::Fp64 => ranking.of(bytes, f64::from_le_bytes, by_number, put_float),
        _ => Ok(Vec::new()),
    };
    Tensor::new(Datatype::Bytes, shape, Buffer::Shared(text?.into()))
}

/// Ranking of the elements of a row.
struct Ranking<'a> {
    /// Elements of a row.
    length: usize,
    /// Number of elements to return.
    kept: usize,
    labels: &'a [Box<str>],
}

impl Ranking<'_> {
    fn of<T: Copy, const N: usize>(
        &self,
        bytes: &[u8],
        read: impl Fn([u8; N]) -> T,
        order: impl Fn(&T, &T) -> Ordering,
        put: impl Fn(&mut String, T),
    ) -> Result<Vec<u8>> {
        let (mut framed, mut text, mut best) = (Vec::new(), String::new(), Vec::new());
        if self.kept == 0 {
            return Ok(framed);
        }
        for row in bytes.as_chunks::<N>().0.chunks_exact(self.length) {
            // Ties go to the lower index, so that no two elements compare as equal.
            let better = |&a: &usize, &b: &usize| order(&read(row[b]), &read(row[a])).then(a.cmp(&b));
            best.clear();
            best.extend(0..self.length);
            if self.kept < self.length {
                best.select_nth_unstable_by(self.kept, better);
                best.truncate(self.kept);
            }
            best.sort_unstable_by(better);
            for &index in &best {
                text.clear();
                put(&mut text, read(row[index]));
                // Writing to a string cannot fail.
                let _ = write!(text, ":{index}");
                if let Some(label) = self.labels.get(index).filter(|label| !label.is_empty()) {
                    let _ = write!(text, ":{label}");
                }
                framed.extend_from_slice(&bytes_tensor::prefix(text.len())?);
                framed.extend_from_slice(text.as_bytes());
            }
        }
        Ok(framed)
    }
}

/// Orders by value, with NaN below all numbers.
fn by_number(a: &f64, b: &f64) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn put_integer(text: &mut String, value: impl std::fmt::Display) {
    let _ = write!(text, "{value}");
}

fn put_float(text: &mut String, value: f64) {
    // The sign of a NaN has no meaning, and Rust prints `NaN`.
    let _ = if value.is_nan() { text.write_str("nan") } else { write!(text, "{value:.6}") };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batching, Timings};
    use proptest::prelude::*;
    use smallvec::smallvec;

    fn spec(datatype: Datatype, batched: bool, labels: &[&str]) -> ModelSpec {
        let labels = labels.iter().map(|&label| label.into()).collect();
        let output = TensorSpec { labels, ..TensorSpec::new("y", datatype, vec![None]) };
        ModelSpec { outputs: vec![output], batching: batched.then(|| Batching::new(8)), ..ModelSpec::default() }
    }

    fn run(spec: &ModelSpec, shape: &[usize], bytes: Vec<u8>, classes: u32) -> Result<(Vec<usize>, Vec<String>)> {
        let tensor = Tensor::new(spec.outputs[0].datatype, shape.into(), Buffer::Shared(bytes.into()))?;
        let mut response = InferResponse {
            outputs: smallvec![tensor],
            parameters: Vec::new(),
            timings: Timings::default(),
            head: None,
        };
        let output = RequestedOutput { classes, ..RequestedOutput::new(0, false) };
        let plan = ResponsePlan { outputs: Some(smallvec![output]), ..ResponsePlan::default() };
        assert!(is_requested(&plan));
        apply(spec, &plan, &mut response)?;
        let output = &response.outputs[0];
        assert_eq!(output.datatype(), Datatype::Bytes);
        let text = bytes_tensor::elements(output.as_slice()).map(|text| String::from_utf8(text.to_vec()).unwrap());
        Ok((output.shape().to_vec(), text.collect()))
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn largest_classes_come_first_with_their_labels() {
        let labelled = spec(Datatype::Fp32, true, &["cat", "", "bird"]);
        let output = run(&labelled, &[2, 4], floats(&[0.1, 3.3, 2.0, 9.5, 7.0, -1.0, 7.0, 0.0]), 3).unwrap();
        let expected =
            ["9.500000:3", "3.300000:1", "2.000000:2:bird", "7.000000:0:cat", "7.000000:2:bird", "0.000000:3"];
        assert_eq!(output, (vec![2, 3], expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn without_a_batch_axis_all_elements_are_one_row() {
        let (shape, text) = run(&spec(Datatype::Int8, false, &[]), &[2, 2], vec![1, 0x80, 127, 255], 9).unwrap();
        assert_eq!((shape, text.join(" ")), (vec![4], "127:2 1:0 -1:3 -128:1".to_owned()));
    }

    #[test]
    fn rows_without_elements_have_no_classes() {
        assert_eq!(run(&spec(Datatype::Fp32, true, &[]), &[3, 0], Vec::new(), 2).unwrap(), (vec![3, 0], Vec::new()));
        assert_eq!(run(&spec(Datatype::Fp32, true, &[]), &[0, 4], Vec::new(), 2).unwrap(), (vec![0, 2], Vec::new()));
        assert_eq!(run(&spec(Datatype::Fp32, false, &[]), &[], floats(&[2.0]), 2).unwrap().0, [1]);
    }

    #[test]
    fn nan_sorts_last_and_infinities_at_the_ends() {
        let values = [f32::NAN, f32::INFINITY, -f32::NAN, f32::NEG_INFINITY, -0.0, 0.0];
        let (_, text) = run(&spec(Datatype::Fp32, false, &[]), &[6], floats(&values), 6).unwrap();
        assert_eq!(text.join(" "), "inf:1 -0.000000:4 0.000000:5 -inf:3 nan:0 nan:2");
    }

    #[test]
    fn class_scores_have_six_decimals_rounded_as_in_c() {
        let values = [0.0078125_f64, 0.0234375, 1e22, 123_456.789_012_5, f64::MIN_POSITIVE];
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (_, text) = run(&spec(Datatype::Fp64, false, &[]), &[5], bytes, 5).unwrap();
        let expected = "10000000000000000000000.000000:2 123456.789012:3 0.023438:1 0.007812:0 0.000000:4";
        assert_eq!(text.join(" "), expected);
    }

    #[test]
    fn classification_refusals_name_the_output() {
        for datatype in Datatype::ALL {
            let spec = spec(datatype, false, &[]);
            let refused = matches!(datatype, Datatype::Bool | Datatype::Fp16 | Datatype::Bf16 | Datatype::Bytes);
            assert_eq!(check(&spec.outputs[0]).is_err(), refused);
        }
        let error = check(&spec(Datatype::Bytes, false, &[]).outputs[0]).unwrap_err();
        assert_eq!(
            error.message(),
            "output 'y' cannot be classified: its datatype is BYTES, expected integers, FP32 or FP64"
        );
        let most = MAX_CLASSIFIED;
        let bytes = |count| vec![0; count];
        assert_eq!(run(&spec(Datatype::Uint8, false, &[]), &[most], bytes(most), 1).unwrap().0, [1]);
        let error = run(&spec(Datatype::Uint8, true, &[]), &[2, most], bytes(2 * most), 1).unwrap_err();
        assert_eq!(
            error.message(),
            "output 'y' cannot be classified: it has 2000000 elements, at most 1000000 are accepted"
        );
        assert_eq!(error.kind(), Kind::InvalidInput);
    }

    proptest! {
        #[test]
        fn classification_agrees_with_a_stable_sort(values in proptest::collection::vec(-4i16..4, 1..40), classes in 1u32..50) {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let (shape, text) = run(&spec(Datatype::Int16, false, &[]), &[values.len()], bytes, classes).unwrap();
            let mut sorted: Vec<(usize, i16)> = values.iter().copied().enumerate().collect();
            sorted.sort_by_key(|&(_, value)| std::cmp::Reverse(value));
            sorted.truncate(classes as usize);
            prop_assert_eq!(shape, vec![sorted.len()]);
            prop_assert_eq!(text, sorted.iter().map(|(index, value)| format!("{value}:{index}")).collect::<Vec<_>>());
        }

        #[test]
        fn any_floats_have_a_total_order(bits in proptest::collection::vec(any::<u32>(), 1..20), classes in 1u32..20) {
            let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
            let spec = spec(Datatype::Fp32, false, &[]);
            let all = run(&spec, &[bits.len()], bytes.clone(), u32::MAX).unwrap().1;
            let some = run(&spec, &[bits.len()], bytes, classes).unwrap().1;
            prop_assert_eq!(&all[..some.len()], &some[..]);
        }
    }
}
