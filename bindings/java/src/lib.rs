//! Handoff for Java and Kotlin: the native half of `dev.handoff.ThreadAffinity`; `calls.rs` is that of calls and
//! services.
//!
//! A thin shell over `handoff-placement`. Failures and panics become a `RuntimeException` with the reason;
//! nothing unwinds into the virtual machine. What the methods do is written in `ThreadAffinity.java`.
#![allow(unsafe_code)]

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

/// The mask of a thread as a list; 0 is the calling one.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_ThreadAffinity_mask<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    thread: jint,
) -> JString<'local> {
    env.with_env(|env| give(env, &Allowed::of(tid(thread)?)?.mask)).resolve::<ThrowRuntimeExAndDefault>()
}

/// The CPUs that a name means here, as a list.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_ThreadAffinity_resolve<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    cpus: JString<'local>,
) -> JString<'local> {
    env.with_env(|env| give(env, &resolve(&cpus)?)).resolve::<ThrowRuntimeExAndDefault>()
}

/// Every online CPU, as a list.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_ThreadAffinity_online<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
) -> JString<'local> {
    env.with_env(|env| give(env, &Topology::read().map_err(Failure::from)?.online))
        .resolve::<ThrowRuntimeExAndDefault>()
}

/// Pins one thread (0 is the calling one); gives the granted list.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_ThreadAffinity_pinThread<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    thread: jint,
    cpus: JString<'local>,
) -> JString<'local> {
    env.with_env(|env| give(env, &set_affinity(tid(thread)?, &resolve(&cpus)?)?))
        .resolve::<ThrowRuntimeExAndDefault>()
}

/// Pins every thread of a process; gives the granted list.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_ThreadAffinity_pinProcess<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    pid: jint,
    cpus: JString<'local>,
) -> JString<'local> {
    env.with_env(|env| {
        let pid = Tid::new(pid).ok_or(Failure::NoTid(pid))?;
        give(env, Pin::apply(Scope::Process, pid, &resolve(&cpus)?)?.granted())
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}

/// Policy and priority of a thread, such as `other:5`; 0 is the calling one.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_ThreadAffinity_priorityOf<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    thread: jint,
) -> JString<'local> {
    env.with_env(|env| -> Result<_, Failure> { Ok(env.new_string(Priority::of(tid(thread)?)?.to_string())?) })
        .resolve::<ThrowRuntimeExAndDefault>()
}

/// Gives a thread a policy and priority; 0 is the calling one.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_ThreadAffinity_setPriorityOf<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    thread: jint,
    priority: JString<'local>,
) {
    env.with_env(|_| -> Result<_, Failure> {
        let priority: Priority = priority.to_string().parse()?;
        Ok(priority.apply(tid(thread)?)?)
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}

/// Tells the running policy that a process came to the foreground, or left it.
// SAFETY: the name is this class's and method's; no other library has it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_handoff_ThreadAffinity_foreground<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    pid: jint,
    is_foreground: jboolean,
) {
    env.with_env(|_| -> Result<_, Failure> {
        let pid = Tid::new(pid).ok_or(Failure::NoTid(pid))?;
        notice::foreground(&notice::default_folder(), pid, is_foreground)?;
        Ok(())
    })
    .resolve::<ThrowRuntimeExAndDefault>()
}
