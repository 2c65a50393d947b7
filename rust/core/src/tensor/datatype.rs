//! Element types of tensors, by their Open Inference Protocol names.

use std::fmt;

/// Kind of a datatype's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementKind {
    /// Truth value of one byte, 0 or 1.
    Bool,
    /// Unsigned integer.
    Uint,
    /// Two's complement integer.
    Int,
    /// Binary floating point.
    Float,
    /// Byte string of any length.
    Bytes,
}

/// The table of datatypes. Calls a macro with one row each: variant, protocol name, kind, size in bytes (0 for BYTES),
/// numpy type code, and in brackets the Arrow and safetensors types, if there are any.
///
/// A new datatype is a row here, at the end: child processes are sent the position. Rust then names what matches on
/// variants.
#[macro_export]
macro_rules! for_each_datatype {
    ($with:ident) => {
        $with! {
            /// One byte, 0 or 1.
            (Bool, "BOOL", Bool, 1, "b1", [Boolean], [BOOL]),
            /// Unsigned, 8 bits.
            (Uint8, "UINT8", Uint, 1, "u1", [UInt8], [U8]),
            /// Unsigned, 16 bits.
            (Uint16, "UINT16", Uint, 2, "u2", [UInt16], [U16]),
            /// Unsigned, 32 bits.
            (Uint32, "UINT32", Uint, 4, "u4", [UInt32], [U32]),
            /// Unsigned, 64 bits.
            (Uint64, "UINT64", Uint, 8, "u8", [UInt64], [U64]),
            /// Signed, 8 bits.
            (Int8, "INT8", Int, 1, "i1", [Int8], [I8]),
            /// Signed, 16 bits.
            (Int16, "INT16", Int, 2, "i2", [Int16], [I16]),
            /// Signed, 32 bits.
            (Int32, "INT32", Int, 4, "i4", [Int32], [I32]),
            /// Signed, 64 bits.
            (Int64, "INT64", Int, 8, "i8", [Int64], [I64]),
            /// IEEE 754 half precision.
            (Fp16, "FP16", Float, 2, "f2", [Float16], [F16]),
            /// The upper half of an FP32 ("brain float"); in numpy files the raw bytes that `ml_dtypes` writes.
            (Bf16, "BF16", Float, 2, "V2", [], [BF16]),
            /// IEEE 754 single precision.
            (Fp32, "FP32", Float, 4, "f4", [Float32], [F32]),
            /// IEEE 754 double precision.
            (Fp64, "FP64", Float, 8, "f8", [Float64], [F64]),
            /// A byte string of any length; see [`crate::bytes_tensor`] for the layout of elements in memory.
            (Bytes, "BYTES", Bytes, 0, "S1", [Binary], []),
        }
    };
}

macro_rules! define {
    ($($(#[$doc:meta])* ($variant:ident, $name:literal, $kind:ident, $size:literal, $numpy:literal, $arrow:tt, $safetensors:tt),)*) => {
        /// The type of a tensor's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Datatype {
            $($(#[$doc])* $variant,)*
        }

        impl Datatype {
            /// Every datatype, in the protocol's order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The protocol's name, for example `FP32`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The datatype of a protocol name, which is upper case.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Kind of the elements.
            pub const fn kind(self) -> ElementKind {
                match self {
                    $(Self::$variant => ElementKind::$kind,)*
                }
            }

            /// Bytes of one element; `None` for [`Datatype::Bytes`], whose elements vary.
            pub const fn size(self) -> Option<usize> {
                match self {
                    $(Self::$variant => if $size == 0 { None } else { Some($size) },)*
                }
            }

            /// numpy's type code without byte order, for example `f4`.
            pub const fn numpy_code(self) -> &'static str {
                match self {
                    $(Self::$variant => $numpy,)*
                }
            }
        }
    };
}

for_each_datatype!(define);

impl Datatype {
    /// Returns true if numpy lacks the type, so that its arrays are float32 unless `ml_dtypes` is used.
    pub const fn is_widened(self) -> bool {
        matches!(self, Self::Bf16)
    }

    /// The datatype of numpy elements of that kind and size. Strings are BYTES; raw bytes (`V`) have no datatype.
    pub fn from_numpy(kind: u8, size: usize) -> Option<Self> {
        if matches!(kind, b'O' | b'S' | b'U') {
            return Some(Self::Bytes);
        }
        let has = |datatype: &Self| {
            kind != b'V' && datatype.numpy_code().as_bytes()[0] == kind && datatype.size() == Some(size)
        };
        Self::ALL.into_iter().find(has)
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Datatype;

    #[test]
    fn datatype_names_round_trip_and_are_case_sensitive() {
        for datatype in Datatype::ALL {
            assert_eq!(Datatype::from_name(datatype.name()), Some(datatype));
        }
        for wrong in ["fp32", "STRING", "FP31", ""] {
            assert_eq!(Datatype::from_name(wrong), None);
        }
    }

    #[test]
    fn numpy_codes_round_trip_except_bfloat16() {
        for datatype in Datatype::ALL {
            let code = datatype.numpy_code();
            let expected = (datatype != Datatype::Bf16).then_some(datatype);
            assert_eq!(Datatype::from_numpy(code.as_bytes()[0], code[1..].parse().unwrap()), expected);
        }
        assert_eq!(Datatype::from_numpy(b'f', 16), None);
    }
}
