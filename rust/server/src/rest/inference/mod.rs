//! Inference over REST: V2, V1, generate, CloudEvents and hosting platforms.

pub(crate) mod admit;
pub(crate) mod cloud_events;
mod events;
pub(crate) mod failure;
pub(crate) mod generate;
pub(crate) mod infer;
pub(crate) mod platforms;
pub(crate) mod v1;
