//! Answers that are kept, so that an equal request need not be computed again.

mod key;
mod response;
mod store;

pub use self::{
    key::{Identity, Key, checksum},
    response::{Cache, Caching, Lead, Lookup},
};
