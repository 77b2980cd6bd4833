//! Unix and TCP sockets.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, connect,
    listen, recv, send, socket_with,
};

use crate::{Ask, stream};

pub(crate) fn serve_unix(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    let listener = UnixListener::bind(address)?;
    ready();
    for client in listener.incoming() {
        let mut from = client?;
        let mut to = from.try_clone()?;
        thread::spawn(move || stream::answer(&mut from, &mut to));
    }
    Ok(())
}

pub(crate) fn connect_unix(address: &Path) -> io::Result<Ask> {
    let mut to = UnixStream::connect(address)?;
    let mut from = to.try_clone()?;
    Ok(Box::new(move |message| stream::ask(message, &mut from, &mut to)))
}

pub(crate) fn serve_tcp(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    // Clients find the port in a file.
    let name = address.with_extension("new");
    write!(std::fs::File::create(&name)?, "{}", listener.local_addr()?.port())?;
    std::fs::rename(name, address)?;
    ready();
    for client in listener.incoming() {
        let mut from = client?;
        from.set_nodelay(true)?;
        let mut to = from.try_clone()?;
        thread::spawn(move || stream::answer(&mut from, &mut to));
    }
    Ok(())
}

pub(crate) fn connect_tcp(address: &Path) -> io::Result<Ask> {
    let port: u16 = std::fs::read_to_string(address)?.parse().map_err(io::Error::other)?;
    let mut to = TcpStream::connect(("127.0.0.1", port))?;
    to.set_nodelay(true)?;
    let mut from = to.try_clone()?;
    Ok(Box::new(move |message| stream::ask(message, &mut from, &mut to)))
}

fn seqpacket() -> rustix::io::Result<std::os::fd::OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

pub(crate) fn serve_seqpacket(address: &Path, ready: &mut dyn FnMut()) -> io::Result<()> {
    let listener = seqpacket()?;
    bind(&listener, &SocketAddrUnix::new(address)?)?;
    listen(&listener, 16)?;
    ready();
    loop {
        let client = accept(&listener)?;
        thread::spawn(move || -> io::Result<()> {
            let mut message = vec![0; crate::Kind::UnixSeqpacket.largest()];
            loop {
                let (length, _) = recv(&client, &mut message[..], RecvFlags::empty())?;
                if length == 0 {
                    return Ok(());
                }
                send(&client, &[crate::sum(&message[..length])], SendFlags::NOSIGNAL)?;
            }
        });
    }
}

pub(crate) fn connect_seqpacket(address: &Path) -> io::Result<Ask> {
    let socket = seqpacket()?;
    connect(&socket, &SocketAddrUnix::new(address)?)?;
    Ok(Box::new(move |message| {
        send(&socket, message, SendFlags::NOSIGNAL)?;
        let mut sum = [0];
        match recv(&socket, &mut sum[..], RecvFlags::empty())? {
            (1, _) => Ok(sum[0]),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }))
}
