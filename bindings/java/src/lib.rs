//! Handoff for Java and Kotlin: the native half of `dev.handoff.ThreadAffinity`; `calls.rs` is that of calls and
//! services.
//!
//! A thin shell over `handoff-placement`. Failures and panics become a `RuntimeException` with the reason;
//! nothing unwinds into the virtual machine. What the methods do is written in `ThreadAffinity.java`.
#![allow(unsafe_code)]

/// The native half of a method: what it fails with, and a panic, becomes an exception of Java's.
macro_rules! native {
    ($(#[$doc:meta])* fn $name:ident($env:pat $(, $argument:ident: $type:ty)*) $(-> $result:ty)? $body:block) => {
        $(#[$doc])*
        // SAFETY: the name is this class's and method's; no other library has it.
        #[unsafe(no_mangle)]
        pub extern "system" fn $name<'local>(
            mut env: EnvUnowned<'local>,
            _class: JClass<'local>,
            $($argument: $type),*
        ) $(-> $result)? {
            env.with_env(|$env| -> Result<_, Failure> { $body }).resolve::<ThrowRuntimeExAndDefault>()
        }
    };
}

pub mod calls;

use handoff_placement::notice;
use handoff_placement::{Allowed, CpuSet, Pin, Priority, Scope, Selector, Tid, Topology, set_affinity};
use jni::errors::ThrowRuntimeExAndDefault;
use jni::objects::{JClass, JString};
use jni::sys::{jboolean, jint};
use jni::{Env, EnvUnowned};

/// Why a call failed; its words become the exception's message.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Placement(#[from] handoff_placement::Error),
    #[error("{0}")]
    Selector(#[from] handoff_placement::SelectorError),
    #[error("{0}")]
    Priority(#[from] handoff_placement::PriorityParseError),
    #[error("{0}")]
    Policy(#[from] std::io::Error),
    #[error("{0}")]
    Jni(#[from] jni::errors::Error),
    #[error("{0} is not a process or thread")]
    NoTid(jint),
}

/// 0 is the calling thread.
fn tid(id: jint) -> Result<Tid, Failure> {
    if id == 0 { Ok(Tid::current()) } else { Tid::new(id).ok_or(Failure::NoTid(id)) }
}

fn resolve(name: &JString<'_>) -> Result<CpuSet, Failure> {
    let selector: Selector = name.to_string().parse()?;
    Ok(selector.resolve(&Topology::read()?)?)
}

/// Sets travel as the kernel's list format (`0-3,5`), which the Java half reads and gives back as it is.
fn give<'local>(env: &mut Env<'local>, set: &CpuSet) -> Result<JString<'local>, Failure> {
    Ok(env.new_string(set.to_string())?)
}

native! {
    /// The mask of a thread as a list; 0 is the calling one.
    fn Java_dev_handoff_ThreadAffinity_mask(env, thread: jint) -> JString<'local> {
        give(env, &Allowed::of(tid(thread)?)?.mask)
    }
}

native! {
    /// The CPUs that a name means here, as a list.
    fn Java_dev_handoff_ThreadAffinity_resolve(env, cpus: JString<'local>) -> JString<'local> {
        give(env, &resolve(&cpus)?)
    }
}

native! {
    /// Every online CPU, as a list.
    fn Java_dev_handoff_ThreadAffinity_online(env) -> JString<'local> {
        give(env, &Topology::read().map_err(Failure::from)?.online)
    }
}

native! {
    /// Pins one thread (0 is the calling one); gives the granted list.
    fn Java_dev_handoff_ThreadAffinity_pinThread(
        env, thread: jint, cpus: JString<'local>
    ) -> JString<'local> {
        give(env, &set_affinity(tid(thread)?, &resolve(&cpus)?)?)
    }
}

native! {
    /// Pins every thread of a process; gives the granted list.
    fn Java_dev_handoff_ThreadAffinity_pinProcess(env, pid: jint, cpus: JString<'local>) -> JString<'local> {
        let pid = Tid::new(pid).ok_or(Failure::NoTid(pid))?;
        give(env, Pin::apply(Scope::Process, pid, &resolve(&cpus)?)?.granted())
    }
}

native! {
    /// Policy and priority of a thread, such as `other:5`; 0 is the calling one.
    fn Java_dev_handoff_ThreadAffinity_priorityOf(env, thread: jint) -> JString<'local> {
        Ok(env.new_string(Priority::of(tid(thread)?)?.to_string())?)
    }
}

native! {
    /// Gives a thread a policy and priority; 0 is the calling one.
    fn Java_dev_handoff_ThreadAffinity_setPriorityOf(_, thread: jint, priority: JString<'local>) {
        let priority: Priority = priority.to_string().parse()?;
        Ok(priority.apply(tid(thread)?)?)
    }
}

native! {
    /// Tells the running policy that a process came to the foreground, or left it.
    fn Java_dev_handoff_ThreadAffinity_foreground(_, pid: jint, is_foreground: jboolean) {
        let pid = Tid::new(pid).ok_or(Failure::NoTid(pid))?;
        notice::foreground(&notice::default_folder(), pid, is_foreground)?;
        Ok(())
    }
}
