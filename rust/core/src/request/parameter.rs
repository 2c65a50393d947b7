//! Parameters of requests and responses.

/// The value of a parameter. The protocol has the first five kinds and no nesting.
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
    /// A list of the others; in generate requests only, `stop` texts say.
    List(Vec<Parameter>),
}

/// Named parameters in the order given. Small, so a list beats a map.
pub type Parameters = Vec<(String, Parameter)>;
