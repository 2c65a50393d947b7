//! Models that differ in everything that decoding depends on.

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use penstock_core::{Datatype, ModelSpec, TensorSpec, testing};

/// A few bytes that choose a model.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Declaration {
    datatype: u8,
    second_datatype: u8,
    dims: u8,
    flags: u8,
}

impl Declaration {
    /// The model: inputs `x` and perhaps `z`, and outputs of the same names; or a raw-request model.
    pub fn spec(self) -> ModelSpec {
        let flag = |bit: u8| self.flags & (1 << bit) != 0;
        let batching = flag(0).then(|| testing::batching(8));
        let mut spec = testing::fp32_spec("m", dims(self.dims), batching);
        spec.wants_context = flag(1);
        spec.inputs[0].datatype = datatype(self.datatype);
        spec.inputs[0].text = flag(2);
        spec.inputs[0].document = flag(5) && spec.inputs[0].datatype == Datatype::Bytes;
        if flag(3) {
            let first = &spec.inputs[0];
            let second = TensorSpec {
                optional: flag(4),
                ..TensorSpec::new("z", datatype(self.second_datatype), first.dims.clone())
            };
            spec.inputs.push(second);
        }
        if flag(6) {
            spec.inputs.clear();
            spec.raw_requests = true;
        }
        spec.outputs = spec.inputs.clone();
        spec
    }
}

fn datatype(choice: u8) -> Datatype {
    Datatype::ALL[usize::from(choice) % Datatype::ALL.len()]
}

fn dims(choice: u8) -> &'static [Option<usize>] {
    match choice % 6 {
        0 => &[None],
        1 => &[],
        2 => &[Some(2)],
        3 => &[None, None],
        4 => &[Some(2), None],
        _ => &[None, Some(0)],
    }
}
