//! Parameters of requests and responses.

/// Value of a parameter. The protocol has the first five kinds, and no nesting.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// True or false.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// An unsigned integer above `i64::MAX`.
    Uint(u64),
    /// A double.
    Float(f64),
    /// Text.
    String(String),
    /// List of values; in generate requests only, for example `stop`.
    List(Vec<Parameter>),
}

/// Named parameters in the given order. A list: there are few of them.
pub type Parameters = Vec<(String, Parameter)>;
