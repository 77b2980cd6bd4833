//! Descriptors in parcels.

use super::prelude::*;

fn file(party: &Party) -> Check<(i32, u64)> {
    let Some(fd) = party.process.open_file() else { return not_here("no file can be made") };
    match party.process.file(fd) {
        Some(file) => Ok((fd, file.inode)),
        None => not_here("/proc does not tell of descriptors"),
    }
}

fn inode_of(party: &Party, fd: u64) -> Option<u64> {
    party.process.file(fd as i32).map(|file| file.inode)
}

pub(super) const CASES: &[Case] = &[
    case("fd.arrives", Libbinder("Parcel::readFileDescriptor")).expects("the same file").with_pair(
        |manager, client| {
            let (fd, inode) = file(&client)?;
            client.call(&Call::to(0, 1).with(Parcel::default().fd(fd)))?;
            let object = manager.receive()?.object(0)?;
            same("the type", object.kind, TYPE_FD)?;
            same("the file", inode_of(&manager, object.value & 0xffff_ffff), Some(inode))
        },
    ),
    case("fd.new", Libbinder("Parcel::readFileDescriptor")).expects("a descriptor of its own").with_pair(
        |manager, client| {
            let (fd, _) = file(&client)?;
            client.call(&Call::to(0, 1).with(Parcel::default().fd(fd).fd(fd)))?;
            let call = manager.receive()?;
            that(call.object(0)?.value != call.object(1)?.value, "two objects brought one descriptor")
        },
    ),
    case("fd.closes-on-exec", Libbinder("ParcelFileDescriptor")).expects("O_CLOEXEC is set").with_pair(
        |manager, client| {
            let (fd, _) = file(&client)?;
            client.call(&Call::to(0, 1).with(Parcel::default().fd(fd)))?;
            let got = manager.receive()?.object(0)?.value as u32 as i32;
            same("O_CLOEXEC", manager.process.file(got).map(|file| file.closes_on_exec), Some(true))
        },
    ),
    case("fd.cookie", Driver("binder_translate_fd")).expects("the object's cookie arrives").with_pair(
        |manager, client| {
            let (fd, _) = file(&client)?;
            client.call(&Call::to(0, 1).with(Parcel::default().fd(fd)))?;
            same("the cookie", manager.receive()?.object(0)?.cookie, 0xc0)
        },
    ),
    case("fd.stays", Libbinder("Parcel::readFileDescriptor"))
        .expects("stays open when the parcel was given back")
        .with_pair(|manager, client| {
            let (fd, inode) = file(&client)?;
            client.call(&Call::to(0, 1).with(Parcel::default().fd(fd)))?;
            let call = manager.receive()?;
            let got = call.object(0)?.value;
            manager.free(&call)?;
            same("the file", inode_of(&manager, got & 0xffff_ffff), Some(inode))
        }),
    case("fd.refused", Libbinder("FLAT_BINDER_FLAG_ACCEPTS_FDS"))
        .expects("BR_FAILED_REPLY where the object takes none")
        .by(|stage| {
            let manager = stage.manager_with(MANAGER_FLAGS & !FLAG_ACCEPTS_FDS, MAPPED)?;
            let client = stage.client()?;
            let (fd, _) = file(&client)?;
            client.fails(&Call::to(0, 1).with(Parcel::default().fd(fd)), BR_FAILED_REPLY)?;
            manager.expect_nothing()
        }),
    case("fd.refused.reason", Driver("binder_translate_fd")).expects("EPERM").by(|stage| {
        let _manager = stage.manager_with(MANAGER_FLAGS & !FLAG_ACCEPTS_FDS, MAPPED)?;
        let client = stage.client()?;
        client.extended_error()?;
        let (fd, _) = file(&client)?;
        client.fails(&Call::to(0, 1).with(Parcel::default().fd(fd)), BR_FAILED_REPLY)?;
        errno("the reason", -client.extended_error()?.1, libc::EPERM)
    }),
    case("fd.oneway", Libbinder("Parcel::writeFileDescriptor")).expects("in a oneway call, too").with_pair(
        |manager, client| {
            let (fd, inode) = file(&client)?;
            client.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::default().fd(fd)))?;
            let got = manager.receive()?.object(0)?.value;
            same("the file", inode_of(&manager, got & 0xffff_ffff), Some(inode))
        },
    ),
    case("fd.of-reply", Libbinder("TF_ACCEPT_FDS"))
        .expects("in a reply to a call that takes them")
        .with_pair(|manager, client| {
            let (fd, inode) = file(&manager)?;
            client.call(&Call::to(0, 1).flags(TF_ACCEPT_FDS))?;
            manager.receive()?;
            manager.answer_with(Parcel::default().fd(fd))?;
            let got = client.receive_reply()?.object(0)?.value;
            same("the file", inode_of(&client, got & 0xffff_ffff), Some(inode))
        }),
    case("fd.of-reply.refused", Libbinder("TF_ACCEPT_FDS"))
        .expects("BR_FAILED_REPLY for a caller that takes none")
        .with_pair(|manager, client| {
            let (fd, _) = file(&manager)?;
            client.call(&Call::to(0, 1))?;
            manager.receive()?;
            manager.answer_with(Parcel::default().fd(fd))?;
            client.expect(&[BR_TRANSACTION_COMPLETE, BR_FAILED_REPLY]).map(drop)
        }),
    case("fd.to-another-process", Libbinder("Parcel::readFileDescriptor"))
        .expects("is opened in the receiver's process")
        .by(|stage| {
            let manager = stage.manager()?;
            let peer = stage.peer()?;
            let other = stage.client_of(&*peer, false)?;
            let (fd, inode) = file(&manager)?;
            other.call(&Call::to(0, 1).flags(TF_ACCEPT_FDS))?;
            manager.receive()?;
            manager.answer_with(Parcel::default().fd(fd))?;
            let got = other.receive_reply()?.object(0)?.value;
            same("the file", inode_of(&other, got & 0xffff_ffff), Some(inode))
        }),
    case("fd.sender-dies", Libbinder("Parcel::readFileDescriptor")).expects("outlives its sender").by(
        |stage| {
            let manager = stage.manager()?;
            let mut peer = stage.peer()?;
            let other = stage.client_of(&*peer, false)?;
            let (fd, inode) = file(&other)?;
            other.call(&Call::to(0, 1).flags(TF_ONE_WAY).with(Parcel::default().fd(fd)))?;
            peer.kill();
            let got = manager.receive()?.object(0)?.value;
            same("the file", inode_of(&manager, got & 0xffff_ffff), Some(inode))
        },
    ),
    case("fda.arrives", Libbinder("libhwbinder Parcel::writeNativeHandle"))
        .expects("each descriptor of an array is a new one")
        .with_pair(|manager, client| {
            let (fd, inode) = file(&client)?;
            let array = [fd, fd, 7].map(i32::to_ne_bytes);
            client.call(
                &Call::to(0, 1)
                    .with(Parcel::bytes(&[0; 8]).buffer(array.as_flattened(), None).fd_array(2, 0, 0)),
            )?;
            let call = manager.receive()?;
            let at = call.object(0)?.value;
            let Some(bytes) = manager.process.memory(at, 12) else {
                return unexpected("the buffer cannot be read");
            };
            let word = |index: usize| {
                u32::from_ne_bytes([bytes[index], bytes[index + 1], bytes[index + 2], bytes[index + 3]])
            };
            that(word(0) != word(4), "two places have one descriptor")?;
            for index in [0, 4] {
                same("the file", inode_of(&manager, word(index).into()), Some(inode))?;
            }
            same("what is behind the array", word(8), 7)
        }),
    case("fda.closed", Libbinder("libhwbinder releases native handles"))
        .expects("its descriptors are closed when the parcel is given back")
        .with_pair(|manager, client| {
            let (fd, inode) = file(&client)?;
            client.call(
                &Call::to(0, 1)
                    .with(Parcel::bytes(&[0; 8]).buffer(&fd.to_ne_bytes(), None).fd_array(1, 0, 0)),
            )?;
            let call = manager.receive()?;
            let Some(bytes) = manager.process.memory(call.object(0)?.value, 4) else {
                return unexpected("the buffer cannot be read");
            };
            let got = u64::from(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
            same("the file", inode_of(&manager, got), Some(inode))?;
            manager.free(&call)?;
            manager.returns()?;
            that(inode_of(&manager, got) != Some(inode), "the descriptor is still open")
        }),
    case("fda.empty", Driver("binder_translate_fd_array")).expects("an array of none").with_pair(
        |manager, client| {
            client
                .call(&Call::to(0, 1).with(Parcel::bytes(&[0; 8]).buffer(&[0; 8], None).fd_array(0, 0, 0)))?;
            manager.receive().map(drop)
        },
    ),
    case("fda.too-many", Driver("binder_translate_fd_array"))
        .expects("BR_FAILED_REPLY for more than the buffer has")
        .with_pair(|_manager, client| {
            client.fails(
                &Call::to(0, 1).with(Parcel::bytes(&[0; 8]).buffer(&[0; 8], None).fd_array(3, 0, 0)),
                BR_FAILED_REPLY,
            )
        }),
    case("fda.huge", Driver("binder_translate_fd_array"))
        .expects("BR_FAILED_REPLY for a number whose bytes wrap")
        .with_pair(|_manager, client| {
            client.fails(
                &Call::to(0, 1).with(Parcel::bytes(&[0; 8]).buffer(&[0; 8], None).fd_array(1 << 62, 0, 0)),
                BR_FAILED_REPLY,
            )
        }),
    case("fda.unaligned", Driver("binder_translate_fd_array"))
        .expects("BR_FAILED_REPLY for an array at 2")
        .with_pair(|_manager, client| {
            client.fails(
                &Call::to(0, 1).with(Parcel::bytes(&[0; 8]).buffer(&[0; 8], None).fd_array(1, 0, 2)),
                BR_FAILED_REPLY,
            )
        }),
    case("fda.no-parent", Driver("binder_validate_ptr"))
        .expects("BR_FAILED_REPLY for a parent that is not there")
        .with_pair(|_manager, client| {
            client.fails(
                &Call::to(0, 1).with(Parcel::bytes(&[0; 8]).buffer(&[0; 8], None).fd_array(1, 5, 0)),
                BR_FAILED_REPLY,
            )
        }),
    case("fda.parent-no-buffer", Driver("binder_validate_ptr"))
        .expects("BR_FAILED_REPLY for a parent that is no buffer")
        .with_pair(|_manager, client| {
            let parcel = Parcel::default().binder(0x1000, 1).buffer(&[0; 8], None).fd_array(1, 0, 0);
            client.call(&Call::to(0, 1).with(parcel))?;
            let failed = client.returns()?.iter().any(|one| one.number == BR_FAILED_REPLY);
            that(failed, "an array in an object that is no buffer was taken")
        }),
    case("fda.bad-descriptor", Driver("binder_translate_fd_array"))
        .expects("BR_FAILED_REPLY for one that is none")
        .with_pair(|manager, client| {
            let bytes = (-1i32).to_ne_bytes();
            client.fails(
                &Call::to(0, 1).with(Parcel::bytes(&[0; 8]).buffer(&bytes, None).fd_array(1, 0, 0)),
                BR_FAILED_REPLY,
            )?;
            manager.expect_nothing()
        }),
];
