//! Answers that are kept, so that an equal request need not be computed again.

mod key;
mod lookup;
mod store;

pub use self::{
    key::{Identity, Key, checksum},
    lookup::{Cache, Lead, Lookup},
};
