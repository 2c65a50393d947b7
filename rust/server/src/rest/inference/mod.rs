//! Inference over REST: V2, V1, generate, CloudEvents and hosting platforms.

pub(crate) mod admit;
mod cloud_events;
pub(crate) mod entry;
mod events;
pub(crate) mod failure;
mod generate;
pub(crate) mod infer;
pub(crate) mod platforms;
mod protocols;
mod v1;
