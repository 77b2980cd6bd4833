//! Attackers of Binder RPC: peers that speak the wire themselves, and stay connected while honest clients call.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use crate::common::*;
use crate::rpc_raw::*;
use handoff_ipc::rpc::RpcSession;
use handoff_ipc::{Binder, Error, Service, Transaction};

#[test]
fn half_a_header_keeps_nobody_waiting() {
    attacked(|socket| {
        let begun = |len: usize| {
            let mut raw = Raw::connect(socket);
            raw.send(&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..len]);
            raw
        };
        (0..16).map(begun).collect::<Vec<_>>()
    });
}

#[test]
fn connections_without_end_are_refused_at_the_share_of_a_process() {
    attacked(|socket| {
        let mut all: Vec<Raw> = (0..400).map(|_| Raw::connect(socket)).collect();
        let mut opened = 0;
        for raw in &mut all {
            raw.send(&[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            raw.send(b"cci\0\0\0\0\0");
            let mut response = [0; 8];
            opened += u32::from(raw.0.read_exact(&mut response).is_ok());
        }
        assert!((1..=96).contains(&opened), "{opened} threads for one process");
        all
    });
}

#[test]
fn frames_that_make_no_sense_end_their_own_session() {
    attacked(|socket| {
        let mut kept = Raw::open(socket);
        let root = kept.root();
        let table_of_lies = |table: &[u32]| call(root, ECHO, 0, 0, &[0; 16], table);
        let short = frame(TRANSACT, &[0; 39]);
        let mut longer_than_it_is = call(root, ECHO, 0, 0, &[0; 16], &[]);
        longer_than_it_is[16 + 24] = 17;
        for bad in [
            words(&[7, 0, 0, 0]),
            words(&[TRANSACT, u32::MAX, 0, 0]),
            words(&[TRANSACT, 2 << 20, 0, 0]),
            frame(REPLY, &[0; 20]),
            frame(DEC_STRONG, &[0; 15]),
            short,
            longer_than_it_is,
            table_of_lies(&[12]),
            table_of_lies(&[0, 4]),
            table_of_lies(&[8, 0]),
            table_of_lies(&[u32::MAX]),
        ] {
            let mut raw = Raw::open(socket);
            raw.send(&bad);
            assert!(raw.is_ended(), "{bad:?}");
        }
        // Another session goes on.
        assert_eq!(kept.root(), root);
        kept
    });
}

#[test]
fn addresses_that_were_not_given_away_lead_nowhere() {
    attacked(|socket| {
        let mut raw = Raw::open(socket);
        let root = raw.root();
        let of = |number: u64, options: u64| number << 32 | options;
        for address in [of(77, 3), of(0, 1), of(5, 1), of(1, 0), of(9, u32::MAX.into()), u64::MAX] {
            raw.send(&call(address, ECHO, 0, 0, &token(), &[]));
            assert_eq!(raw.status(), -2, "{address:#x}");
            raw.send(&call(address, ECHO, 1, 0, &token(), &[]));
        }
        // An object of its own, which the server keeps.
        let own = of(7, 1);
        let object = [&token()[..], &words(&[1]), &own.to_le_bytes(), &words(&[12])].concat();
        raw.send(&call(root, KEEP, 0, 0, &object, &[token().len() as u32]));
        assert_eq!(raw.status(), 0);
        // References of objects that nobody has, and more than there are, of the server's and of its own.
        let many = [(root, u32::MAX), (root, 1000), (own, u32::MAX), (own, u32::MAX), (own, 1)];
        for (address, amount) in [(of(77, 3), 1), (0, 1)].into_iter().chain(many) {
            let body = [&address.to_le_bytes()[..], &words(&[amount, 0])].concat();
            assert!(raw.send(&frame(DEC_STRONG, &body)));
        }
        // An object of the server's that it never gave, and one that the table says is there and is not.
        let object = [&token()[..], &words(&[1]), &of(66, 3).to_le_bytes(), &words(&[12])].concat();
        let at = token().len() as u32;
        for (data, table) in [(&object, &[at][..]), (&object, &[]), (&token(), &[0])] {
            raw.send(&call(root, KEEP, 0, 0, data, table));
            assert!(raw.is_refused());
        }
        raw.send(&call(root, PING, 0, 0, &[], &[]));
        assert_eq!(raw.status(), 0, "it is still there");
        raw
    });
}

#[test]
fn a_session_s_id_that_is_guessed_or_of_another_form_opens_nothing() {
    attacked(|socket| {
        let mut stays = Raw::open(socket);
        for (options, len, id) in [(0, 32, 32), (1, 32, 32), (0, 31, 31), (1, 0, 0), (0, 65_535, 40)] {
            let mut raw = Raw::connect(socket);
            let size = u16::to_le_bytes(len);
            raw.send(&[2, 0, 0, 0, options, 1, 0, 0, 0, 0, 0, 0, 0, 0, size[0], size[1]]);
            raw.send(&vec![7; id]);
            assert!(raw.is_ended(), "{options} {len}");
        }
        stays.root();
        stays
    });
}

#[test]
fn oneway_calls_whose_turn_never_comes_are_bounded() {
    attacked(|socket| {
        let mut raw = Raw::open(socket);
        let root = raw.root();
        for number in 1..=1001 {
            raw.send(&call(root, RECORD, 1, number, &token(), &[]));
        }
        assert!(raw.is_ended());
        let mut twice = Raw::open(socket);
        let root = twice.root();
        for _ in 0..2 {
            twice.send(&call(root, RECORD, 1, 5, &token(), &[]));
        }
        assert!(twice.is_ended());
    });
}

#[test]
fn a_flood_of_oneway_calls_is_read_no_further_than_its_share() {
    attacked(|socket| {
        let mut raw = Raw::open(socket);
        let root = raw.root();
        raw.0.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        let sleep = [token(), words(&[600_000])].concat();
        raw.send(&call(root, SLEEP_MS, 1, 0, &sleep, &[]));
        let large = [token(), words(&[1 << 20]), vec![0; 1 << 20]].concat();
        let sent =
            (1..1024).take_while(|number| raw.send(&call(root, ECHO, 1, *number, &large, &[]))).count();
        assert!(sent < 1023, "a gigabyte waits for an object that sleeps");
        raw
    });
}

#[test]
fn who_does_not_read_its_replies_keeps_one_thread_and_no_other() {
    attacked(|socket| {
        let mut all: Vec<Raw> = (0..8).map(|_| Raw::open(socket)).collect();
        for raw in &mut all {
            let root = raw.root();
            let fill = [token(), words(&[1_000_000])].concat();
            raw.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            // Until neither side takes more.
            while raw.send(&call(root, FILL, 0, 0, &fill, &[])) {}
        }
        all
    });
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed() {
    let place = Place::new();
    let _server = start("server", &place.socket());
    let session = RpcSession::connect(place.socket()).unwrap();
    let root = session.root().unwrap();
    let open = || root.transaction(COUNT_FDS).call(|_| Ok(()), |r| r.read::<i32>()).unwrap();
    let before = open();
    let mut raw = Raw::open(&place.socket());
    let address = raw.root();
    let (end, _writer) = std::io::pipe().unwrap();
    for count in [1, 100, 253] {
        let ping = call(address, PING, 0, 0, &[], &[]);
        let fds = vec![end.as_fd(); count];
        assert!(send_with(&raw, &ping, &fds));
        assert_eq!(raw.status(), 0);
        // One that is named twice is had once.
        let twice = [token(), words(&[1, 0, 2, 0])].concat();
        let at = token().len() as u32 + 8;
        raw.send(&call(address, READ_FD, 0, 0, &twice, &[at]));
        assert!(raw.is_refused(), "none came along");
    }
    drop(raw);
    eventually("all are closed", || open() <= before);
}

#[test]
fn who_takes_no_calls_any_longer_is_served_those_that_it_sent() {
    attacked(|socket| {
        let mut raw = Raw::open(socket);
        let root = raw.root();
        raw.send(&call(0, 2, 0, 0, &[], &[]));
        let id = raw.reply()[24..56].to_vec();
        for round in 0..20 {
            // A connection for the server's calls, over which it would acknowledge those that come.
            let mut theirs = Raw::connect(socket);
            theirs.send(&[2, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0]);
            theirs.send(&id);
            // Refused, where the ends of so many before it were not seen yet.
            let _ = theirs.0.read_exact(&mut [0; 8]);
            drop(theirs);
            let calls = (0..10).map(|n| {
                let number = round * 10 + n;
                call(root, RECORD, 1, number, &[token(), words(&[number as u32])].concat(), &[])
            });
            assert!(raw.send(&calls.collect::<Vec<_>>().concat()));
        }
        let mut records = 0;
        eventually("all calls are served", || {
            raw.send(&call(root, TAKE_RECORDS, 0, 0, &token(), &[]));
            // Behind the head of the reply and that there is no exception.
            records += u32::from_le_bytes(raw.reply()[24..28].try_into().unwrap());
            records == 200
        });
        raw
    });
}

#[test]
fn a_server_that_is_none_is_found_out() {
    let cases: [(Vec<u8>, &str); 4] = [
        (words(&[3, 0]), "version 3"),
        (b"HTTP/1.0".to_vec(), "version"),
        (Vec::new(), "ended the session"),
        ([words(&[2, 0]), words(&[9, 0, 0, 0])].concat(), "frame of kind 9"),
    ];
    for (said, expected) in cases {
        let (place, server) = hostile_server(move |raw| {
            raw.send(&said);
            raw.0.shutdown(std::net::Shutdown::Write).unwrap();
            // Until the client has given up.
            drop(raw.0.read_to_end(&mut Vec::new()));
        });
        let error = RpcSession::connect(place.socket()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        server.join().unwrap();
    }
    let (place, server) = hostile_server(|raw| drop(raw.0.read_to_end(&mut Vec::new())));
    let began = Instant::now();
    let silent = RpcSession::builder(place.socket()).setup_timeout(Duration::from_millis(50)).connect();
    assert!(matches!(silent, Err(Error::Protocol(_))) && began.elapsed() >= Duration::from_millis(50));
    server.join().unwrap();
}

#[test]
fn a_server_that_takes_no_further_connection_is_called_on_those_that_there_are() {
    let place = Place::new();
    let listener = UnixListener::bind(place.socket()).unwrap();
    let server = std::thread::spawn(move || {
        let mut raw = Raw(listener.accept().unwrap().0);
        raw.take(24);
        raw.send(&words(&[2, 0]));
        for answer in [words(&[4]), [&words(&[32])[..], &[9; 32]].concat()] {
            raw.take(16 + 40);
            raw.send(&frame(REPLY, &[words(&[0, answer.len() as u32, 0, 0, 0]), answer].concat()));
        }
        raw.take(16 + 40);
        raw.send(&frame(REPLY, &words(&[0, 16, 0, 0, 0, 1, 3, 0, 12, 0])));
        raw.take(16 + 40);
        raw.send(&frame(REPLY, &[words(&[0, token().len() as u32, 0, 0, 0]), token()].concat()));
        // The one for oneway calls, although there were to be four.
        drop(listener.accept().unwrap());
        let (command, body) = raw.frame().unwrap();
        assert_eq!((command, &body[8..16]), (TRANSACT, &words(&[RECORD, 1])[..]));
    });
    let session = RpcSession::builder(place.socket()).incoming_threads(0).connect().unwrap();
    let root = session.root().unwrap();
    root.transaction(RECORD).oneway(|to| to.write(&1)).unwrap();
    server.join().unwrap();
}

/// Calls the object that it gets, without an end.
struct Deeper;

impl Service for Deeper {
    fn descriptor(&self) -> &str {
        "test.IEverything"
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> handoff_ipc::Result<()> {
        let back: Binder = transaction.data.read()?;
        back.transaction(1).call(|to| to.write(&Binder::new(Deeper)), |_| Ok(()))
    }
}

#[test]
fn calls_nested_without_an_end_are_refused_while_there_is_stack() {
    let (place, server) = hostile_server(|raw| {
        set_up(raw);
        // The root object, then its interface.
        raw.take(16 + 40);
        let root = [words(&[1, 3, 0]), words(&[12])].concat();
        raw.send(&frame(REPLY, &[words(&[0, 16, 0, 0, 0]), root, words(&[0])].concat()));
        let (mut nested, mut refused) = (0, None);
        while let Some((command, body)) = raw.frame() {
            match command {
                TRANSACT if body[8..12] == *b"FTN_" => {
                    let name = token();
                    raw.send(&frame(REPLY, &[words(&[0, name.len() as u32, 0, 0, 0]), name].concat()));
                }
                // Each call brings an object of the client's, which is called back with the root.
                TRANSACT => {
                    let at = token().len();
                    let theirs = u64::from_le_bytes(body[40 + at + 4..40 + at + 12].try_into().unwrap());
                    let root = [&token()[..], &words(&[1, 3, 0]), &words(&[12])].concat();
                    nested += 1;
                    raw.send(&call(theirs, 1, 0, 0, &root, &[at as u32]));
                }
                // All the way back.
                REPLY => {
                    refused.get_or_insert(i32::from_le_bytes(body[..4].try_into().unwrap()));
                    raw.send(&frame(REPLY, &words(&[-40i32 as u32, 0, 0, 0, 0])));
                }
                _ => {}
            }
        }
        assert!((3..=17).contains(&nested) && refused == Some(-40), "{nested} {refused:?}");
    });
    let session = RpcSession::builder(place.socket()).incoming_threads(0).connect().unwrap();
    let root = session.root().unwrap();
    let error = root.transaction(1).call(|to| to.write(&Binder::new(Deeper)), |_| Ok(())).unwrap_err();
    assert!(!matches!(error, Error::Dead), "{error}");
    drop((session, root));
    server.join().unwrap();
}
