//! Bodies of inference requests and responses: received, decoded, compressed.

pub(crate) mod array_bodies;
pub(crate) mod compress;
pub(crate) mod plain_body;
pub(crate) mod receive;
