//! Every datatype decodes to the same bytes from every form that a client may send.

use super::*;
use crate::grpc::{
    protobuf::put_varint,
    testing::{cuts, from_chunks},
};
use bytes::BufMut;
use proptest::prelude::*;
use prost::Message;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Raw,
    Packed,
    Unpacked,
}

/// A tensor by its elements, each made of a number.
#[derive(Clone, Debug)]
struct Case {
    datatype: Datatype,
    shape: Vec<i64>,
    elements: Vec<u64>,
}

impl Case {
    /// The bytes that the handler is to see.
    fn bytes(&self) -> Vec<u8> {
        self.elements.iter().flat_map(|&element| self.element(element)).collect()
    }

    fn element(&self, element: u64) -> Vec<u8> {
        match self.datatype {
            Datatype::Bool => vec![(element & 1) as u8],
            Datatype::Bytes => {
                let text = text(element);
                [&(text.len() as u32).to_le_bytes()[..], &text].concat()
            }
            fixed => element.to_le_bytes()[..fixed.size().unwrap()].to_vec(),
        }
    }

    /// Converts the elements to protobuf's numbers.
    fn contents(&self) -> InferTensorContents {
        let mut contents = InferTensorContents::default();
        for &element in &self.elements {
            match self.datatype {
                Datatype::Bool => contents.bool_contents.push(element & 1 == 1),
                Datatype::Int8 => contents.int_contents.push(i32::from(element as i8)),
                Datatype::Int16 => contents.int_contents.push(i32::from(element as i16)),
                Datatype::Int32 => contents.int_contents.push(element as i32),
                Datatype::Int64 => contents.int64_contents.push(element as i64),
                Datatype::Uint8 => contents.uint_contents.push(u32::from(element as u8)),
                Datatype::Uint16 => contents.uint_contents.push(u32::from(element as u16)),
                Datatype::Uint32 => contents.uint_contents.push(element as u32),
                Datatype::Uint64 => contents.uint64_contents.push(element),
                Datatype::Fp32 => contents.fp32_contents.push(f32::from_bits(element as u32)),
                Datatype::Fp64 => contents.fp64_contents.push(f64::from_bits(element)),
                Datatype::Bytes => contents.bytes_contents.push(text(element).into()),
                Datatype::Fp16 | Datatype::Bf16 => unreachable!("only raw"),
            }
        }
        contents
    }
}

fn text(element: u64) -> Vec<u8> {
    element.to_le_bytes()[..(element % 9) as usize].to_vec()
}

fn cases(form: Form) -> impl Strategy<Value = Vec<Case>> {
    let datatypes = Datatype::ALL.into_iter();
    let datatypes: Vec<_> =
        datatypes.filter(|d| form == Form::Raw || !matches!(d, Datatype::Fp16 | Datatype::Bf16)).collect();
    let shape = prop_oneof![(0usize..5, 0usize..5), Just((40, 60))];
    let case = (proptest::sample::select(datatypes), shape).prop_flat_map(|(datatype, (first, second))| {
        proptest::collection::vec(any::<u64>(), first * second).prop_map(move |elements| Case {
            datatype,
            shape: vec![first as i64, second as i64],
            elements,
        })
    });
    proptest::collection::vec(case, 1..4)
}

fn forms_and_cases() -> impl Strategy<Value = (Form, Vec<Case>)> {
    let forms = proptest::sample::select(vec![Form::Raw, Form::Packed, Form::Unpacked]);
    forms.prop_flat_map(|form| cases(form).prop_map(move |cases| (form, cases)))
}

/// Writes the message with inputs in reverse order.
fn encoded(cases: &[Case], form: Form) -> Vec<u8> {
    let mut bytes = message(vec![], &[]).encode_to_vec();
    for (index, case) in cases.iter().enumerate().rev() {
        let mut input = given(&format!("t{index}"), case.datatype.name(), &case.shape).encode_to_vec();
        match form {
            Form::Raw => delimited(&mut bytes, 7, &case.bytes()),
            Form::Packed => delimited(&mut input, 5, &case.contents().encode_to_vec()),
            Form::Unpacked => delimited(&mut input, 5, &unpacked(&case.contents())),
        }
        delimited(&mut bytes, 5, &input);
    }
    bytes
}

fn delimited(into: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(into, field << 3 | 2);
    put_varint(into, bytes.len() as u64);
    into.extend(bytes);
}

/// Writes each element with a separate key, as proto2 did.
fn unpacked(contents: &InferTensorContents) -> Vec<u8> {
    let mut bytes = Vec::new();
    let integers = std::iter::empty()
        .chain(contents.bool_contents.iter().map(|&value| (1, u64::from(value))))
        .chain(contents.int_contents.iter().map(|&value| (2, i64::from(value) as u64)))
        .chain(contents.int64_contents.iter().map(|&value| (3, value as u64)))
        .chain(contents.uint_contents.iter().map(|&value| (4, u64::from(value))))
        .chain(contents.uint64_contents.iter().map(|&value| (5, value)));
    for (field, value) in integers {
        put_varint(&mut bytes, field << 3);
        put_varint(&mut bytes, value);
    }
    for value in &contents.fp32_contents {
        put_varint(&mut bytes, 6 << 3 | 5);
        bytes.put_slice(&value.to_le_bytes());
    }
    for value in &contents.fp64_contents {
        put_varint(&mut bytes, 7 << 3 | 1);
        bytes.put_slice(&value.to_le_bytes());
    }
    contents.bytes_contents.iter().for_each(|value| delimited(&mut bytes, 8, value));
    bytes
}

proptest! {
    #[test]
    fn every_contents_form_of_every_datatype_decodes((form, cases) in forms_and_cases(), cuts in cuts()) {
        let declared = cases.iter().enumerate();
        let spec = spec(declared.map(|(index, case)| input(&format!("t{index}"), case.datatype, &[-1, -1])).collect());
        let envelope = from_chunks(&encoded(&cases, form), &cuts).unwrap();
        let decoded = decode(&spec, envelope, &Limits::default()).unwrap();
        for (case, tensor) in cases.iter().zip(&decoded.request.inputs) {
            let tensor = tensor.as_ref().unwrap();
            prop_assert_eq!(tensor.datatype(), case.datatype);
            prop_assert!(tensor.shape().iter().map(|&dim| dim as i64).eq(case.shape.iter().copied()));
            prop_assert_eq!(tensor.as_slice(), case.bytes());
            prop_assert_eq!(tensor.as_slice().as_ptr() as usize % 64, 0);
        }
    }

    #[test]
    fn damaged_messages_never_panic(
        (form, cases) in forms_and_cases(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let declared = cases.iter().enumerate();
        let spec = spec(declared.map(|(index, case)| input(&format!("t{index}"), case.datatype, &[-1, -1])).collect());
        let mut bytes = encoded(&cases, form);
        for (index, value) in damage {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        if let Ok(envelope) = from_chunks(&bytes, &[]) {
            let _ = decode(&spec, envelope, &Limits::default());
        }
    }
}
