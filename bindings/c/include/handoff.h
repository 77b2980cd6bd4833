// Handoff: put threads where they should run, and call services of other processes.
// Generated from bindings/c/src by cbindgen; a test keeps it up to date.

#ifndef HANDOFF_H
#define HANDOFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What every function gives when it fails; [`handoff_last_error`] says why.
#define HANDOFF_FAILED -1

// What kind of failure the last one of a thread was: [`handoff_last_kind`].
#define HANDOFF_KIND_OTHER 0

// The process that serves the object has died.
#define HANDOFF_KIND_DEAD 1

// The reply did not come within the deadline.
#define HANDOFF_KIND_DEADLINE 2

// The service answered with an exception: [`handoff_last_exception`].
#define HANDOFF_KIND_EXCEPTION 3

// No service has this name.
#define HANDOFF_KIND_NO_SERVICE 4

// The object does not know this transaction.
#define HANDOFF_KIND_UNKNOWN_TRANSACTION 5

// The object has another interface than was meant; nothing was sent.
#define HANDOFF_KIND_WRONG_INTERFACE 6

// Another process has registered the name: [`handoff_register`].
#define HANDOFF_KIND_NAME_TAKEN 7

// The receiver of oneway calls does not keep up.
#define HANDOFF_KIND_ONEWAY_FULL 8

// The caller may not do this.
#define HANDOFF_KIND_PERMISSION_DENIED 9

// The caller of a service lacks a permission.
#define HANDOFF_EXCEPTION_SECURITY -1

// An argument could not be read.
#define HANDOFF_EXCEPTION_BAD_PARCELABLE -2

// An argument is out of its range.
#define HANDOFF_EXCEPTION_ILLEGAL_ARGUMENT -3

// A null was passed where none is allowed.
#define HANDOFF_EXCEPTION_NULL_POINTER -4

// The service is not in a state to do this.
#define HANDOFF_EXCEPTION_ILLEGAL_STATE -5

// The service does not implement this.
#define HANDOFF_EXCEPTION_UNSUPPORTED_OPERATION -7

// The service's own error number says more.
#define HANDOFF_EXCEPTION_SERVICE_SPECIFIC -8

// A handler has served the call.
#define HANDOFF_SERVED 0

// A handler does not know the transaction.
#define HANDOFF_UNKNOWN_TRANSACTION 1

// For [`handoff_register`]: takes the name from a process that has it, until this one ends.
#define HANDOFF_REPLACE 1

// A death recipient that is in place.
typedef struct handoff_death handoff_death;

// The calling thread on some CPUs, at some priority, until [`handoff_guard_end`].
typedef struct handoff_guard handoff_guard;

// A reference to an object, of another process or of this one.
typedef struct handoff_object handoff_object;

// The data of a call or a reply, with objects and file descriptors. Values are read in the order in which they were written.
typedef struct handoff_parcel handoff_parcel;

// A connection to the service manager, and what was registered through it.
typedef struct handoff_runtime handoff_runtime;

// Hears that an object's process has ended.
typedef void (*handoff_died)(void *context);

// Who calls, as the kernel vouches for it.
typedef struct handoff_caller {
  // Its process; 0 where that is not visible here.
  uint32_t pid;
  // Its user.
  uint32_t uid;
  // Its group.
  uint32_t gid;
  // Whether nobody waits for a reply.
  bool oneway;
} handoff_caller;

// Serves one call: reads `request`, writes `reply`, and gives `HANDOFF_SERVED`. `HANDOFF_UNKNOWN_TRANSACTION` says that
// there is no such transaction; anything else that the call is refused, with what [`handoff_refuse`] was told, or else
// as an illegal state with what failed last in the handler. Neither parcel is used afterwards.
typedef int (*handoff_handler)(void *context,
                               const struct handoff_caller *caller,
                               uint32_t code,
                               struct handoff_parcel *request,
                               struct handoff_parcel *reply);

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

// What kind of failure the last one of this thread was, one of `HANDOFF_KIND_...`.
int handoff_last_kind(void);

// The exception that this thread's last call was answered with, one of `HANDOFF_EXCEPTION_...`. The service's own
// number is put into `specific` if that is not null. 0 if its last failure was none.
//
// # Safety
//
// `specific` is null or has room for a number.
int handoff_last_exception(int *specific);

// Connects to the service manager at a socket; null is where `$HANDOFF_SOCKET` says, or the usual place.
// Gives null on failure.
//
// # Safety
//
// `socket` is null or a string.
struct handoff_runtime *handoff_connect(const char *socket);

// Ends a connection: what was registered through it is gone. Null is ignored.
//
// # Safety
//
// `runtime` is null, or comes from [`handoff_connect`] and was not ended yet; its objects are used no longer.
void handoff_disconnect(struct handoff_runtime *runtime);

// Blocks until [`handoff_stop`], for a main thread that has nothing else to do: the runtime's own threads serve. Then
// takes back the names that were registered, and waits for the calls that are being served, ten seconds at the most.
// Gives 0; -1 on failure.
//
// # Safety
//
// `runtime` is a connection, and is not ended meanwhile.
int handoff_join_thread_pool(const struct handoff_runtime *runtime);

// Lets [`handoff_join_thread_pool`] return. From any thread, also in a handler; not in a signal handler. Gives 0; -1 on
// failure.
//
// # Safety
//
// `runtime` is a connection.
int handoff_stop(const struct handoff_runtime *runtime);

// Finds a service, waiting so many milliseconds for it to be registered. Gives null on failure.
//
// # Safety
//
// `runtime` is a connection, `name` a string.
struct handoff_object *handoff_find(const struct handoff_runtime *runtime,
                                    const char *name,
                                    uint32_t timeout_ms);

// Checks that an object has the interface of this descriptor, or one that extends it. Gives 0; -1 if not: of the kind
// `HANDOFF_KIND_WRONG_INTERFACE` with both names in `handoff_last_error`.
//
// # Safety
//
// `object` is a reference, `descriptor` a string.
int handoff_check_interface(const struct handoff_object *object,
                            const char *descriptor);

// 1 if both are references to one object, 0 if not.
//
// # Safety
//
// Both are references.
int handoff_is_same(const struct handoff_object *one, const struct handoff_object *other);

// Gives a reference back. Null is ignored.
//
// # Safety
//
// `object` is null, or comes from this library ([`handoff_find`], [`handoff_offer`], `handoff_read_object`) and was not
// given back yet.
void handoff_object_free(struct handoff_object *object);

// Calls a transaction and waits for its reply, so many milliseconds at the most (0: for ever). What was in `reply`
// is replaced. Gives 0; -1 on failure, of which [`handoff_last_kind`] tells the kind.
//
// # Safety
//
// `object` is a reference; `request` and `reply` are two parcels; null stands for none.
int handoff_call(const struct handoff_object *object,
                 uint32_t code,
                 struct handoff_parcel *request,
                 struct handoff_parcel *reply,
                 uint32_t timeout_ms);

// Queues a call whose result nobody waits for. Gives 0; -1 on failure.
//
// # Safety
//
// `object` is a reference; `request` is a parcel or null for none.
int handoff_call_oneway(const struct handoff_object *object,
                        uint32_t code,
                        struct handoff_parcel *request);

// 1 unless the object's process is known to be gone; 0 then.
//
// # Safety
//
// `object` is a reference.
int handoff_is_alive(const struct handoff_object *object);

// Has `died` called once, on a thread of the runtime, when the object's process ends; at once if it has. Gives
// null on failure. End it with [`handoff_death_free`]: one that runs at that moment may go on.
//
// # Safety
//
// `object` is a reference; any thread may call `died` with `context`, as long as the process lives.
struct handoff_death *handoff_on_death(const struct handoff_object *object,
                                       handoff_died died,
                                       void *context);

// Takes a death recipient back. Null is ignored.
//
// # Safety
//
// `death` is null, or comes from [`handoff_on_death`] and was not taken back yet.
void handoff_death_free(struct handoff_death *death);

// In a handler, before it gives -1: the exception that its caller gets, one of `HANDOFF_EXCEPTION_...`. `specific` is the
// service's own number, for `HANDOFF_EXCEPTION_SERVICE_SPECIFIC`. Gives -1, so that a handler can end with it.
//
// # Safety
//
// `message` is null or a string.
int handoff_refuse(int exception,
                   int specific,
                   const char *message);

// An object of this process, for others to call: it can be registered, or sent in a parcel as a callback. `serve` is called
// for each call, by several threads at once. Gives null on failure.
//
// # Safety
//
// `descriptor` is a string; any thread may call `serve` with `context`, as long as the process lives.
struct handoff_object *handoff_offer(const char *descriptor,
                                     handoff_handler serve,
                                     void *context);

// Registers an object under a name. Gives 0; -1 on failure, such as `HANDOFF_KIND_NAME_TAKEN` if another process has the
// name. `flags` is 0 or `HANDOFF_REPLACE`, which takes the name: that process has it again when this one ends.
//
// # Safety
//
// `runtime` is a connection, `name` a string, `object` a reference.
int handoff_register(const struct handoff_runtime *runtime,
                     const char *name,
                     const struct handoff_object *object,
                     uint32_t flags);

// [`handoff_offer`] and [`handoff_register`] in one: registers a service under a name. Gives 0; -1 on failure.
//
// # Safety
//
// `runtime` is a connection, `name` and `descriptor` are strings; any thread may call `serve` with `context`, as long as
// the process lives.
int handoff_serve(const struct handoff_runtime *runtime,
                  const char *name,
                  const char *descriptor,
                  handoff_handler serve,
                  void *context);

// A parcel with nothing in it.
struct handoff_parcel *handoff_parcel_new(void);

// Frees a parcel. Null is ignored.
//
// # Safety
//
// `freed` is null, or comes from [`handoff_parcel_new`] and was not freed yet.
void handoff_parcel_free(struct handoff_parcel *freed);

// Bytes of the parcel that were not read yet.
//
// # Safety
//
// `from` is null or a parcel.
size_t handoff_parcel_remaining(struct handoff_parcel *from);

// Adds a `boolean`. Gives 0; -1 on failure.
//
// # Safety
//
// `to` is a parcel.
int handoff_write_bool(struct handoff_parcel *to, bool value);

// Reads a `boolean`. Gives 0; -1 if the parcel holds none.
//
// # Safety
//
// `from` is a parcel, `value` has room for one.
int handoff_read_bool(struct handoff_parcel *from, bool *value);

// Adds an `int`. Gives 0; -1 on failure.
//
// # Safety
//
// `to` is a parcel.
int handoff_write_i32(struct handoff_parcel *to, int32_t value);

// Reads an `int`. Gives 0; -1 if the parcel holds none.
//
// # Safety
//
// `from` is a parcel, `value` has room for one.
int handoff_read_i32(struct handoff_parcel *from, int32_t *value);

// Adds a `long`. Gives 0; -1 on failure.
//
// # Safety
//
// `to` is a parcel.
int handoff_write_i64(struct handoff_parcel *to, int64_t value);

// Reads a `long`. Gives 0; -1 if the parcel holds none.
//
// # Safety
//
// `from` is a parcel, `value` has room for one.
int handoff_read_i64(struct handoff_parcel *from, int64_t *value);

// Adds a `double`. Gives 0; -1 on failure.
//
// # Safety
//
// `to` is a parcel.
int handoff_write_f64(struct handoff_parcel *to, double value);

// Reads a `double`. Gives 0; -1 if the parcel holds none.
//
// # Safety
//
// `from` is a parcel, `value` has room for one.
int handoff_read_f64(struct handoff_parcel *from, double *value);

// Adds a `String`, which travels in UTF-16. Gives 0; -1 on failure, as if it is no UTF-8.
//
// # Safety
//
// `to` is a parcel, `value` a string.
int handoff_write_string(struct handoff_parcel *to, const char *value);

// Adds a `byte[]`. Gives 0; -1 on failure.
//
// # Safety
//
// `to` is a parcel; `bytes` has `size` bytes, or is null with a size of 0.
int handoff_write_bytes(struct handoff_parcel *to, const uint8_t *bytes, size_t size);

// Reads a `String` as UTF-8, with a zero after it. Gives its length; -1 if the parcel holds none, or if it does not
// fit: then it can be read again, into [`handoff_parcel_remaining`] times 3 and 1 bytes at the most.
//
// # Safety
//
// `from` is a parcel; `buffer` has room for `size` bytes.
int handoff_read_string(struct handoff_parcel *from,
                        char *buffer,
                        size_t size);

// Reads a `byte[]`. Gives its length; -1 if the parcel holds none, or if it does not fit: then it can be read
// again, into [`handoff_parcel_remaining`] bytes at the most.
//
// # Safety
//
// `from` is a parcel; `buffer` has room for `size` bytes, or is null with a size of 0.
int handoff_read_bytes(struct handoff_parcel *from,
                       uint8_t *buffer,
                       size_t size);

// Adds a reference to an object (`IBinder`, an interface); null is one to none. Gives 0; -1 on failure.
//
// # Safety
//
// `to` is a parcel; `object` is null or a reference.
int handoff_write_object(struct handoff_parcel *to,
                         const struct handoff_object *object);

// Reads a reference, which is to be given back with `handoff_object_free`; null is put where a reference to no object
// came. Gives 0; -1 if the parcel holds none.
//
// # Safety
//
// `from` is a parcel, `object` has room for a pointer.
int handoff_read_object(struct handoff_parcel *from,
                        struct handoff_object **object);

// Adds a `ParcelFileDescriptor`: the parcel has a copy of the descriptor, which stays the caller's. Gives 0; -1 on
// failure.
//
// # Safety
//
// `to` is a parcel; `fd` stays open until this returns.
int handoff_write_fd(struct handoff_parcel *to,
                     int fd);

// Reads a `ParcelFileDescriptor`. Gives a descriptor that is the caller's to close; -1 if the parcel holds none.
//
// # Safety
//
// `from` is a parcel.
int handoff_read_fd(struct handoff_parcel *from);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HANDOFF_H */
