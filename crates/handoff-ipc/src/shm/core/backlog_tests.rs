//! What a full socket did not take, and when it goes out.

use super::handshake::receive_within;
use super::*;
use crate::shm::socket;
use crate::shm::wire::Message;
use rustix::net::sockopt;
use std::time::Duration;

/// A link whose socket has room for a few messages, and the socket's other end.
fn narrow_link() -> (Arc<Core>, Arc<Link>, OwnedFd) {
    let core = Core::start().unwrap();
    let (mine, theirs) = socket::pair().unwrap();
    sockopt::set_socket_send_buffer_size(&mine, 1).unwrap();
    let link = core.add_link(PeerFd::new(mine, 0), CallingIdentity::own(), [1; 16]).unwrap();
    (core, link, theirs)
}

/// Threads send while the poller sends what the socket did not take before: a message that is kept
/// just when the poller is done with the others goes out, too.
#[test]
fn what_a_full_socket_did_not_take_goes_out_as_soon_as_it_can() {
    const SENDERS: usize = 4;
    const EACH: usize = 12;
    let (core, link, theirs) = narrow_link();
    for round in 0..300 {
        std::thread::scope(|scope| {
            for _ in 0..SENDERS {
                scope.spawn(|| (0..EACH).for_each(|_| link.send(Message::Post, Vec::new()).unwrap()));
            }
            for n in 0..SENDERS * EACH {
                let got = receive_within(theirs.as_fd(), Duration::from_secs(30));
                assert!(got.is_ok(), "round {round}: {n} messages came, then {got:?}");
            }
        });
    }
    core.stop();
}

/// Between the last message that was kept and the poller's word that none is: nothing is kept that
/// this word would have the poller forget.
#[test]
fn nothing_is_kept_while_the_poller_says_that_all_is_out() {
    let (core, link, theirs) = narrow_link();
    std::thread::scope(|scope| {
        let mut sending = None;
        link.flush(link.socket().unwrap().as_fd(), || {
            let sender = scope.spawn(|| link.send(Message::Post, Vec::new()));
            // Time to come as far as it can.
            std::thread::sleep(Duration::from_millis(50));
            assert!(!sender.is_finished());
            sending = Some(sender);
        });
        sending.expect("nothing was kept").join().unwrap().unwrap();
    });
    assert!(receive_within(theirs.as_fd(), Duration::from_secs(30)).is_ok());
    core.stop();
}
