/* Message queues in shared memory, and event flags, for the C++ beside this: these functions are ours, not Android's. A count
 * is one of messages. */
#pragma once

#include <android/binder_status.h>
#include <stddef.h>

__BEGIN_DECLS

struct AMessageQueue;
typedef struct AMessageQueue AMessageQueue;

/* A part of a queue's memory: read counter, write counter, ring, event flag, and what may follow. */
typedef struct {
    int32_t fdIndex;
    int32_t offset;
    int64_t extent;
} AMessageQueue_Part;

/* How another process finds a queue. */
typedef struct {
    const AMessageQueue_Part* parts;
    size_t partCount;
    const int* fds;
    size_t fdCount;
    int32_t quantum;
    int32_t flags;
} AMessageQueue_Descriptor;

/* Messages that lie behind each other; none at null. */
typedef struct {
    void* start;
    size_t bytes;
} AMessageQueue_Run;

/* Bits of an event flag to wait for, and to raise afterwards (0 for none); nanoseconds to wait at most (0 for ever); a flag's
 * word, or null for the queue's own. */
typedef struct {
    uint32_t waitFor;
    uint32_t notify;
    int64_t timeout;
    uint32_t* word;
} AMessageQueue_Blocking;

/* Null, with the reason on standard error, if there can be none. `ring` is memory for the messages, of so many bytes, or -1; it
 * is duplicated. */
AMessageQueue* AMessageQueue_new(size_t count, size_t messageSize, bool isSynchronized, bool withEventFlag, int ring,
                                 size_t ringSize);
/* As above. The descriptors are duplicated. With `reset`, both counters begin at 0. */
AMessageQueue* AMessageQueue_attach(const AMessageQueue_Descriptor* descriptor, size_t messageSize, bool isSynchronized,
                                    bool reset);
void AMessageQueue_delete(AMessageQueue* queue);
/* Calls `describe` once; what that is given lives until it returns. */
binder_status_t AMessageQueue_describe(const AMessageQueue* queue, void* to,
                                       void (*describe)(void* to, const AMessageQueue_Descriptor* descriptor));

size_t AMessageQueue_capacity(const AMessageQueue* queue);
size_t AMessageQueue_availableToWrite(const AMessageQueue* queue);
size_t AMessageQueue_availableToRead(const AMessageQueue* queue);
/* Null if it has none; lives as long as the queue. */
uint32_t* AMessageQueue_eventFlagWord(const AMessageQueue* queue);

/* All messages or none. A null `how` waits for nothing. One thread writes at a time, and one reads. */
bool AMessageQueue_write(const AMessageQueue* queue, const void* data, size_t count, const AMessageQueue_Blocking* how);
bool AMessageQueue_read(const AMessageQueue* queue, void* data, size_t count, const AMessageQueue_Blocking* how);

/* Messages in the ring itself, in one run or two; nothing is written, or gone, before the commit. */
bool AMessageQueue_beginWrite(const AMessageQueue* queue, size_t count, AMessageQueue_Run runs[2]);
bool AMessageQueue_commitWrite(const AMessageQueue* queue, size_t count);
bool AMessageQueue_beginRead(const AMessageQueue* queue, size_t count, AMessageQueue_Run runs[2]);
bool AMessageQueue_commitRead(const AMessageQueue* queue, size_t count);

/* Raises bits, and wakes who waits for one of them. */
binder_status_t AEventFlag_wake(uint32_t* word, uint32_t bits);
/* Waits until one of the bits is raised, and takes those that are; STATUS_TIMED_OUT after so many nanoseconds (0 for never). */
binder_status_t AEventFlag_wait(uint32_t* word, uint32_t bits, uint32_t* raised, int64_t timeout);

__END_DECLS
