/* Up to 32 events in one word, which may lie in memory that processes share. */
#pragma once

#include <fmq/message_queue.h>

#include <atomic>
#include <new>

/* The statuses of Android's C++ libraries, where these are not installed. */
#if __has_include(<utils/Errors.h>)
#include <utils/Errors.h>
#else
namespace android {
typedef int32_t status_t;
enum {
    OK = 0,
    NO_ERROR = OK,
    BAD_VALUE = STATUS_BAD_VALUE,
    NO_MEMORY = STATUS_NO_MEMORY,
    TIMED_OUT = STATUS_TIMED_OUT,
};
}  // namespace android
#endif

namespace android {
namespace hardware {

class EventFlag {
public:
    /* Over a word that outlives it. */
    static status_t createEventFlag(std::atomic<uint32_t>* word, EventFlag** flag) {
        if (flag == nullptr) return BAD_VALUE;
        *flag = word == nullptr ? nullptr : new (std::nothrow) EventFlag(word);
        if (*flag != nullptr) return NO_ERROR;
        return word == nullptr ? BAD_VALUE : NO_MEMORY;
    }
    static status_t deleteEventFlag(EventFlag** flag) {
        if (flag == nullptr || *flag == nullptr) return BAD_VALUE;
        delete *flag;
        *flag = nullptr;
        return NO_ERROR;
    }

    status_t wake(uint32_t bits) { return AEventFlag_wake(word(), bits); }
    /* Waits until one of the bits is raised, and takes those that are. 0 nanoseconds wait for ever. No wake-up is spurious here,
     * so that there is nothing to try again. */
    status_t wait(uint32_t bits, uint32_t* raised, int64_t timeoutNanos = 0, bool /*retry*/ = false) {
        return AEventFlag_wait(word(), bits, raised, timeoutNanos);
    }

    /* What C functions take. */
    uint32_t* word() const { return reinterpret_cast<uint32_t*>(mWord); }

private:
    explicit EventFlag(std::atomic<uint32_t>* word) : mWord(word) {}
    EventFlag(const EventFlag&) = delete;
    EventFlag& operator=(const EventFlag&) = delete;
    ~EventFlag() = default;

    std::atomic<uint32_t>* mWord;
};

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is 32 bits");

}  // namespace hardware
}  // namespace android
