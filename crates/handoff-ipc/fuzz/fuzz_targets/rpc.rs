//! Reads any bytes as a peer of Binder RPC sends them: a connection's header, frames, and the parcels in them; and has a
//! living session serve them, whose service calls back.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // An error is an answer; the target fails by a panic only.
    let _ = handoff_ipc::fuzzing::rpc_frames(input);
    handoff_ipc::fuzzing::rpc_session(input);
});
