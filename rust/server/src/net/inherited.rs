//! Listening sockets that another process has opened, with the options of those that this one binds.

use super::listen::{BoundSocket, KEEPALIVE, SocketFile};
use crate::settings::{Address, DuplicateDescriptor};
use rustix::{io::Errno, net::sockopt};
use socket2::{Socket, Type};
use std::{io, path::Path};

/// Takes a listening socket by its descriptor.
///
/// `handed_over` is the path of a Unix socket of a server that this one replaces; `None` leaves it to another program.
pub(super) fn take(
    number: i32,
    handed_over: Option<&Path>,
    duplicate: DuplicateDescriptor,
) -> io::Result<(BoundSocket, Address)> {
    let descriptor = duplicate(number).map_err(named)?;
    let socket = Socket::from(descriptor);
    if socket.r#type().map_err(named)? != Type::STREAM {
        return Err(refused("it is a socket of another kind"));
    }
    if !sockopt::socket_acceptconn(&socket)? {
        return Err(refused("the socket does not listen"));
    }
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?;
    if let Some(address) = address.as_socket() {
        // Accepted connections inherit it.
        socket.set_tcp_keepalive(&KEEPALIVE)?;
        return Ok((BoundSocket::Tcp(socket.into()), Address::Tcp(address)));
    }
    match address.as_pathname() {
        None => Err(refused("the socket has neither a TCP address nor a path")),
        Some(path) => {
            let file = handed_over.map(SocketFile::of_other);
            Ok((BoundSocket::Unix(socket.into(), file), Address::Unix(path.to_owned())))
        }
    }
}

fn named(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::BADF) => refused("the process has no such descriptor"),
        Some(Errno::NOTSOCK) => refused("it is not a socket"),
        _ => error,
    }
}

fn refused(problem: &str) -> io::Error {
    io::Error::other(format!("{problem}, expected a listening stream socket"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, SockAddr, SockRef};
    use std::{
        fs::File,
        net::{TcpListener, UdpSocket},
        os::fd::{AsFd as _, OwnedFd},
        sync::Mutex,
    };

    /// The descriptor that the next call of [`duplicate`] returns.
    static NEXT: Mutex<Option<OwnedFd>> = Mutex::new(None);

    fn duplicate(_: i32) -> io::Result<OwnedFd> {
        NEXT.lock().unwrap().take().ok_or_else(|| Errno::BADF.into())
    }

    fn taken(descriptor: Option<OwnedFd>) -> io::Result<(BoundSocket, Address)> {
        // Tests run in parallel.
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap();
        *NEXT.lock().unwrap() = descriptor;
        take(3, None, duplicate)
    }

    #[test]
    fn inherited_listener_has_the_options_of_bound_ones() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let expected = listener.local_addr().unwrap();
        let (socket, address) = taken(Some(listener.as_fd().try_clone_to_owned().unwrap())).unwrap();
        assert_eq!(address, Address::Tcp(expected));
        let BoundSocket::Tcp(socket) = socket else { panic!("a TCP listener") };
        let socket = SockRef::from(&socket);
        assert!(socket.keepalive().unwrap() && socket.nonblocking().unwrap());
    }

    #[test]
    fn descriptor_that_does_not_listen_is_refused() {
        let unbound = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let unnamed = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        unnamed.bind(&SockAddr::unix(format!("\0penstock-test-{}", std::process::id())).unwrap()).unwrap();
        unnamed.listen(1).unwrap();
        let cases: [(Option<OwnedFd>, &str); 5] = [
            (None, "the process has no such descriptor"),
            (Some(File::open("/dev/null").unwrap().into()), "it is not a socket"),
            (Some(datagrams.into()), "it is a socket of another kind"),
            (Some(unbound.into()), "the socket does not listen"),
            (Some(unnamed.into()), "the socket has neither a TCP address nor a path"),
        ];
        for (descriptor, problem) in cases {
            let error = taken(descriptor).unwrap_err().to_string();
            assert_eq!(error, format!("{problem}, expected a listening stream socket"));
        }
    }
}
