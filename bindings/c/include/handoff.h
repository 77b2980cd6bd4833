// Handoff: put threads where they should run, and how urgently.
// Generated from bindings/c/src by cbindgen; a test keeps it up to date.

#ifndef HANDOFF_H
#define HANDOFF_H

#include <stddef.h>
#include <stdint.h>

// What every function gives when it fails; [`handoff_last_error`] says why.
#define HANDOFF_FAILED -1

// The calling thread on some CPUs, at some priority, until [`handoff_guard_end`].
typedef struct handoff_guard handoff_guard;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Why the last call of this thread failed, in words. Valid until its next failure.
const char *handoff_last_error(void);

// The CPUs that a thread may use (0 is the calling one).
//
// Writes up to `capacity` numbers to `cpus` and gives how many there are, which may be more; -1 on failure.
//
// # Safety
//
// `cpus` has room for `capacity` numbers, or is null with a capacity of 0.
int handoff_allowed_cpus(int32_t thread,
                         uint16_t *cpus,
                         size_t capacity);

// The CPUs that a name means on this machine: `big`, `llc:0`, `0-3,5`, `all,!0`.
//
// Writes up to `capacity` numbers to `cpus` and gives how many there are, which may be more; -1 on failure.
//
// # Safety
//
// `name` is a string; `cpus` has room for `capacity` numbers, or is null with a capacity of 0.
int handoff_resolve_cpus(const char *name,
                         uint16_t *cpus,
                         size_t capacity);

// The CPU that the calling thread runs on now.
int handoff_current_cpu(void);

// Lets one thread (0 is the calling one) run on these CPUs only. Gives how many were granted; -1 on failure.
//
// # Safety
//
// `cpus` is a string.
int handoff_pin_thread(int32_t thread,
                       const char *cpus);

// Lets every thread of a process run on these CPUs only, those that are born meanwhile too.
// Gives how many CPUs were granted; -1 on failure, with nothing changed.
//
// # Safety
//
// `cpus` is a string.
int handoff_pin_process(int32_t pid, const char *cpus);

// Puts the calling thread on CPUs and gives it a priority (`fifo:10`, `other:-5`); either may be null.
// Gives null on failure, with nothing changed. The same thread must end it.
//
// # Safety
//
// `cpus` and `priority` are null or strings.
struct handoff_guard *handoff_guard_begin(const char *cpus,
                                          const char *priority);

// Gives the thread back what it had. Null is ignored; -1 from another thread, with nothing changed.
//
// # Safety
//
// `placement` is null, or comes from [`handoff_guard_begin`] and was not ended yet.
int handoff_guard_end(struct handoff_guard *placement);

// Gives a thread (0 is the calling one) a policy and priority: `fifo:10`, `rr:1`, `other:-5`, `batch`, `idle`.
//
// # Safety
//
// `priority` is a string.
int handoff_set_priority(int32_t thread,
                         const char *priority);

// Writes the policy and priority of a thread (0 is the calling one) to `buffer`, as
// [`handoff_set_priority`] reads it. Gives its length; -1 if it does not fit.
//
// # Safety
//
// `buffer` has room for `size` bytes.
int handoff_get_priority(int32_t thread, char *buffer, size_t size);

// Tells the running policy that a process came to the foreground (1), or left it (0).
int handoff_foreground(int32_t pid, int foreground);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HANDOFF_H */
