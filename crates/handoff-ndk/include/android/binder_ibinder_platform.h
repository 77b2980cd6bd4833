/* What Android keeps for its own processes: scheduling, security contexts. */
#pragma once

#include <android/binder_ibinder.h>

__BEGIN_DECLS

enum {
    /* Buffers are cleared after the call. */
    FLAG_CLEAR_BUF = 0x20,
};

/* Serves a command that somebody gives the object by hand (`handoff service shell NAME ARGS`), with that one's descriptors;
 * gives its exit status. Only root and the user that the process runs as get so far. */
typedef binder_status_t (*AIBinder_handleShellCommand)(AIBinder* binder, int in, int out, int err, const char** argv,
                                                       uint32_t argc);
void AIBinder_Class_setHandleShellCommand(AIBinder_Class* clazz, AIBinder_handleShellCommand handleShellCommand);

/* The caller's security context, or null; asked for with AIBinder_setRequestingSid before the object is given away. */
const char* AIBinder_getCallingSid(void);
void AIBinder_setRequestingSid(AIBinder* binder, bool requestingSid);
/* The least urgent policy (SCHED_OTHER, SCHED_FIFO, SCHED_RR) and priority that calls are served at; to be said before the
 * object is given away. */
void AIBinder_setMinSchedulerPolicy(AIBinder* binder, int policy, int priority);
/* Whether callers lend their scheduling to whoever serves them; here they do unless told otherwise. */
void AIBinder_setInheritRt(AIBinder* binder, bool inheritRt);

__END_DECLS
