/* Message queues of AIDL: values of a fixed size in shared memory, from one process to another without a call. */
#pragma once

#include <aidl/android/hardware/common/fmq/MQDescriptor.h>
#include <aidl/android/hardware/common/fmq/SynchronizedReadWrite.h>
#include <aidl/android/hardware/common/fmq/UnsynchronizedWrite.h>
#include <fmq/EventFlag.h>
#include <fmq/message_queue.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <type_traits>
#include <vector>

/* Sources of HALs name this class without its header. */
#if __has_include(<android-base/unique_fd.h>)
#include <android-base/unique_fd.h>
#endif

namespace android {

using ::aidl::android::hardware::common::fmq::MQDescriptor;
using ::aidl::android::hardware::common::fmq::SynchronizedReadWrite;
using ::aidl::android::hardware::common::fmq::UnsynchronizedWrite;

namespace impl {

template <typename T, typename = void>
struct HasFixedSize : std::integral_constant<bool, std::is_arithmetic<T>::value || std::is_enum<T>::value> {};
template <typename T>
struct HasFixedSize<T, std::void_t<typename T::fixed_size>> : T::fixed_size {};

}  // namespace impl

/* A queue of `T`. With the flavour SynchronizedReadWrite there is one reader, a write into a full queue fails, and both ends can
 * wait. With UnsynchronizedWrite there may be many readers, and the writer overwrites what they have not read. One thread writes
 * at a time, and one reads. */
template <typename T, typename Flavor>
struct AidlMessageQueue final {
private:
    static_assert(impl::HasFixedSize<T>::value, "a queue carries numbers, enums and parcelables that are @FixedSize");
    static constexpr bool kIsSynchronized = std::is_same<Flavor, SynchronizedReadWrite>::value;
    static_assert(kIsSynchronized || std::is_same<Flavor, UnsynchronizedWrite>::value, "AIDL has two flavours of queues");

public:
    /* The bits that both ends use unless they are told others. */
    enum EventFlagBits : uint32_t { FMQ_NOT_FULL = 0x01, FMQ_NOT_EMPTY = 0x02 };

    /* Messages that lie behind each other. */
    class MemRegion {
    public:
        MemRegion() = default;
        explicit MemRegion(const AMessageQueue_Run& run)
            : mStart(static_cast<T*>(run.start)), mLength(run.bytes / sizeof(T)) {}
        T* getAddress() const { return mStart; }
        size_t getLength() const { return mLength; }
        size_t getLengthInBytes() const { return mLength * sizeof(T); }

    private:
        T* mStart = nullptr;
        size_t mLength = 0;
    };

    /* Messages in the ring itself, which may go round its end. */
    class MemTransaction {
    public:
        MemTransaction() = default;
        explicit MemTransaction(const AMessageQueue_Run (&runs)[2]) : mFirst(runs[0]), mSecond(runs[1]) {}

        /* Null past the last one. */
        T* getSlot(size_t index) const {
            const size_t first = mFirst.getLength();
            if (index < first) return mFirst.getAddress() + index;
            return index - first < mSecond.getLength() ? mSecond.getAddress() + (index - first) : nullptr;
        }
        /* From `data` to the ring. */
        bool copyTo(const T* data, size_t start, size_t count = 1) const {
            return data != nullptr && forEachRun(start, count, [&](T* run, size_t done, size_t length) {
                memcpy(static_cast<void*>(run), data + done, length * sizeof(T));
            });
        }
        /* From the ring to `data`. */
        bool copyFrom(T* data, size_t start, size_t count = 1) const {
            return data != nullptr && forEachRun(start, count, [&](T* run, size_t done, size_t length) {
                memcpy(static_cast<void*>(data + done), run, length * sizeof(T));
            });
        }
        const MemRegion& getFirstRegion() const { return mFirst; }
        const MemRegion& getSecondRegion() const { return mSecond; }

    private:
        template <typename Copy>
        bool forEachRun(size_t start, size_t count, Copy copy) const;

        MemRegion mFirst, mSecond;
    };

    /* A queue that somebody else made. Its counters begin anew unless they are to be kept. */
    AidlMessageQueue(const MQDescriptor<T, Flavor>& descriptor, bool resetPointers = true);
    explicit AidlMessageQueue(size_t count, bool configureEventFlagWord = false)
        : mQueue(AMessageQueue_new(count, sizeof(T), kIsSynchronized, configureEventFlagWord, -1, 0)) {}
    /* With the messages in memory of the caller's: a ScopedFileDescriptor or unique_fd, or one that holds -1. */
    template <typename OwnedFd>
    AidlMessageQueue(size_t count, bool configureEventFlagWord, OwnedFd buffer, size_t bufferSize)
        : mQueue(AMessageQueue_new(count, sizeof(T), kIsSynchronized, configureEventFlagWord, buffer.get(), bufferSize)) {}
    AidlMessageQueue(const AidlMessageQueue&) = delete;
    AidlMessageQueue& operator=(const AidlMessageQueue&) = delete;
    ~AidlMessageQueue() { AMessageQueue_delete(mQueue); }

    /* What another process makes its queue of; one without parts if that fails. */
    MQDescriptor<T, Flavor> dupeDesc() const;

    /* False if it could not be made: the reason was written to standard error. */
    bool isValid() const { return mQueue != nullptr; }
    size_t getQuantumSize() const { return sizeof(T); }
    size_t getQuantumCount() const { return AMessageQueue_capacity(mQueue); }
    size_t availableToWrite() const { return AMessageQueue_availableToWrite(mQueue); }
    size_t availableToRead() const { return AMessageQueue_availableToRead(mQueue); }
    /* Null if it has none. */
    std::atomic<uint32_t>* getEventFlagWord() const {
        return reinterpret_cast<std::atomic<uint32_t>*>(AMessageQueue_eventFlagWord(mQueue));
    }

    bool write(const T* data, size_t count = 1) { return AMessageQueue_write(mQueue, data, count, nullptr); }
    bool read(T* data, size_t count = 1) { return AMessageQueue_read(mQueue, data, count, nullptr); }

    /* Waits for the bits `readNotification` until there is room, and raises `writeNotification`. 0 nanoseconds wait for ever. */
    bool writeBlocking(const T* data, size_t count, uint32_t readNotification, uint32_t writeNotification,
                       int64_t timeOutNanos = 0, hardware::EventFlag* flag = nullptr) {
        static_assert(kIsSynchronized, "the writer of an unsynchronized queue never waits");
        const AMessageQueue_Blocking how = blocking(readNotification, writeNotification, timeOutNanos, flag);
        return AMessageQueue_write(mQueue, data, count, &how);
    }
    bool writeBlocking(const T* data, size_t count, int64_t timeOutNanos = 0) {
        return writeBlocking(data, count, FMQ_NOT_FULL, FMQ_NOT_EMPTY, timeOutNanos);
    }
    /* Waits for the bits `writeNotification` until there are messages, and raises `readNotification`. */
    bool readBlocking(T* data, size_t count, uint32_t readNotification, uint32_t writeNotification, int64_t timeOutNanos = 0,
                      hardware::EventFlag* flag = nullptr) {
        static_assert(kIsSynchronized, "readers of an unsynchronized queue wait for its event flag themselves");
        const AMessageQueue_Blocking how = blocking(writeNotification, readNotification, timeOutNanos, flag);
        return AMessageQueue_read(mQueue, data, count, &how);
    }
    bool readBlocking(T* data, size_t count, int64_t timeOutNanos = 0) {
        return readBlocking(data, count, FMQ_NOT_FULL, FMQ_NOT_EMPTY, timeOutNanos);
    }

    /* Messages in the ring itself; nothing is written, or gone, before the commit, which may be of fewer. */
    bool beginWrite(size_t count, MemTransaction* transaction) const {
        return begin(AMessageQueue_beginWrite, count, transaction);
    }
    bool commitWrite(size_t count) { return AMessageQueue_commitWrite(mQueue, count); }
    bool beginRead(size_t count, MemTransaction* transaction) const {
        return begin(AMessageQueue_beginRead, count, transaction);
    }
    bool commitRead(size_t count) { return AMessageQueue_commitRead(mQueue, count); }

private:
    static AMessageQueue_Blocking blocking(uint32_t waitFor, uint32_t notify, int64_t timeout, hardware::EventFlag* flag) {
        return {waitFor, notify, timeout, flag == nullptr ? nullptr : flag->word()};
    }
    template <typename Begin>
    bool begin(Begin how, size_t count, MemTransaction* transaction) const {
        AMessageQueue_Run runs[2] = {};
        const bool done = transaction != nullptr && how(mQueue, count, runs);
        if (transaction != nullptr) *transaction = MemTransaction(runs);
        return done;
    }

    AMessageQueue* mQueue;
};

template <typename T, typename Flavor>
template <typename Copy>
bool AidlMessageQueue<T, Flavor>::MemTransaction::forEachRun(size_t start, size_t count, Copy copy) const {
    const size_t first = mFirst.getLength(), all = first + mSecond.getLength();
    if (start > all || count > all - start) return false;
    const size_t here = start < first ? std::min(count, first - start) : 0;
    if (here > 0) copy(mFirst.getAddress() + start, 0, here);
    if (count > here) copy(mSecond.getAddress() + (start + here - first), here, count - here);
    return true;
}

template <typename T, typename Flavor>
AidlMessageQueue<T, Flavor>::AidlMessageQueue(const MQDescriptor<T, Flavor>& descriptor, bool resetPointers) {
    std::vector<AMessageQueue_Part> parts;
    for (const auto& part : descriptor.grantors) parts.push_back({part.fdIndex, part.offset, part.extent});
    std::vector<int> fds;
    for (const auto& fd : descriptor.handle.fds) fds.push_back(fd.get());
    const AMessageQueue_Descriptor found = {parts.data(), parts.size(),       fds.data(),
                                            fds.size(),   descriptor.quantum, descriptor.flags};
    mQueue = AMessageQueue_attach(&found, sizeof(T), kIsSynchronized, resetPointers);
}

template <typename T, typename Flavor>
MQDescriptor<T, Flavor> AidlMessageQueue<T, Flavor>::dupeDesc() const {
    MQDescriptor<T, Flavor> made;
    AMessageQueue_describe(mQueue, &made, [](void* to, const AMessageQueue_Descriptor* found) {
        auto* made = static_cast<MQDescriptor<T, Flavor>*>(to);
        made->grantors.resize(found->partCount);
        for (size_t i = 0; i < found->partCount; i++) {
            made->grantors[i].fdIndex = found->parts[i].fdIndex;
            made->grantors[i].offset = found->parts[i].offset;
            made->grantors[i].extent = found->parts[i].extent;
        }
        for (size_t i = 0; i < found->fdCount; i++) made->handle.fds.emplace_back(dup(found->fds[i]));
        made->quantum = found->quantum;
        made->flags = found->flags;
    });
    return made;
}

}  // namespace android
