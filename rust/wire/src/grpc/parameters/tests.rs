use super::*;
use crate::grpc::testing::parameter;
use ParameterChoice::{BoolParam, DoubleParam, Int64Param, StringParam, Uint64Param};
use penstock_core::{Kind, Schedule, SequenceId, Step};

fn given(parameters: &[(&str, ParameterChoice)]) -> Given {
    parameters.iter().map(|(name, choice)| ((*name).to_owned(), parameter(choice.clone()))).collect()
}

fn sorted(name: &str, choice: ParameterChoice) -> Result<RequestParameters> {
    request(given(&[(name, choice)]))
}

fn refused(name: &str, choice: ParameterChoice) -> String {
    sorted(name, choice).unwrap_err().message().to_owned()
}

#[test]
fn custom_parameters_of_all_types_are_retained() {
    let kinds = [
        ("a", BoolParam(true)),
        ("b", Int64Param(-1)),
        ("c", StringParam("text".to_owned())),
        ("d", DoubleParam(0.5)),
        ("e", Uint64Param(u64::MAX)),
        ("f", Uint64Param(3)),
    ];
    let expected = [
        ("a", Parameter::Bool(true)),
        ("b", Parameter::Int(-1)),
        ("c", Parameter::String("text".to_owned())),
        ("d", Parameter::Float(0.5)),
        ("e", Parameter::Uint(u64::MAX)),
        ("f", Parameter::Int(3)),
    ];
    let custom = request(given(&kinds)).unwrap().custom;
    assert_eq!(custom, expected.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn reserved_parameters_are_not_custom() {
    let accepted = [
        ("sequence_id", Int64Param(1)),
        ("sequence_id", Uint64Param(1)),
        ("sequence_id", StringParam("s".to_owned())),
        ("sequence_start", BoolParam(true)),
        ("sequence_end", BoolParam(false)),
        ("priority", Int64Param(0)),
        ("priority", Uint64Param(2)),
        ("timeout", Int64Param(5)),
        ("triton_enable_empty_final_response", BoolParam(true)),
        ("headers", StringParam(String::new())),
        ("binary_data", BoolParam(true)),
        ("binary_data_output", BoolParam(true)),
        ("binary_data_size", Int64Param(4)),
    ];
    for (name, choice) in accepted {
        let sorted = sorted(name, choice.clone()).unwrap();
        assert!(sorted.custom.is_empty(), "{name} {choice:?}");
    }
}

#[test]
fn timeouts_are_microseconds_and_zero_is_none() {
    let timeout = |choice| sorted("timeout", choice).unwrap().timeout;
    assert_eq!(timeout(Int64Param(1500)), Some(Duration::from_micros(1500)));
    assert_eq!(timeout(Uint64Param(u64::MAX)), Some(Duration::from_micros(u64::MAX)));
    assert_eq!(timeout(Int64Param(0)), None);
    assert_eq!(sorted("other", Int64Param(9)).unwrap().timeout, None);
}

#[test]
fn reserved_parameters_of_wrong_type_are_refused() {
    let cases = [
        ("sequence_id", BoolParam(true), "parameter 'sequence_id' is the bool true, expected an integer or a string"),
        ("sequence_start", Int64Param(1), "parameter 'sequence_start' is the integer 1, expected a bool"),
        ("sequence_end", StringParam("x".to_owned()), "parameter 'sequence_end' is a string, expected a bool"),
        ("priority", StringParam("1".to_owned()), "parameter 'priority' is a string, expected an integer of 0 or more"),
        ("priority", Int64Param(-1), "parameter 'priority' is the integer -1, expected an integer of 0 or more"),
        ("timeout", DoubleParam(0.5), "parameter 'timeout' is the double 0.5, expected an integer of 0 or more"),
        ("timeout", Int64Param(-2), "parameter 'timeout' is the integer -2, expected an integer of 0 or more"),
        (
            "triton_enable_empty_final_response",
            Uint64Param(u64::MAX),
            "parameter 'triton_enable_empty_final_response' is the integer 18446744073709551615, expected a bool",
        ),
        (
            "triton_other",
            BoolParam(true),
            "parameter 'triton_other' is reserved, expected a name that does not start with 'triton_'",
        ),
    ];
    for (name, choice, text) in cases {
        assert_eq!(refused(name, choice), text);
    }
}

#[test]
fn parameter_without_a_value_is_refused() {
    let unset = Given::from([("p".to_owned(), InferParameter::default())]);
    assert_eq!(request(unset.clone()).unwrap_err().message(), "parameter 'p' has no value");
    assert_eq!(
        tensor("input", "x", &unset, true, false).unwrap_err().message(),
        "parameter 'p' of input 'x' has no value"
    );
}

#[test]
fn disabled_shared_memory_is_unsupported_by_name() {
    let cases = [
        ("shared_memory_region", StringParam("r".to_owned())),
        ("shared_memory_offset", Int64Param(0)),
        ("shared_memory_byte_size", Int64Param(4)),
    ];
    for (name, choice) in cases {
        let error = tensor("output", "y", &given(&[(name, choice)]), false, false).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        let expected = format!(
            "output 'y': parameter '{name}': shared memory is for inference without server-sent events, where the server allows it"
        );
        assert_eq!(error.message(), expected);
    }
}

#[test]
fn classification_requires_at_least_one_class() {
    let classes =
        |choice| tensor("output", "y", &given(&[("classification", choice)]), true, false).map(|read| read.classes);
    assert_eq!(classes(Int64Param(3)).unwrap(), 3);
    assert_eq!(classes(Uint64Param(u64::MAX)).unwrap(), u32::MAX);
    for (choice, shown) in [
        (Int64Param(0), "the integer 0"),
        (Int64Param(-1), "the integer -1"),
        (StringParam("3".to_owned()), "a string"),
        (BoolParam(true), "the bool true"),
    ] {
        let expected = format!("parameter 'classification' is {shown}, expected an integer of 1 or more");
        assert_eq!(classes(choice).unwrap_err().message(), expected);
    }
    let input = tensor("input", "x", &given(&[("classification", Int64Param(3))]), true, false).unwrap();
    assert_eq!(input.classes, 0, "it means nothing of an input");
}

#[test]
fn unknown_tensor_parameters_are_ignored() {
    assert!(
        tensor("input", "x", &given(&[("binary_data_size", Int64Param(4)), ("own", BoolParam(true))]), false, false)
            .is_ok()
    );
}

#[test]
fn parameters_round_trip() {
    for parameter in [
        Parameter::Bool(true),
        Parameter::Int(i64::MIN),
        Parameter::Uint(u64::MAX),
        Parameter::Float(1.5),
        Parameter::String("s".to_owned()),
    ] {
        assert_eq!(value(encoded(&parameter)), Some(parameter));
    }
}

#[test]
fn schedule_accepts_signed_and_unsigned_integers() {
    let schedule = |parameters: &[_]| request(given(parameters)).unwrap().schedule.finish();
    // T29: some clients send the priority unsigned, others signed; the id is signed or a text.
    assert_eq!(schedule(&[("priority", Uint64Param(2))]), Schedule { priority: 2, ..Schedule::default() });
    assert_eq!(schedule(&[("priority", Int64Param(2))]), Schedule { priority: 2, ..Schedule::default() });
    let step = |id, start, end| Schedule { step: Some(Box::new(Step { id, start, end })), ..Schedule::default() };
    let start = ("sequence_start", BoolParam(true));
    for (choice, id) in [
        (Int64Param(7), SequenceId::Number(7)),
        (Uint64Param(u64::MAX), SequenceId::Number(u64::MAX)),
        (Int64Param(-1), SequenceId::Number(u64::MAX)),
        (StringParam("7".to_owned()), SequenceId::Text("7".into())),
    ] {
        assert_eq!(schedule(&[("sequence_id", choice), start.clone()]), step(id, true, false));
    }
    assert_eq!(schedule(&[("sequence_id", Int64Param(0)), start.clone()]), Schedule::default());
    assert_eq!(schedule(&[("sequence_id", StringParam(String::new())), start]), Schedule::default());
}
