//! Conversion between tensors and Python objects.

pub(crate) mod array_form;
pub(crate) mod borrow;
pub(crate) mod client_identity;
pub(crate) mod from_any_array;
pub(crate) mod from_numbers;
pub(crate) mod from_numpy;
pub(crate) mod from_objects;
pub(crate) mod frozen;
pub(crate) mod parameters;
pub(crate) mod ragged;
pub(crate) mod record;
pub(crate) mod tensor_handle;
pub(crate) mod to_numpy;
pub(crate) mod token_counts;
