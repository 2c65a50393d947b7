//! Keys of clients: their file, what each may do, and the check of requests.

mod address_limits;
mod credential;
mod file;
mod key;
mod key_store;
mod key_table;
mod limits;
mod rate;

pub use self::key_store::check_keys_file;
pub(crate) use self::{
    key::{Denied, Key},
    key_store::{Authenticated, KeyStore},
    limits::ClientSlot,
};
