/* C++ owners of what the C API hands out. */
#pragma once

#include <android/binder_ibinder.h>
#include <android/binder_parcel.h>
#include <android/binder_status.h>
#include <assert.h>
#include <unistd.h>

#include <cstddef>
#include <iostream>
#include <string>
#include <utility>

namespace ndk {

/* A strong reference. Made from a pointer, it takes that reference over. */
class SpAIBinder {
public:
    SpAIBinder() : mBinder(nullptr) {}
    explicit SpAIBinder(AIBinder* binder) : mBinder(binder) {}
    SpAIBinder(std::nullptr_t) : mBinder(nullptr) {}
    SpAIBinder(const SpAIBinder& other) : mBinder(other.mBinder) { AIBinder_incStrong(mBinder); }
    SpAIBinder(SpAIBinder&& other) noexcept : mBinder(std::exchange(other.mBinder, nullptr)) {}
    ~SpAIBinder() { set(nullptr); }

    SpAIBinder& operator=(const SpAIBinder& other) {
        AIBinder_incStrong(other.mBinder);
        set(other.mBinder);
        return *this;
    }
    SpAIBinder& operator=(SpAIBinder&& other) noexcept {
        if (this != &other) set(std::exchange(other.mBinder, nullptr));
        return *this;
    }

    /* Takes a reference over, and gives up the one that was here. */
    void set(AIBinder* binder) {
        AIBinder* old = std::exchange(mBinder, binder);
        if (old != nullptr) AIBinder_decStrong(old);
    }
    AIBinder* get() const { return mBinder; }
    /* For functions that hand a reference out: to be used while there is none. */
    AIBinder** getR() { return &mBinder; }

    explicit operator bool() const { return mBinder != nullptr; }

private:
    AIBinder* mBinder;
};

inline bool operator==(const SpAIBinder& l, const SpAIBinder& r) { return l.get() == r.get(); }
inline bool operator!=(const SpAIBinder& l, const SpAIBinder& r) { return l.get() != r.get(); }
inline bool operator<(const SpAIBinder& l, const SpAIBinder& r) { return l.get() < r.get(); }
inline bool operator>(const SpAIBinder& l, const SpAIBinder& r) { return r < l; }
inline bool operator<=(const SpAIBinder& l, const SpAIBinder& r) { return !(r < l); }
inline bool operator>=(const SpAIBinder& l, const SpAIBinder& r) { return !(l < r); }

namespace impl {

/* One owner of one thing that is given back with `Destroy`. */
template <typename T, void (*Destroy)(T), T Default>
class ScopedAResource {
public:
    explicit ScopedAResource(T resource = Default) : mResource(resource) {}
    ScopedAResource(ScopedAResource&& other) noexcept : mResource(other.release()) {}
    ScopedAResource(const ScopedAResource&) = delete;
    ScopedAResource& operator=(const ScopedAResource&) = delete;
    ScopedAResource& operator=(ScopedAResource&& other) noexcept {
        if (this != &other) set(other.release());
        return *this;
    }
    ~ScopedAResource() { set(Default); }

    void set(T resource) {
        T old = std::exchange(mResource, resource);
        if (old != Default) Destroy(old);
    }
    T get() const { return mResource; }
    [[nodiscard]] T release() { return std::exchange(mResource, Default); }
    T* getR() { return &mResource; }

private:
    T mResource;
};

inline void ScopedFileDescriptor_close(int fd) { close(fd); }

/* The status that all calls share that succeed. It is known before it is asked for, unless that is done before `main`. */
inline AStatus* const kOk = AStatus_newOk();
inline void ScopedAStatus_delete(AStatus* status) {
    if (status != kOk) AStatus_delete(status);
}

}  // namespace impl

class ScopedAParcel : public impl::ScopedAResource<AParcel*, AParcel_delete, nullptr> {
public:
    explicit ScopedAParcel(AParcel* parcel = nullptr) : ScopedAResource(parcel) {}
    ScopedAParcel(ScopedAParcel&&) noexcept = default;
    ScopedAParcel& operator=(ScopedAParcel&&) noexcept = default;

    bool operator!=(const ScopedAParcel& other) const { return get() != other.get(); }
    bool operator==(const ScopedAParcel& other) const { return get() == other.get(); }
    bool operator<(const ScopedAParcel& other) const { return get() < other.get(); }
};

/* The outcome of a call. */
class ScopedAStatus : public impl::ScopedAResource<AStatus*, impl::ScopedAStatus_delete, nullptr> {
public:
    explicit ScopedAStatus(AStatus* status = nullptr) : ScopedAResource(status) {}
    ScopedAStatus(ScopedAStatus&&) noexcept = default;
    ScopedAStatus& operator=(ScopedAStatus&&) noexcept = default;

    bool isOk() const { return get() != nullptr && (get() == impl::kOk || AStatus_isOk(get())); }
    binder_exception_t getExceptionCode() const { return AStatus_getExceptionCode(get()); }
    int32_t getServiceSpecificError() const { return AStatus_getServiceSpecificError(get()); }
    binder_status_t getStatus() const { return AStatus_getStatus(get()); }
    const char* getMessage() const { return AStatus_getMessage(get()); }
    std::string getDescription() const {
        if (get() == nullptr) return "(no status)";
        const char* description = AStatus_getDescription(get());
        std::string text(description);
        AStatus_deleteDescription(description);
        return text;
    }

    static ScopedAStatus ok() { return ScopedAStatus(AStatus_newOk()); }
    static ScopedAStatus fromExceptionCode(binder_exception_t exception) {
        return ScopedAStatus(AStatus_fromExceptionCode(exception));
    }
    static ScopedAStatus fromExceptionCodeWithMessage(binder_exception_t exception, const char* message) {
        return ScopedAStatus(AStatus_fromExceptionCodeWithMessage(exception, message));
    }
    static ScopedAStatus fromServiceSpecificError(int32_t serviceSpecific) {
        return ScopedAStatus(AStatus_fromServiceSpecificError(serviceSpecific));
    }
    static ScopedAStatus fromServiceSpecificErrorWithMessage(int32_t serviceSpecific, const char* message) {
        return ScopedAStatus(AStatus_fromServiceSpecificErrorWithMessage(serviceSpecific, message));
    }
    static ScopedAStatus fromStatus(binder_status_t status) { return ScopedAStatus(AStatus_fromStatus(status)); }
};

inline std::ostream& operator<<(std::ostream& os, const ScopedAStatus& status) {
    return os << status.getDescription();
}

class ScopedAIBinder_DeathRecipient
    : public impl::ScopedAResource<AIBinder_DeathRecipient*, AIBinder_DeathRecipient_delete, nullptr> {
public:
    explicit ScopedAIBinder_DeathRecipient(AIBinder_DeathRecipient* recipient = nullptr)
        : ScopedAResource(recipient) {}
    ScopedAIBinder_DeathRecipient(ScopedAIBinder_DeathRecipient&&) noexcept = default;
    ScopedAIBinder_DeathRecipient& operator=(ScopedAIBinder_DeathRecipient&&) noexcept = default;
};

class ScopedAIBinder_Weak : public impl::ScopedAResource<AIBinder_Weak*, AIBinder_Weak_delete, nullptr> {
public:
    explicit ScopedAIBinder_Weak(AIBinder_Weak* weak = nullptr) : ScopedAResource(weak) {}
    ScopedAIBinder_Weak(ScopedAIBinder_Weak&&) noexcept = default;
    ScopedAIBinder_Weak& operator=(ScopedAIBinder_Weak&&) noexcept = default;

    SpAIBinder promote() const {
        return SpAIBinder(get() == nullptr ? nullptr : AIBinder_Weak_promote(get()));
    }
};

class ScopedFileDescriptor : public impl::ScopedAResource<int, impl::ScopedFileDescriptor_close, -1> {
public:
    ScopedFileDescriptor() : ScopedFileDescriptor(-1) {}
    explicit ScopedFileDescriptor(int fd) : ScopedAResource(fd) {}
    ScopedFileDescriptor(ScopedFileDescriptor&&) noexcept = default;
    ScopedFileDescriptor& operator=(ScopedFileDescriptor&&) noexcept = default;

    ScopedFileDescriptor dup() const { return ScopedFileDescriptor(::dup(get())); }

    bool operator!=(const ScopedFileDescriptor& other) const { return get() != other.get(); }
    bool operator==(const ScopedFileDescriptor& other) const { return get() == other.get(); }
    bool operator<(const ScopedFileDescriptor& other) const { return get() < other.get(); }
    bool operator<=(const ScopedFileDescriptor& other) const { return get() <= other.get(); }
    bool operator>(const ScopedFileDescriptor& other) const { return get() > other.get(); }
    bool operator>=(const ScopedFileDescriptor& other) const { return get() >= other.get(); }
};

}  // namespace ndk
