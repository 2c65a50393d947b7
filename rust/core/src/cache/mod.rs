//! Response cache: keys, eviction, request coalescing.

mod key;
mod lookup;
mod store;

pub use self::{
    key::{Identity, Key, checksum},
    lookup::{Cache, Lead, Lookup},
};
