//! The server's side: starts processes, gives them batches, restarts and replaces them.

pub(crate) mod exchange;
pub(crate) mod exit_reason;
pub(crate) mod instance;
pub(crate) mod launch;
pub(crate) mod peer;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod replacement;
pub(crate) mod responses;
pub(crate) mod retire;
pub(crate) mod serve;
pub(crate) mod stdio;
pub(crate) mod watchdog;
