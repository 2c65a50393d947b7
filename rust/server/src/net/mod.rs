//! Sockets, connections, I/O threads, and the life of a server.

mod accept;
mod activity;
mod client_addresses;
mod connection;
mod connection_age;
mod connections;
mod drain;
mod framing;
mod handshake;
mod in_process;
mod inherited;
mod io_thread;
mod listen;
mod new_connection;
mod place;
mod proxy_protocol;
mod server;
mod tracked_body;

pub use in_process::InProcess;
pub use io_thread::processors;
pub use listen::StartError;
pub use server::Server;
