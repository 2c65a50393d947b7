use super::*;
use crate::{
    generated::inference::{
        InferParameter, InferTensorContents, ModelInferRequest, infer_parameter::ParameterChoice,
        model_infer_request as pb,
    },
    grpc::testing::{envelope, given, input, message, parameter, spec, typed},
};
use bytes::Bytes;
use penstock_core::{Batching, Kind, Parameter};
use std::time::Duration;

mod round_trip;

/// Decodes for a model with inputs `x` FP32[1, 4] and `n` INT8[-1].
fn decoded(message: ModelInferRequest) -> Result<DecodedRequest> {
    decode(&model(), envelope(&message), &Limits::default())
}

fn model() -> ModelSpec {
    spec(vec![input("x", Datatype::Fp32, &[1, 4]), input("n", Datatype::Int8, &[-1])])
}

fn refused(inputs: Vec<pb::InferInputTensor>, raw: &[&[u8]]) -> String {
    let error = decoded(message(inputs, raw)).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidInput);
    error.message().to_owned()
}

/// Like [`refused`], for a model with one typed input.
fn refused_typed(datatype: &str, count: i64, contents: InferTensorContents) -> String {
    let spec = spec(vec![input("t", Datatype::from_name(datatype).unwrap(), &[-1])]);
    let message = message(vec![typed("t", datatype, &[count], contents)], &[]);
    decode(&spec, envelope(&message), &Limits::default()).unwrap_err().message().to_owned()
}

fn x() -> pb::InferInputTensor {
    given("x", "FP32", &[1, 4])
}

fn n(count: i64) -> pb::InferInputTensor {
    given("n", "INT8", &[count])
}

fn floats(values: &[f32]) -> InferTensorContents {
    InferTensorContents { fp32_contents: values.to_vec(), ..Default::default() }
}

fn integers(values: &[i32]) -> InferTensorContents {
    InferTensorContents { int_contents: values.to_vec(), ..Default::default() }
}

#[test]
fn inputs_are_ordered_as_in_the_model() {
    let decoded = decoded(message(vec![n(2), x()], &[&[1, 0xff], &[0; 16]])).unwrap();
    let request = decoded.request;
    let tensors: Vec<_> = request.inputs.iter().flatten().map(|t| (t.datatype(), t.shape(), t.as_slice())).collect();
    assert_eq!(tensors[0], (Datatype::Fp32, &[1, 4][..], &[0; 16][..]));
    assert_eq!(tensors[1], (Datatype::Int8, &[2][..], &[1, 0xff][..]));
    assert_eq!((request.rows, request.protocol), (1, Protocol::Grpc));
    assert!(request.metadata.is_none());
    assert_eq!(decoded.plan.outputs, None);
    assert_eq!(decoded.timeout, None);
}

#[test]
fn invalid_input_descriptions_are_refused() {
    let cases = [
        (given("y", "FP32", &[1, 4]), "unexpected input 'y' for model 'm', expected 'x', 'n'"),
        (given("x", "FP31", &[1, 4]), "input 'x' has unknown datatype 'FP31', model 'm' expects FP32"),
        (given("x", "FP64", &[1, 4]), "input 'x' has datatype FP64, model 'm' expects FP32"),
        (given("x", "FP32", &[1, -4]), "input 'x' has shape [1, -4], expected dimensions of 0 or more"),
        (given("x", "FP32", &[2, 4]), "input 'x' has shape [2, 4], model 'm' expects [1, 4]"),
        (given("x", "FP32", &[1; 33]), "input 'x' has a shape of 33 dimensions, at most 32 are accepted"),
        (
            given("n", "INT8", &[i64::MAX]),
            "input 'n': shape [9223372036854775807] has more elements than can be addressed",
        ),
    ];
    for (input, text) in cases {
        assert_eq!(refused(vec![input.clone()], &[&[0; 16]]), text, "raw");
        assert_eq!(refused(vec![input], &[]), text, "typed");
    }
}

#[test]
fn missing_and_repeated_inputs_are_refused() {
    assert_eq!(refused(vec![x()], &[&[0; 16]]), "input 'n' is missing, model 'm' expects 'x', 'n'");
    assert_eq!(refused(vec![x(), x()], &[&[0; 16], &[0; 16]]), "input 'x' is given twice");
}

#[test]
fn raw_entries_and_inputs_must_agree() {
    assert_eq!(
        refused(vec![x(), n(2)], &[&[0; 16]]),
        "input 'n' has no entry in raw_input_contents: the request has 1, expected 2"
    );
    assert_eq!(
        refused(vec![x(), n(2)], &[&[0; 16], &[0; 2], &[0; 2]]),
        "the request has 3 entries in raw_input_contents, expected 2 for its inputs ('x', 'n')"
    );
    assert_eq!(
        refused(vec![x(), n(2)], &[&[0; 15], &[0; 2]]),
        "input 'x': got 15 bytes, expected 16 for datatype FP32 and shape [1, 4]"
    );
    assert_eq!(
        refused(vec![x(), n(0)], &[&[0; 16], &[0; 2]]),
        "input 'n': got 2 bytes, expected 0 for datatype INT8 and shape [0]"
    );
}

#[test]
fn contents_with_raw_entries_are_refused() {
    let both = typed("x", "FP32", &[1, 4], floats(&[0.0; 4]));
    assert_eq!(
        refused(vec![n(2), both], &[&[0; 2], &[0; 16]]),
        "input 'x' has contents together with the request's raw_input_contents, expected one of the two"
    );
}

#[test]
fn empty_input_needs_no_data() {
    let full = [7; 16];
    for raw in [&[&[][..], &full][..], &[&full]] {
        let decoded = decoded(message(vec![n(0), x()], raw)).unwrap();
        assert_eq!(decoded.request.inputs[0].as_ref().unwrap().as_slice(), full);
        assert_eq!(decoded.request.inputs[1].as_ref().unwrap().shape(), [0]);
    }
    let typed_x = typed("x", "FP32", &[1, 4], floats(&[1.0; 4]));
    for empty in [n(0), typed("n", "INT8", &[0], InferTensorContents::default())] {
        assert!(decoded(message(vec![empty, typed_x.clone()], &[])).is_ok());
    }
}

#[test]
fn input_without_data_is_refused() {
    let text = "input 'x' has no data, expected 4 elements of FP32 in contents.fp32_contents or raw_input_contents";
    assert_eq!(refused(vec![x()], &[]), text);
    assert_eq!(refused(vec![typed("x", "FP32", &[1, 4], InferTensorContents::default())], &[]), text);
    assert_eq!(
        refused_typed("FP16", 2, InferTensorContents::default()),
        "input 't' has no data, expected 2 elements of FP16 in raw_input_contents"
    );
}

#[test]
fn elements_in_the_wrong_contents_field_are_refused() {
    assert_eq!(
        refused_typed("FP32", 2, integers(&[1, 2])),
        "input 't' of datatype FP32 has elements in contents.int_contents, expected contents.fp32_contents"
    );
    for datatype in ["FP16", "BF16"] {
        assert_eq!(
            refused_typed(datatype, 1, floats(&[1.0])),
            format!(
                "input 't' of datatype {datatype} has elements in contents.fp32_contents, expected raw_input_contents"
            )
        );
    }
    let two = InferTensorContents { fp32_contents: vec![1.0], ..integers(&[1]) };
    assert_eq!(
        refused_typed("FP32", 1, two),
        "input 't' of datatype FP32 has elements in contents.int_contents and contents.fp32_contents, \
         expected only contents.fp32_contents"
    );
}

#[test]
fn wrong_element_count_is_refused() {
    assert_eq!(
        refused_typed("FP32", 3, floats(&[1.0; 2])),
        "input 't' has 2 elements in contents.fp32_contents, expected 3 for shape [3]"
    );
    assert_eq!(
        refused_typed("BYTES", 0, InferTensorContents { bytes_contents: vec![Bytes::new()], ..Default::default() }),
        "input 't' has 1 elements in contents.bytes_contents, expected 0 for shape [0]"
    );
}

#[test]
fn values_out_of_datatype_range_are_refused() {
    let unsigned = |value| InferTensorContents { uint_contents: vec![0, value], ..Default::default() };
    let cases = [
        ("INT8", integers(&[0, 128]), "128"),
        ("INT8", integers(&[0, -129]), "-129"),
        ("INT16", integers(&[0, 32768]), "32768"),
        ("UINT8", unsigned(256), "256"),
        ("UINT16", unsigned(65536), "65536"),
    ];
    for (datatype, contents, value) in cases {
        assert_eq!(
            refused_typed(datatype, 2, contents),
            format!("element 1 of input 't' is {value}, expected a value that fits {datatype}")
        );
    }
}

#[test]
fn invalid_framing_of_raw_bytes_is_refused() {
    let spec = spec(vec![input("t", Datatype::Bytes, &[-1])]);
    let message = message(vec![given("t", "BYTES", &[2])], &[&[1, 0, 0, 0, b'a']]);
    let error = decode(&spec, envelope(&message), &Limits::default()).unwrap_err();
    assert_eq!(error.message(), "input 't': BYTES data ends after 1 elements, expected 2");
}

#[test]
fn nonzero_bool_bytes_become_one() {
    let spec = spec(vec![input("t", Datatype::Bool, &[-1])]);
    let message = message(vec![given("t", "BOOL", &[4])], &[&[0, 1, 2, 255]]);
    let decoded = decode(&spec, envelope(&message), &Limits::default()).unwrap();
    assert_eq!(decoded.request.inputs[0].as_ref().unwrap().as_slice(), [0, 1, 1, 1]);
}

#[test]
fn batch_rows_are_counted_and_bounded() {
    let mut spec = spec(vec![input("t", Datatype::Uint8, &[2])]);
    spec.batching = Some(Batching::new(3));
    let of = |rows: i64| {
        let bytes = vec![0; 2 * rows as usize];
        decode(&spec, envelope(&message(vec![given("t", "UINT8", &[rows, 2])], &[&bytes])), &Limits::default())
    };
    assert_eq!(of(3).unwrap().request.rows, 3);
    assert_eq!(of(4).unwrap_err().message(), "input 't' has a batch of 4 rows, model 'm' accepts at most 3");
}

#[test]
fn requested_outputs_stay_in_order() {
    let requesting = |names: &[&str]| {
        let output = |name: &&str| pb::InferRequestedOutputTensor { name: (*name).to_owned(), ..Default::default() };
        let outputs = names.iter().map(output).collect();
        decoded(ModelInferRequest { outputs, ..message(vec![x(), n(1)], &[&[0; 16], &[0]]) })
    };
    let plan = requesting(&["n_out", "x_out"]).unwrap().plan;
    let indices: Vec<_> = plan.outputs.unwrap().iter().map(|output| output.index).collect();
    assert_eq!(indices, [1, 0]);
    let text = |names| requesting(names).unwrap_err().message().to_owned();
    assert_eq!(text(&["z"]), "unexpected inference output 'z' for model 'm', expected 'x_out', 'n_out'");
    assert_eq!(text(&["x_out", "x_out"]), "output 'x_out' is requested twice");
}

fn shared(name: &str) -> std::collections::BTreeMap<String, InferParameter> {
    [(name.to_owned(), parameter(ParameterChoice::Int64Param(1)))].into()
}

#[test]
fn shared_memory_is_unsupported() {
    let input = pb::InferInputTensor { parameters: shared("shared_memory_region"), ..x() };
    let error = decoded(message(vec![input, n(1)], &[&[0]])).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert_eq!(
        error.message(),
        "input 'x': parameter 'shared_memory_region': shared memory is for inference without server-sent events, where the server allows it"
    );
}

#[test]
fn classification_requires_an_ordered_datatype() {
    let classify = |spec: &ModelSpec| {
        let output = pb::InferRequestedOutputTensor { name: "x_out".into(), parameters: shared("classification") };
        let request = ModelInferRequest { outputs: vec![output], ..message(vec![x(), n(1)], &[&[0; 16], &[0]]) };
        decode(spec, envelope(&request), &Limits::default())
    };
    let mut spec = model();
    let expected = RequestedOutput { classes: 1, ..RequestedOutput::new(0, false) };
    assert_eq!(classify(&spec).unwrap().plan.outputs.unwrap()[..], [expected]);
    spec.outputs[0].datatype = Datatype::Bool;
    assert_eq!(
        classify(&spec).unwrap_err().message(),
        "output 'x_out' cannot be classified: its datatype is BOOL, expected integers, FP32 or FP64"
    );
}

#[test]
fn input_and_output_counts_are_bounded() {
    let limits = Limits { max_inputs: 1, max_outputs: 0, ..Limits::default() };
    let text =
        |message: ModelInferRequest| decode(&model(), envelope(&message), &limits).unwrap_err().message().to_owned();
    assert_eq!(text(message(vec![x(), n(1)], &[])), "the request has more than 1 inputs");
    let outputs = vec![pb::InferRequestedOutputTensor::default()];
    assert_eq!(text(ModelInferRequest { outputs, ..message(vec![x()], &[]) }), "the request has more than 0 outputs");
}

#[test]
fn context_handlers_get_id_and_parameters() {
    let parameters = [
        ("own".to_owned(), parameter(ParameterChoice::DoubleParam(0.5))),
        ("timeout".to_owned(), parameter(ParameterChoice::Uint64Param(250))),
    ];
    let request = ModelInferRequest {
        id: "r1".to_owned(),
        parameters: parameters.into(),
        ..message(vec![x(), n(1)], &[&[0; 16], &[0]])
    };
    let with_context = ModelSpec { wants_context: true, ..model() };
    let decoded = decode(&with_context, envelope(&request), &Limits::default()).unwrap();
    let metadata = decoded.request.metadata.unwrap();
    assert_eq!(metadata.id, "r1");
    assert_eq!(metadata.parameters, [("own".to_owned(), Parameter::Float(0.5))]);
    assert_eq!(decoded.plan.id, "r1");
    assert_eq!(decoded.timeout, Some(Duration::from_micros(250)));

    let decoded = decode(&model(), envelope(&request), &Limits::default()).unwrap();
    assert!(decoded.request.metadata.is_none());
    assert_eq!(decoded.plan.id, "r1");
}
