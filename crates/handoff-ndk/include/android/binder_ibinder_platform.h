/* What Android keeps for its own processes: scheduling, security contexts. */
#pragma once

#include <android/binder_ibinder.h>

__BEGIN_DECLS

enum {
    /* Buffers are cleared after the call. */
    FLAG_CLEAR_BUF = 0x20,
};

/* The caller's security context, or null; asked for with AIBinder_setRequestingSid before the object is given away. */
const char* AIBinder_getCallingSid(void);
void AIBinder_setRequestingSid(AIBinder* binder, bool requestingSid);
/* The least urgent policy (SCHED_OTHER, SCHED_FIFO, SCHED_RR) and priority that calls are served at; to be said before the
 * object is given away. */
void AIBinder_setMinSchedulerPolicy(AIBinder* binder, int policy, int priority);
/* Whether callers lend their scheduling to whoever serves them; here they do unless told otherwise. */
void AIBinder_setInheritRt(AIBinder* binder, bool inheritRt);

__END_DECLS
