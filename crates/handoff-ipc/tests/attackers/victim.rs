//! What is attacked: a service that does a bit of everything.

use std::path::Path;

use handoff_ipc::Binder;
use handoff_ipc::engine::Engine;
use handoff_ipc::shm::ShmEngine;

use crate::common::Everything;
use crate::process;

/// Descriptors that a victim may have: the usual soft limit.
pub const DESCRIPTORS: u64 = 1024;

/// The role of a service that everybody may connect to.
pub fn server(socket: &Path, uid: u32) {
    process::limit_descriptors(DESCRIPTORS);
    process::become_user(uid);
    // Without a backtrace, for which a program reads all that it knows of itself.
    std::panic::set_hook(Box::new(|panic| eprintln!("the victim's handler panicked: {panic}")));
    let engine = ShmEngine::new(socket).unwrap();
    let service = Everything::default();
    // A code that was scribbled over has the service make these, which it keeps: it has them when its attack begins.
    service.frames();
    service.numbers().unwrap();
    engine.become_context_manager(Binder::new(service)).unwrap();
    open_to_all(socket);
    serve(&engine);
}

/// Says how many messages were read when it is asked, and gives back what the allocator keeps.
pub fn serve(engine: &ShmEngine) -> ! {
    process::tell("serving");
    process::report_until_end(|| {
        // SAFETY: it takes a number.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0)
        };
        engine.stats().messages.to_string()
    })
}

/// Lets every user connect.
pub fn open_to_all(socket: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666)).unwrap();
}
