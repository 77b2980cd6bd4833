//! Attackers: processes of another user that speak the control protocol themselves and stay connected while honest
//! clients call.
//!
//! `raw.rs` and `regions.rs` are the protocol as bytes, `case.rs` runs an attack and judges what it did to the others, `victim.rs` and
//! `honest.rs` are those others; the attacks stand in the other modules, by what they attack. Each states its
//! bounds and prints them beside what was measured. With `HANDOFF_ATTACK_STRICT=1`, on a machine that does nothing
//! else, the honest calls' times are judged as well.
// Raw memory and descriptors are what attacks are made of; a module of a test cannot be reached from elsewhere.
#![allow(unsafe_code, unreachable_pub)]

#[macro_use]
mod case;
mod bank;
mod calls;
#[path = "../it/common/mod.rs"]
mod common;
mod ends;
mod flood;
mod frames;
mod fuse;
mod honest;
mod kinds;
mod messages;
mod names;
mod options;
mod peers;
mod process;
mod raw;
mod regions;
mod rings;
mod shares;
#[cfg(feature = "tokio")]
mod tasks;
mod usage;
mod victim;
mod words;

#[test]
#[ignore = "a role of the tests, which start it"]
fn role_main() {
    let Some((role, socket)) = common::role() else { return };
    match role.as_str() {
        "server" => victim::server(&socket, process::Users::here().victim()),
        "root server" => victim::server(&socket, 0),
        "huge pages" => words::huge_pages(),
        #[cfg(feature = "tokio")]
        "tasks" => tasks::server(&socket),
        "manager" => bank::manager(&socket),
        "bank" => bank::bank(&socket),
        "teller" => bank::teller(&socket),
        "camera" => bank::camera(&socket),
        honest if honest.starts_with("honest") => honest::client(honest, &socket),
        attack => {
            match attack {
                "file_that_never_answers" => fuse::mount(&socket, false),
                "memory_that_is_being_written" | "arguments_that_are_being_written" => {
                    fuse::mount(&socket, true);
                }
                _ => {}
            }
            process::become_user(process::Users::here().attacker());
            let alone: &[case::Attack] = &[
                ("slot_of_huge_pages", words::slot_of_huge_pages),
                ("file_that_never_answers", fuse::file_that_never_answers),
                ("memory_that_is_being_written", fuse::memory_that_is_being_written),
                ("arguments_that_are_being_written", fuse::arguments_that_are_being_written),
            ];
            let all = [
                calls::ALL,
                ends::ALL,
                flood::ALL,
                frames::ALL,
                kinds::ALL,
                messages::ALL,
                names::ALL,
                options::ALL,
                peers::ALL,
                rings::ALL,
            ];
            #[cfg(feature = "tokio")]
            let alone = [tasks::ALL, alone].concat();
            let known = [all.concat(), shares::ALL.to_vec(), words::ALL.to_vec(), alone.to_vec()]
                .concat()
                .into_iter()
                .find(|(name, _)| *name == attack);
            assert!(raw::is_served(&socket), "the attacker speaks the protocol");
            // What goes wrong for the attacker is its own affair.
            std::panic::set_hook(Box::new(|_| ()));
            (known.expect("no such role").1)(&socket);
            process::tell("attacking");
            process::report_until_end(|| raw::DONE.report());
        }
    }
}
