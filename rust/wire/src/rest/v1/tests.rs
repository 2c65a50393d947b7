use super::*;
use crate::{
    Limits,
    rest::{
        EncodeOptions,
        testing::{add, identity, model, tensor},
    },
};
use penstock_core::{
    Batching, Buffer, Datatype, InferRequest, InferResponse, Kind, ModelSpec, Oversize, Tensor, Timings,
    aligned_with_capacity, bytes_tensor,
};
use proptest::prelude::*;

fn batched(spec: ModelSpec) -> ModelSpec {
    ModelSpec { batching: Some(Batching { oversize: Oversize::Split, ..Batching::new(8) }), ..spec }
}

fn decoded(spec: &ModelSpec, json: &str) -> PredictRequest {
    decode(spec, json.as_bytes(), &Limits::default()).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn refusal(spec: &ModelSpec, json: &str) -> String {
    let error = decode(spec, json.as_bytes(), &Limits::default()).expect_err(json);
    assert_eq!(error.kind(), Kind::InvalidInput, "{json}");
    error.message().to_owned()
}

fn input(request: &InferRequest) -> &Tensor {
    request.inputs[0].as_ref().unwrap()
}

fn echo_responses(requests: Vec<InferRequest>) -> Vec<InferResponse> {
    let respond = |request: InferRequest| InferResponse {
        outputs: request.inputs.into_iter().flatten().collect(),
        parameters: Vec::new(),
        timings: Timings::default(),
        head: None,
    };
    requests.into_iter().map(respond).collect()
}

/// Response body with the inputs of the call as predictions.
fn echo(spec: &ModelSpec, json: &str) -> String {
    let call = decoded(spec, json);
    let body = encode(spec, call.form, "predictions", &echo_responses(call.requests), &EncodeOptions::default());
    String::from_utf8(body.unwrap()).unwrap()
}

#[test]
fn instances_are_one_request_for_a_batching_model() {
    let spec = batched(identity(Datatype::Int32, &[None]));
    for json in [r#"{"instances":[[1,2],[3,4],[5,6]]}"#, r#"{"instances":[{"x":[1,2]},[3,4],{"x":[5,6]}]}"#] {
        let call = decoded(&spec, json);
        assert_eq!((call.requests.len(), call.form), (1, Form::Instances(3)));
        assert_eq!(input(&call.requests[0]).shape(), [3, 2]);
        assert_eq!(input(&call.requests[0]).as_slice(), [1_i32, 2, 3, 4, 5, 6].map(i32::to_le_bytes).concat());
        assert_eq!(call.requests[0].rows, 3);
    }
    assert!(decoded(&spec, r#"{"instances":[]}"#).requests.is_empty());
}

#[test]
fn instances_are_separate_requests_without_batching() {
    let spec = identity(Datatype::Int32, &[None]);
    let call = decoded(&spec, r#"{"signature_name":"serving_default","instances":[[1,2],[3]]}"#);
    let shapes: Vec<&[usize]> = call.requests.iter().map(|request| input(request).shape()).collect();
    assert_eq!(shapes, [&[2][..], &[1]]);
    let short = ModelSpec { max_queue: 2, ..spec };
    assert_eq!(
        refusal(&short, r#"{"instances":[[],[],[]]}"#),
        "the request has more than 2 instances, the most that model 'identity' accepts"
    );
}

#[test]
fn inputs_are_whole_tensors() {
    let plain = identity(Datatype::Int32, &[None]);
    assert_eq!(input(&decoded(&plain, r#"{"inputs":[1,2]}"#).requests[0]).shape(), [2]);
    let spec = batched(plain);
    for json in [r#"{"inputs":[[1,2]]}"#, r#"{"inputs":{"x":[[1,2]]}}"#] {
        let call = decoded(&spec, json);
        assert_eq!((input(&call.requests[0]).shape(), call.form), (&[1, 2][..], Form::Inputs));
    }
    assert_eq!(decoded(&add(), r#"{"inputs":{"b":[[1,2,3,4]],"a":[[5,6,7,8]]}}"#).requests[0].rows, 1);
}

#[test]
fn shapes_of_scalars_and_empty_lists_are_inferred() {
    let scalars = batched(identity(Datatype::Fp32, &[]));
    assert_eq!(input(&decoded(&scalars, r#"{"instances":[1,2.5,-3e1]}"#).requests[0]).shape(), [3]);
    let matrices = identity(Datatype::Fp32, &[None, None]);
    assert_eq!(input(&decoded(&matrices, r#"{"instances":[[]]}"#).requests[0]).shape(), [0, 0]);
    assert_eq!(input(&decoded(&matrices, r#"{"instances":[[[],[]]]}"#).requests[0]).shape(), [2, 0]);
}

#[test]
fn optional_input_is_in_all_instances_or_none() {
    let mut spec = add();
    spec.inputs[1].optional = true;
    let given = decoded(&spec, r#"{"instances":[{"a":[1,2,3,4],"b":[1,2,3,4]}]}"#);
    assert!(given.requests[0].inputs[1].is_some());
    assert!(decoded(&spec, r#"{"instances":[{"a":[1,2,3,4]},{"a":[1,2,3,4]}]}"#).requests[0].inputs[1].is_none());
    let (with, without) = (r#"{"a":[1,2,3,4],"b":[1,2,3,4]}"#, r#"{"a":[1,2,3,4]}"#);
    assert_eq!(
        refusal(&spec, &format!(r#"{{"instances":[{with},{without}]}}"#)),
        "instances[1]: input 'b' is missing, the instances before it have it"
    );
    assert_eq!(
        refusal(&spec, &format!(r#"{{"instances":[{without},{with}]}}"#)),
        "instances[1]: input 'b' is given, the instances before it lack it"
    );
}

#[test]
fn strings_accept_base64_objects() {
    let spec = identity(Datatype::Bytes, &[]);
    let call = decoded(&spec, r#"{"instances":["a\n",{"b64":"AP8="},{"x":{"b64":""}}]}"#);
    let elements: Vec<&[u8]> = call.requests.iter().map(|request| &input(request).as_slice()[4..]).collect();
    assert_eq!(elements, [&b"a\n"[..], b"\x00\xff", b""]);
    assert_eq!(
        refusal(&spec, r#"{"instances":[{"b64":"A"}]}"#),
        "instances[0]: input 'x' has a string at byte 21 that is not padded standard base64"
    );
    assert_eq!(
        refusal(&spec, r#"{"instances":[{"b64":"AA==","k":1}]}"#),
        r#"instances[0]: input 'x' has {"b64":"AA==","k":1} at byte 14, BYTES takes strings"#
    );
}

#[test]
fn json_documents_pass_through_unchanged() {
    let mut spec = identity(Datatype::Bytes, &[]);
    (spec.inputs[0].document, spec.outputs[0].document) = (true, true);
    for document in ["{ \"x\":[1, null]}", "[]", "\"a\"", "1.50", "null", "{\"b64\":\"AA==\"}", "true"] {
        let json = format!("{{\"instances\":[{document}]}}");
        assert_eq!(echo(&spec, &json), format!("{{\"predictions\":[{document}]}}"));
    }
    assert!(refusal(&spec, r#"{"instances":[{"a":NaN}]}"#).starts_with("Unrecognized request format: request JSON at"));
    let respond = |text: &str, strict_json| {
        let framed = [&bytes_tensor::prefix(text.len()).unwrap()[..], text.as_bytes()].concat();
        let mut buffer = aligned_with_capacity(framed.len());
        buffer.extend_from_slice(&framed);
        let tensor = Tensor::new(Datatype::Bytes, [].into_iter().collect(), Buffer::Aligned(buffer)).unwrap();
        let outputs = [tensor].into_iter().collect();
        let response = InferResponse { outputs, parameters: Vec::new(), timings: Timings::default(), head: None };
        encode(&spec, Form::Inputs, "outputs", &[response], &EncodeOptions { strict_json })
    };
    assert_eq!(respond("[NaN]", false).unwrap(), b"{\"outputs\":[NaN]}");
    for (text, strict) in [("[NaN]", true), ("", false), ("{}1", false), ("{", false)] {
        let error = respond(text, strict).unwrap_err();
        assert_eq!((error.kind(), error.message()), (Kind::Handler, "output 'y' is not a JSON document"));
    }
}

#[test]
fn predictions_are_nested_by_rows() {
    let matrices = batched(identity(Datatype::Fp32, &[None, Some(2)]));
    let json = r#"{"instances":[[[1.0,2.5]],[[3.0,4.0]]]}"#;
    assert_eq!(echo(&matrices, json), json.replace("instances", "predictions"));
    let mut pair = batched(model("pair", Vec::new(), Vec::new()));
    pair.inputs = vec![tensor("a", Datatype::Bool, &[]), tensor("b_bytes", Datatype::Bytes, &[None])];
    pair.outputs.clone_from(&pair.inputs);
    assert_eq!(
        echo(&pair, r#"{"instances":[{"b_bytes":["x"],"a":true},{"a":0,"b_bytes":[{"b64":"/w=="}]}]}"#),
        r#"{"predictions":[{"a":true,"b_bytes":[{"b64":"eA=="}]},{"a":false,"b_bytes":[{"b64":"/w=="}]}]}"#
    );
    assert_eq!(echo(&pair, r#"{"inputs":{"b_bytes":[[]],"a":[1]}}"#), r#"{"predictions":{"a":[true],"b_bytes":[[]]}}"#);
}

#[test]
fn refusals_name_the_instance_and_the_expectation() {
    let one = batched(identity(Datatype::Fp32, &[None]));
    let fixed = identity(Datatype::Uint8, &[Some(2), Some(2)]);
    for (spec, json, message) in [
        (&one, r#"{"instances":{}}"#, "Expected \"instances\" to be a list"),
        (&one, "{}", "the request has neither 'instances' nor 'inputs'"),
        (&one, r#"{"instances":[],"inputs":[[1]]}"#, "the request has both 'instances' and 'inputs'"),
        (&one, r#"{"inputs":[[1]],"instances":[]}"#, "the request has both 'instances' and 'inputs'"),
        (
            &one,
            r#"{"instances":[[1],[1,2]]}"#,
            "instances[1]: input 'x' has shape [2], the instances before it have [1]",
        ),
        (&one, r#"{"instances":[1]}"#, "instances[0]: input 'x' has shape [], model 'identity' expects [-1]"),
        (&one, r#"{"inputs":[1]}"#, "input 'x' has shape [1], model 'identity' expects [-1, -1]"),
        (
            &one,
            r#"{"instances":[[1,[2]]]}"#,
            "instances[0]: input 'x' is ragged at byte 17, all lists of one level must have the same length",
        ),
        (
            &fixed,
            r#"{"instances":[[1,2,3,4]]}"#,
            "instances[0]: input 'x' has shape [4], model 'identity' expects [2, 2]",
        ),
        (
            &fixed,
            r#"{"instances":[[[1,2],[3,256]]]}"#,
            "instances[0]: input 'x' has 256 at byte 24, UINT8 takes integers from 0 to 255",
        ),
        (&fixed, r#"{"instances":[{"y":1}]}"#, "instances[0]: unexpected input 'y' for model 'identity', expected 'x'"),
        (&fixed, r#"{"instances":[{}]}"#, "instances[0]: input 'x' is missing, model 'identity' expects 'x'"),
        (
            &add(),
            r#"{"instances":[[1,2,3,4]]}"#,
            "instances[0]: expected an object with the inputs of model 'add': 'a', 'b'",
        ),
        (&add(), r#"{"instances":[{"a":[1,2,3,4],"a":[1,2,3,4]}]}"#, "instances[0]: input 'a' is given twice"),
        (
            &add(),
            r#"{"inputs":{"a":[[1,2,3,4]],"b":[]}}"#,
            "input 'b' has a batch of 0 rows, the inputs before it have 1",
        ),
        (&one, "[]", "Unrecognized request format: request JSON at byte 0: expected a JSON object"),
        (&one, "", "Unrecognized request format: request JSON at byte 0: expected a JSON object"),
        (
            &one,
            r#"{"instances":[[1]]}x"#,
            "Unrecognized request format: request JSON at byte 19: expected nothing after the request's object",
        ),
        (&one, r#"{"instances":[[1,"#, "Unrecognized request format: request JSON at byte 17: expected an element"),
    ] {
        assert_eq!(refusal(spec, json), message, "{json}");
    }
}

#[test]
fn parameters_reach_every_instance() {
    let spec = ModelSpec { wants_context: true, ..identity(Datatype::Fp32, &[]) };
    let call = decoded(&spec, r#"{"parameters":{"k":1,"timeout":5},"instances":[1,2]}"#);
    assert_eq!(call.timeout, Some(std::time::Duration::from_micros(5)));
    for request in &call.requests {
        assert_eq!(request.metadata.as_ref().unwrap().parameters.len(), 1);
    }
    let urgent = decoded(&spec, r#"{"parameters":{"priority":2},"instances":[1,2]}"#);
    assert!(urgent.requests.iter().all(|request| request.schedule.priority == 2));
    let step = r#""parameters":{"sequence_id":7,"sequence_start":true}"#;
    assert!(decoded(&spec, &format!("{{{step},\"instances\":[1]}}")).requests[0].schedule.step.is_some());
    assert_eq!(
        refusal(&spec, &format!("{{\"instances\":[1,2],{step}}}")),
        "a call of a sequence has one instance, the request has 2"
    );
    let none = decoded(&spec, r#"{"instances":[1],"parameters":null}"#);
    assert!(none.requests[0].metadata.as_ref().unwrap().parameters.is_empty());
    assert_eq!(
        refusal(&spec, r#"{"instances":[1],"parameters":{"k":{}}}"#),
        "parameter 'k' is an object, expected a boolean, number or string"
    );
}

fn element(datatype: Datatype) -> BoxedStrategy<String> {
    match datatype {
        Datatype::Bool => any::<bool>().prop_map(|value| value.to_string()).boxed(),
        Datatype::Uint8 => any::<u8>().prop_map(|value| value.to_string()).boxed(),
        Datatype::Int64 => any::<i64>().prop_map(|value| value.to_string()).boxed(),
        Datatype::Bytes => "\"[a-zé]{0,4}\"".boxed(),
        _ => (-1e30_f32..1e30).prop_map(|value| value.to_string()).boxed(),
    }
}

prop_compose! {
    /// A model of two axes, a list of rows of one shape as JSON, and the shape with the rows.
    fn case()(
        datatype in prop_oneof![
            Just(Datatype::Bool), Just(Datatype::Uint8), Just(Datatype::Int64), Just(Datatype::Fp32), Just(Datatype::Bytes)
        ],
        shape in [1_usize..4, 0..4, 0..4],
    )(
        elements in proptest::collection::vec(element(datatype), shape.iter().product::<usize>()),
        datatype in Just(datatype),
        shape in Just(shape),
    ) -> (Datatype, [usize; 3], String) {
        (datatype, shape, nest(&shape, &mut elements.into_iter()))
    }
}

fn nest(shape: &[usize], elements: &mut impl Iterator<Item = String>) -> String {
    match shape {
        [] => elements.next().unwrap_or_default(),
        [length, inner @ ..] => {
            let items: Vec<String> = (0..*length).map(|_| nest(inner, elements)).collect();
            format!("[{}]", items.join(","))
        }
    }
}

proptest! {
    #[test]
    fn v1_requests_round_trip((datatype, shape, rows) in case()) {
        let spec = batched(identity(datatype, &[None, None]));
        let call = decoded(&spec, &format!("{{\"instances\":{rows}}}"));
        let inner = if shape[1] == 0 { [0, 0] } else { [shape[1], shape[2]] };
        prop_assert_eq!(input(&call.requests[0]).shape(), [shape[0], inner[0], inner[1]]);
        let first = encode(&spec, call.form, "instances", &echo_responses(call.requests), &EncodeOptions::default()).unwrap();
        let first = String::from_utf8(first).unwrap();
        prop_assert_eq!(echo(&spec, &first).replace("predictions", "instances"), first.clone());
        let plain = identity(datatype, &[None, None]);
        prop_assert_eq!(echo(&plain, &first).replace("predictions", "instances"), first);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        start in 0_usize..4, bytes in proptest::collection::vec(any::<u8>(), 0..60), batch: bool, document: bool,
    ) {
        let mut spec = identity(Datatype::Bytes, &[None]);
        spec.inputs[0].document = document;
        let spec = if batch { batched(spec) } else { spec };
        let starts = ["", "{\"instances\":[", "{\"inputs\":{\"x\":", "{\"instances\":[[{\"b64\":"];
        let json = [starts[start].as_bytes(), &bytes].concat();
        let _ = decode(&spec, &json, &Limits::default());
    }
}
