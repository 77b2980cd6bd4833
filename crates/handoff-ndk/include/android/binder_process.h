/* The process and its threads. $HANDOFF_ENGINE says which engine: `shm` (without it), or `binder` for the kernel's driver. */
#pragma once

#include <android/binder_status.h>
#include <stdbool.h>
#include <stdint.h>

__BEGIN_DECLS

/* Nothing is to be started: the pool serves as soon as an object was given away. */
void ABinderProcess_startThreadPool(void);
bool ABinderProcess_setThreadPoolMaxThreadCount(uint32_t numThreads);
bool ABinderProcess_isThreadPoolStarted(void);
/* Never returns. */
void ABinderProcess_joinThreadPool(void);
void ABinderProcess_disableBackgroundScheduling(bool disable);

/* For programs that wait for several things in one thread: `fd` is readable while calls of other processes wait, and the second
 * function serves them. Only while the pool was not started. News of deaths and registrations come on threads of the runtime. */
__attribute__((warn_unused_result)) binder_status_t ABinderProcess_setupPolling(int* fd);
__attribute__((warn_unused_result)) binder_status_t ABinderProcess_handlePolledCommands(void);

__END_DECLS
