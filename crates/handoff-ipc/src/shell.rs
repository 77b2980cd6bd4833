//! Commands that people give an object by hand: `IBinder::SHELL_COMMAND_TRANSACTION`, with Android's request.
//!
//! The request has three descriptors, the arguments, an object that opens files for a device's shell, which nothing here
//! needs, and an `IResultReceiver`, which is called oneway with the exit status.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use crate::call::OutCall;
use crate::calling::Proxy;
use crate::code::{Code, SHELL_COMMAND};
use crate::identity::CallingIdentity;
use crate::locked::lock;
use crate::object::{Binder, Service, Transaction};
use crate::parcel::{BareFd, Reader, Writer};
use crate::shell_command::ShellCommand;
use crate::{Error, Result};

/// Status for a caller that may give none: Android's `PERMISSION_DENIED`.
const REFUSED: i32 = -1;
/// `AID_SHELL`, the user of a device's `adb shell`.
const ANDROID_SHELL: u32 = 2000;
/// How often somebody who waits for a status looks whether the object's process lives.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Whether a caller may give commands: root, and the user whose process this is.
fn may_command(caller: CallingIdentity) -> bool {
    let is_android_shell = cfg!(target_os = "android") && caller.uid == ANDROID_SHELL;
    caller.uid == 0 || caller.uid == CallingIdentity::own().uid || is_android_shell
}

/// A command that is to be served, and who hears of its status.
pub(crate) struct ShellRequest {
    command: ShellCommand,
    receiver: Option<ResultReceiverProxy>,
}

impl ShellRequest {
    /// Reads a request. A caller that may give no commands is told so.
    pub(crate) fn read(caller: CallingIdentity, data: &mut Reader<'_>) -> Result<Self> {
        let mut file = || data.read::<BareFd>().map(|BareFd(fd)| File::from(fd));
        let (input, output, error) = (file()?, file()?, file()?);
        let args = data.read()?;
        // The shell's own object.
        data.read::<Option<Binder>>()?;
        let receiver = data.read::<Option<Binder>>()?.map(ResultReceiverProxy::wrap);
        if !may_command(caller) {
            tell(receiver, REFUSED);
            let who = format!("user {}: root and the service's own user give it commands", caller.uid);
            return Err(Error::PermissionDenied(who));
        }
        Ok(ShellRequest { command: ShellCommand { input, output, error, args, caller }, receiver })
    }

    /// Serves it. Where nobody hears of the status, it is the transaction's.
    pub(crate) fn serve(
        mut self,
        descriptor: &str,
        run: impl FnOnce(&mut ShellCommand) -> i32,
    ) -> Result<()> {
        let status = run(&mut self.command);
        // Whoever hears of the end finds everything written.
        drop(self.command);
        match self.receiver {
            None if status != 0 => Err(Error::from_status_t(status, descriptor, SHELL_COMMAND)),
            receiver => {
                tell(receiver, status);
                Ok(())
            }
        }
    }
}

fn tell(receiver: Option<ResultReceiverProxy>, status: i32) {
    if let Some(ResultReceiverProxy(receiver)) = receiver {
        // One that is gone wants no status.
        let send = receiver.transaction(SEND).interface(ResultReceiverProxy::INTERFACE);
        drop(send.oneway(|to| to.write_i32(status)));
    }
}

/// `IResultReceiver.send`, oneway.
const SEND: Code = 1;

struct ResultReceiverProxy(Binder);

impl Proxy for ResultReceiverProxy {
    const DESCRIPTOR: &'static str = "com.android.internal.os.IResultReceiver";

    fn wrap(binder: Binder) -> Self {
        ResultReceiverProxy(binder)
    }
}

struct ResultReceiver(Mutex<mpsc::Sender<i32>>);

impl Service for ResultReceiver {
    fn descriptor(&self) -> &str {
        ResultReceiverProxy::DESCRIPTOR
    }

    fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        match transaction.code() {
            SEND => {
                // A second one is for nobody.
                let _ = lock(&self.0).send(transaction.data.read()?);
                Ok(())
            }
            _ => Err(transaction.unknown(self.descriptor())),
        }
    }
}

impl Binder {
    /// Gives the object a command ([`Service::shell_command`]), with where it reads and writes; gives its exit status,
    /// once it has ended.
    ///
    /// # Errors
    /// [`Error::PermissionDenied`] unless this process is root's or of the user that serves the object;
    /// as [`CallBuilder::call`](crate::CallBuilder::call) otherwise.
    pub fn shell_command(&self, [input, output, error]: [BorrowedFd<'_>; 3], args: &[String]) -> Result<i32> {
        let (send, status) = mpsc::channel();
        let receiver = Binder::new(ResultReceiver(Mutex::new(send)));
        let write = |to: &mut Writer<'_>| {
            for file in [input, output, error] {
                to.write_fd(file)?;
            }
            to.write_slice(args)?;
            to.write_binder(None)?;
            to.write_binder(Some(&receiver))
        };
        self.transact(OutCall::of(SHELL_COMMAND), write, |_| Ok(()))?;
        // From here on only who serves the command has it.
        drop(receiver);
        loop {
            match status.recv_timeout(LOOK_AGAIN) {
                Ok(status) => return Ok(status),
                Err(mpsc::RecvTimeoutError::Timeout) if self.is_alive() => {}
                Err(mpsc::RecvTimeoutError::Timeout) => return Err(Error::Dead),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(Error::Protocol("the object ended a command without a status".into()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::parcel::Parcel;
    use crate::runtime::Runtime;
    use crate::servicemanager::ServiceOptions;

    /// Copies its input and its arguments to its output.
    struct Copies;

    impl Service for Copies {
        fn descriptor(&self) -> &str {
            "test.ICopies"
        }

        fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
            Err(transaction.unknown(self.descriptor()))
        }

        fn shell_command(&self, command: &mut ShellCommand) -> i32 {
            assert_eq!(command.caller.uid, CallingIdentity::own().uid);
            std::io::copy(&mut command.input, &mut command.output).unwrap();
            write!(command.output, "{:?}", command.args).unwrap();
            command.args.len() as i32
        }
    }

    /// Gives a command an input; gives its status, and what stands in its output and error.
    fn command(object: &Binder, input: &[u8], args: &[&str]) -> (Result<i32>, String, String) {
        let file = || tempfile::tempfile().unwrap();
        let (mut given, mut output, mut error) = (file(), file(), file());
        given.write_all(input).unwrap();
        given.rewind().unwrap();
        let args: Vec<String> = args.iter().map(|&arg| arg.into()).collect();
        let status = object.shell_command([given.as_fd(), output.as_fd(), error.as_fd()], &args);
        let read = |file: &mut File| {
            let mut text = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            text
        };
        (status, read(&mut output), read(&mut error))
    }

    fn serves(object: &Binder) {
        let (status, output, _) = command(object, b"in, ", &["a", "", "\u{e9}"]);
        assert_eq!((status.unwrap(), output.as_str()), (3, "in, [\"a\", \"\", \"\u{e9}\"]"));
    }

    #[test]
    fn a_command_has_the_callers_descriptors_and_gives_its_status() {
        let server = Runtime::private().unwrap();
        let object = Binder::new(Copies);
        serves(&object);
        server.services().add("copies", object, ServiceOptions::default()).unwrap();
        let client = Runtime::builder().socket(server.socket().unwrap()).connect().unwrap();
        serves(&client.services().get("copies").unwrap());
        // The manager has none.
        let (status, output, error) = command(&client.services().manager().unwrap(), b"", &["help"]);
        assert_eq!((status.unwrap(), output.as_str()), (-38, ""));
        assert_eq!(error, "android.os.IServiceManager has no shell commands\n");
    }

    /// One that never tells a status.
    struct Panics;

    impl Service for Panics {
        fn descriptor(&self) -> &str {
            "test.IPanics"
        }

        fn on_transact(&self, transaction: &mut Transaction<'_>) -> Result<()> {
            Err(transaction.unknown(self.descriptor()))
        }

        fn shell_command(&self, _: &mut ShellCommand) -> i32 {
            panic!("on purpose");
        }
    }

    #[test]
    fn a_command_that_panics_has_no_status() {
        let (status, ..) = command(&Binder::new(Panics), b"", &[]);
        assert!(matches!(status, Err(Error::Protocol(_))), "{status:?}");
    }

    #[test]
    fn other_users_give_no_commands() {
        let mut parcel = Parcel::new();
        let null = File::open("/dev/null").unwrap();
        let (send, status) = mpsc::channel();
        let receiver = Binder::new(ResultReceiver(Mutex::new(send)));
        parcel
            .write(|to| {
                (0..3).try_for_each(|_| to.write_fd(&null))?;
                to.write(&Vec::<String>::new())?;
                to.write_binder(None)?;
                to.write_binder(Some(&receiver))
            })
            .unwrap();
        let stranger = CallingIdentity { uid: CallingIdentity::own().uid + 1, ..CallingIdentity::own() };
        let refused = parcel.read(|from| ShellRequest::read(stranger, from)).err();
        assert!(matches!(refused, Some(Error::PermissionDenied(_))), "{refused:?}");
        assert_eq!(status.recv().unwrap(), REFUSED);
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn an_asynchronous_service_is_given_commands() {
        struct Later;
        impl crate::AsyncService for Later {
            fn descriptor(&self) -> &str {
                "test.ILater"
            }
            fn on_transact(
                self: std::sync::Arc<Self>,
                request: &mut crate::Request<'_>,
            ) -> Result<crate::Response> {
                Err(request.unknown("test.ILater"))
            }
            fn shell_command(&self, command: &mut ShellCommand) -> i32 {
                Copies.shell_command(command)
            }
        }
        let tasks = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let server = Runtime::private().unwrap();
        let object = Binder::new_async_on(Later, tasks.handle());
        serves(&object);
        server.services().add("later", object, ServiceOptions::default()).unwrap();
        let client = Runtime::builder().socket(server.socket().unwrap()).connect().unwrap();
        serves(&client.services().get("later").unwrap());
    }
}
