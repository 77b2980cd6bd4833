//! The service in Rust that the tests of the other languages call, and a process that one of them ends.
// A module of a test cannot be reached from elsewhere.
#![allow(unreachable_pub)]

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use handoff_ipc::parcel::Parcel;
use handoff_ipc::runtime::{Runtime, SOCKET_VARIABLE};
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, ParcelService, Status};

/// 1 echoes every kind of value, 2 refuses, 3 waits, 4 ends its process, 5 counts, 6 waits until as many
/// calls of it as it is told have come, and says whether they did.
pub fn rust_service() -> Binder {
    let count = AtomicI32::new(0);
    let (arrived, more_came) = (Mutex::new(0), Condvar::new());
    Binder::new(ParcelService::new("test.IRust", move |call, mut request: Parcel| {
        let mut reply = Parcel::new();
        match call.code() {
            1 => {
                let all = request.read(|from| {
                    Ok((
                        (from.read::<bool>()?, from.read::<i32>()?, from.read::<i64>()?, from.read::<f64>()?),
                        (from.read::<String>()?, from.read_bytes()?.to_vec()),
                    ))
                })?;
                let ((truth, int, long, double), (text, bytes)) = all;
                reply.write(|to| {
                    to.write(&truth)?;
                    to.write(&int)?;
                    to.write(&long)?;
                    to.write(&double)?;
                    to.write(&text)?;
                    to.write_bytes(&bytes)
                })?;
            }
            2 => return Err(Status::service_specific(42, "as asked").into()),
            // Long after the deadline of its caller, should that be held up.
            3 => std::thread::sleep(Duration::from_secs(5)),
            4 => std::process::abort(),
            5 => reply.write(|to| to.write(&count.fetch_add(1, Ordering::SeqCst)))?,
            6 => {
                let all: i32 = request.read(|from| from.read())?;
                let mut here = arrived.lock().unwrap();
                *here += 1;
                more_came.notify_all();
                let limit = Duration::from_secs(60);
                let (here, _) = more_came.wait_timeout_while(here, limit, |here| *here < all).unwrap();
                reply.write(|to| to.write(&(*here >= all)))?;
            }
            _ => return Ok(None),
        }
        Ok(Some(reply))
    }))
}

const MORTAL: &str = "HANDOFF_TEST_MORTAL";

/// Not a test of its own: the process that `test.mortal` ends.
#[test]
#[ignore = "a process of another test"]
fn mortal_main() {
    if std::env::var_os(MORTAL).is_none() {
        return;
    }
    let runtime = Runtime::connect().unwrap();
    runtime.services().add("test.mortal", rust_service(), ServiceOptions::default()).unwrap();
    runtime.join_thread_pool();
}

/// A child that does not outlive its test; its standard input is open until then.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts a process that serves `test.mortal`.
pub fn mortal(runtime: &Runtime) -> Running {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "service::mortal_main"])
        .env(MORTAL, "1")
        .env(SOCKET_VARIABLE, runtime.socket().unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let running = Running(child);
    runtime.services().wait_for("test.mortal", Duration::from_secs(60)).unwrap();
    running
}
