/* A parcelable of a type that the interface does not know: extensions of vendors. */
#pragma once

#include <android/binder_auto_utils.h>
#include <android/binder_parcel.h>
#include <android/binder_parcel_utils.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace ndk {

typedef int32_t parcelable_stability_t;
enum {
    STABILITY_LOCAL,
    STABILITY_VINTF,
};

/* Keeps the parcelable as it travels: the name of its type, and what it writes. Nothing, if it was never set. */
class AParcelableHolder {
public:
    AParcelableHolder() = delete;
    explicit AParcelableHolder(parcelable_stability_t stability) : mParcel(AParcel_create()), mStability(stability) {}
    AParcelableHolder(const AParcelableHolder& other) : AParcelableHolder(other.mStability) { copy(other); }
    AParcelableHolder(AParcelableHolder&& other) = default;
    AParcelableHolder& operator=(const AParcelableHolder& other) {
        if (this != &other) {
            mParcel.set(AParcel_create());
            mStability = other.mStability;
            copy(other);
        }
        return *this;
    }
    AParcelableHolder& operator=(AParcelableHolder&& other) = default;
    virtual ~AParcelableHolder() = default;

    binder_status_t writeToParcel(AParcel* parcel) const {
        int32_t size = AParcel_getDataSize(mParcel.get());
        binder_status_t status = AParcel_writeInt32(parcel, mStability);
        if (status == STATUS_OK) status = AParcel_writeInt32(parcel, size);
        if (status == STATUS_OK && size > 0) status = AParcel_appendFrom(mParcel.get(), parcel, 0, size);
        return status;
    }
    binder_status_t readFromParcel(const AParcel* parcel) {
        mParcel.set(AParcel_create());
        parcelable_stability_t stability = STABILITY_LOCAL;
        int32_t size = 0;
        binder_status_t status = AParcel_readInt32(parcel, &stability);
        if (status == STATUS_OK) status = AParcel_readInt32(parcel, &size);
        if (status != STATUS_OK) return status;
        int32_t start = AParcel_getDataPosition(parcel);
        if (stability != mStability || size < 0 || size > AParcel_getDataSize(parcel) - start) return STATUS_BAD_VALUE;
        status = AParcel_appendFrom(parcel, mParcel.get(), start, size);
        return status == STATUS_OK ? AParcel_setDataPosition(parcel, start + size) : status;
    }

    /* STATUS_BAD_VALUE if the type promises less stability than the holder must have. */
    template <typename T>
    binder_status_t setParcelable(const T& value) {
        if (mStability > T::_aidl_stability) return STATUS_BAD_VALUE;
        mParcel.set(AParcel_create());
        binder_status_t status =
                ::AParcel_writeString(mParcel.get(), T::descriptor, static_cast<int32_t>(strlen(T::descriptor)));
        return status == STATUS_OK ? value.writeToParcel(mParcel.get()) : status;
    }
    /* Gives nothing if nothing is here, or something of another type. */
    template <typename T>
    binder_status_t getParcelable(std::optional<T>* value) const {
        value->reset();
        if (AParcel_getDataSize(mParcel.get()) == 0) return STATUS_OK;
        std::string descriptor;
        binder_status_t status = AParcel_setDataPosition(mParcel.get(), 0);
        if (status == STATUS_OK) status = AParcel_readString(mParcel.get(), &descriptor);
        if (status != STATUS_OK || descriptor != T::descriptor) return status;
        status = value->emplace().readFromParcel(mParcel.get());
        if (status != STATUS_OK) value->reset();
        return status;
    }
    void reset() { mParcel.set(AParcel_create()); }

    /* Holders are equal if they are one. */
    bool operator==(const AParcelableHolder& other) const { return this == &other; }
    bool operator!=(const AParcelableHolder& other) const { return this != &other; }
    bool operator<(const AParcelableHolder& other) const { return this < &other; }
    bool operator<=(const AParcelableHolder& other) const { return this <= &other; }
    bool operator>(const AParcelableHolder& other) const { return this > &other; }
    bool operator>=(const AParcelableHolder& other) const { return this >= &other; }

private:
    void copy(const AParcelableHolder& other) {
        AParcel_appendFrom(other.mParcel.get(), mParcel.get(), 0, AParcel_getDataSize(other.mParcel.get()));
    }

    mutable ScopedAParcel mParcel;
    parcelable_stability_t mStability;
};

}  // namespace ndk
