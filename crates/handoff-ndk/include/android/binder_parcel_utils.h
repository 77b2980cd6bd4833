/* C++ values in parcels: what generated code reads and writes. */
#pragma once

#include <android/binder_auto_utils.h>
#include <android/binder_interface_utils.h>
#include <android/binder_parcel.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ndk {

namespace impl {

template <typename T>
struct is_vector : std::false_type {};
template <typename T>
struct is_vector<std::vector<T>> : std::true_type {};
template <typename T>
struct is_optional : std::false_type {};
template <typename T>
struct is_optional<std::optional<T>> : std::true_type {};
template <typename T>
struct is_unique_ptr : std::false_type {};
template <typename T>
struct is_unique_ptr<std::unique_ptr<T>> : std::true_type {};
template <typename T>
struct is_shared_ptr : std::false_type {};
template <typename T>
struct is_shared_ptr<std::shared_ptr<T>> : std::true_type {};
template <typename T>
struct is_array : std::false_type {};
template <typename T, size_t N>
struct is_array<std::array<T, N>> : std::true_type {};
template <typename T>
constexpr bool is_nothing_known = false;

template <typename T, typename = void>
struct has_descriptor : std::false_type {};
template <typename T>
struct has_descriptor<T, std::void_t<decltype(T::descriptor)>> : std::true_type {};
template <typename T, typename = void>
struct has_fixed_size : std::false_type {};
template <typename T>
struct has_fixed_size<T, std::void_t<typename T::fixed_size>> : std::true_type {};

/* Android 10's compiler has parcelables write in front of themselves that they are not null; later ones leave that to
 * these utilities, and say whether they are of a fixed size. */
template <typename P>
constexpr bool writes_own_null_flag = has_descriptor<P>::value && !has_fixed_size<P>::value;

/* How deep parcelables may be nested in each other: reading them takes stack, and a peer decides. */
constexpr int kDeepest = 64;

class Nesting {
public:
    Nesting() { ++depth(); }
    ~Nesting() { --depth(); }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    bool isTooDeep() const { return depth() > kDeepest; }

private:
    static int& depth() {
        static thread_local int depth = 0;
        return depth;
    }
};

/* The number that an item of an array is in memory and in a parcel alike. */
template <typename T, bool = std::is_enum<T>::value>
struct number_of {
    typedef T type;
};
template <typename T>
struct number_of<T, true> {
    typedef std::underlying_type_t<T> type;
};

template <typename T>
constexpr bool is_number = std::is_arithmetic<typename number_of<T>::type>::value;

inline bool fits(size_t length) { return length <= static_cast<size_t>(std::numeric_limits<int32_t>::max()); }

template <typename N>
binder_status_t writeNumbers(AParcel* parcel, const N* items, int32_t length) {
    if constexpr (std::is_same<N, int32_t>::value) {
        return AParcel_writeInt32Array(parcel, items, length);
    } else if constexpr (std::is_same<N, uint32_t>::value) {
        return AParcel_writeUint32Array(parcel, items, length);
    } else if constexpr (std::is_same<N, int64_t>::value) {
        return AParcel_writeInt64Array(parcel, items, length);
    } else if constexpr (std::is_same<N, uint64_t>::value) {
        return AParcel_writeUint64Array(parcel, items, length);
    } else if constexpr (std::is_same<N, float>::value) {
        return AParcel_writeFloatArray(parcel, items, length);
    } else if constexpr (std::is_same<N, double>::value) {
        return AParcel_writeDoubleArray(parcel, items, length);
    } else if constexpr (std::is_same<N, char16_t>::value) {
        return AParcel_writeCharArray(parcel, items, length);
    } else if constexpr (std::is_same<N, bool>::value) {
        return AParcel_writeBoolArray(parcel, items, length,
                                      [](const void* data, size_t index) { return static_cast<const bool*>(data)[index]; });
    } else {
        static_assert(sizeof(N) == 1, "no array of such numbers can be sent");
        return AParcel_writeByteArray(parcel, reinterpret_cast<const int8_t*>(items), length);
    }
}

/* Some processors copy more bytes than this a byte at a time where the copy begins up to a cache line further into its page than
 * the original does. Allocators put a copy of the same length 16 bytes further, unless the original is a cache line longer. */
constexpr size_t kShortCopy = 31 * 64;

/* Room for so many items, and for a cache line more. */
template <typename T>
void reserve(std::vector<T>* vector, size_t count) {
    if (vector->capacity() < count) vector->reserve(count + 64 / sizeof(T));
}

/* Makes a vector of what a function of the C API allocates and fills: `N` is the item there, `T` the same one here. */
template <typename T, typename N>
bool allocateVector(void* data, int32_t length, N** buffer) {
    if (length < 0) return false;
    auto* vector = static_cast<std::vector<T>*>(data);
    const size_t count = static_cast<size_t>(length);
    if (vector->size() != count) {
        if (vector->capacity() == 0 && count * sizeof(T) <= kShortCopy) {
            *vector = std::vector<T>(count);
        } else {
            reserve(vector, count);
            vector->resize(count);
        }
    }
    *buffer = reinterpret_cast<N*>(vector->data());
    return true;
}

/* Makes a vector of bytes from where they stand: one that made room for them would fill it with zeros first. */
template <typename T>
binder_status_t readBytes(const AParcel* parcel, std::vector<T>* vector) {
    const void* bytes = nullptr;
    int32_t length = 0;
    binder_status_t status = handoff_AParcel_takeBytes(parcel, &bytes, &length);
    if (status != STATUS_OK) return status;
    if (length < 0) return STATUS_UNEXPECTED_NULL;
    const T* first = static_cast<const T*>(bytes);
    const size_t count = static_cast<size_t>(length);
    if (count <= kShortCopy) {
        vector->assign(first, first + count);
        return STATUS_OK;
    }
    vector->clear();
    reserve(vector, count);
    const size_t ahead = (reinterpret_cast<uintptr_t>(vector->data()) - reinterpret_cast<uintptr_t>(first)) % 4096;
    const size_t most = ahead > 0 && ahead < 64 ? kShortCopy : count;
    for (const T *end = first + count, *next; first != end; first = next) {
        next = first + std::min(most, static_cast<size_t>(end - first));
        vector->insert(vector->end(), first, next);
    }
    return STATUS_OK;
}

template <typename T>
binder_status_t readNumbers(const AParcel* parcel, std::vector<T>* vector) {
    typedef typename number_of<T>::type N;
    if constexpr (std::is_same<N, int32_t>::value) {
        return AParcel_readInt32Array(parcel, vector, allocateVector<T, int32_t>);
    } else if constexpr (std::is_same<N, uint32_t>::value) {
        return AParcel_readUint32Array(parcel, vector, allocateVector<T, uint32_t>);
    } else if constexpr (std::is_same<N, int64_t>::value) {
        return AParcel_readInt64Array(parcel, vector, allocateVector<T, int64_t>);
    } else if constexpr (std::is_same<N, uint64_t>::value) {
        return AParcel_readUint64Array(parcel, vector, allocateVector<T, uint64_t>);
    } else if constexpr (std::is_same<N, float>::value) {
        return AParcel_readFloatArray(parcel, vector, allocateVector<T, float>);
    } else if constexpr (std::is_same<N, double>::value) {
        return AParcel_readDoubleArray(parcel, vector, allocateVector<T, double>);
    } else if constexpr (std::is_same<N, char16_t>::value) {
        return AParcel_readCharArray(parcel, vector, allocateVector<T, char16_t>);
    } else if constexpr (std::is_same<N, bool>::value) {
        return AParcel_readBoolArray(
                parcel, vector,
                [](void* data, int32_t length) {
                    if (length < 0) return false;
                    static_cast<std::vector<bool>*>(data)->resize(static_cast<size_t>(length));
                    return true;
                },
                [](void* data, size_t index, bool value) { (*static_cast<std::vector<bool>*>(data))[index] = value; });
    } else {
        static_assert(sizeof(N) == 1, "no array of such numbers can be read");
        return readBytes(parcel, vector);
    }
}

inline bool allocateString(void* data, int32_t length, char** buffer) {
    if (length <= 0) return false;
    auto* text = static_cast<std::string*>(data);
    text->resize(static_cast<size_t>(length) - 1);
    *buffer = text->data();
    return true;
}

inline bool allocateNullableString(void* data, int32_t length, char** buffer) {
    auto* text = static_cast<std::optional<std::string>*>(data);
    if (length == -1) {
        text->reset();
        return true;
    }
    text->emplace();
    return allocateString(&**text, length, buffer);
}

}  // namespace impl

/* Texts, in UTF-8 here. */

static inline binder_status_t AParcel_writeString(AParcel* parcel, const std::string& text) {
    if (!impl::fits(text.size())) return STATUS_BAD_VALUE;
    return ::AParcel_writeString(parcel, text.c_str(), static_cast<int32_t>(text.size()));
}
static inline binder_status_t AParcel_writeString(AParcel* parcel, const std::optional<std::string>& text) {
    return text ? AParcel_writeString(parcel, *text) : ::AParcel_writeString(parcel, nullptr, -1);
}
static inline binder_status_t AParcel_readString(const AParcel* parcel, std::string* text) {
    return ::AParcel_readString(parcel, text, impl::allocateString);
}
static inline binder_status_t AParcel_readString(const AParcel* parcel, std::optional<std::string>* text) {
    return ::AParcel_readString(parcel, text, impl::allocateNullableString);
}

/* Objects and file descriptors that must be there, or need not. */

static inline binder_status_t AParcel_writeNullableStrongBinder(AParcel* parcel, const SpAIBinder& binder) {
    return AParcel_writeStrongBinder(parcel, binder.get());
}
static inline binder_status_t AParcel_readNullableStrongBinder(const AParcel* parcel, SpAIBinder* binder) {
    AIBinder* read = nullptr;
    binder_status_t status = AParcel_readStrongBinder(parcel, &read);
    if (status == STATUS_OK) binder->set(read);
    return status;
}
static inline binder_status_t AParcel_writeRequiredStrongBinder(AParcel* parcel, const SpAIBinder& binder) {
    return binder.get() == nullptr ? static_cast<binder_status_t>(STATUS_UNEXPECTED_NULL)
                                   : AParcel_writeStrongBinder(parcel, binder.get());
}
static inline binder_status_t AParcel_readRequiredStrongBinder(const AParcel* parcel, SpAIBinder* binder) {
    binder_status_t status = AParcel_readNullableStrongBinder(parcel, binder);
    if (status == STATUS_OK && binder->get() == nullptr) return STATUS_UNEXPECTED_NULL;
    return status;
}

static inline binder_status_t AParcel_writeNullableParcelFileDescriptor(AParcel* parcel,
                                                                        const ScopedFileDescriptor& fd) {
    return AParcel_writeParcelFileDescriptor(parcel, fd.get());
}
static inline binder_status_t AParcel_readNullableParcelFileDescriptor(const AParcel* parcel,
                                                                       ScopedFileDescriptor* fd) {
    int read = -1;
    binder_status_t status = AParcel_readParcelFileDescriptor(parcel, &read);
    if (status == STATUS_OK) fd->set(read);
    return status;
}
static inline binder_status_t AParcel_writeRequiredParcelFileDescriptor(AParcel* parcel,
                                                                        const ScopedFileDescriptor& fd) {
    return fd.get() < 0 ? static_cast<binder_status_t>(STATUS_UNEXPECTED_NULL)
                        : AParcel_writeParcelFileDescriptor(parcel, fd.get());
}
static inline binder_status_t AParcel_readRequiredParcelFileDescriptor(const AParcel* parcel,
                                                                       ScopedFileDescriptor* fd) {
    binder_status_t status = AParcel_readNullableParcelFileDescriptor(parcel, fd);
    if (status == STATUS_OK && fd->get() < 0) return STATUS_UNEXPECTED_NULL;
    return status;
}

/* Parcelables: that one is not null, then what it writes. */

template <typename P>
static inline binder_status_t AParcel_writeParcelable(AParcel* parcel, const P& value) {
    if constexpr (!impl::writes_own_null_flag<P>) {
        binder_status_t status = AParcel_writeInt32(parcel, 1);
        if (status != STATUS_OK) return status;
    }
    return value.writeToParcel(parcel);
}
template <typename P>
static inline binder_status_t AParcel_readParcelable(const AParcel* parcel, P* value) {
    impl::Nesting nesting;
    if (nesting.isTooDeep()) return STATUS_BAD_VALUE;
    if constexpr (!impl::writes_own_null_flag<P>) {
        int32_t isThere = 0;
        binder_status_t status = AParcel_readInt32(parcel, &isThere);
        if (status != STATUS_OK) return status;
        if (isThere == 0) return STATUS_UNEXPECTED_NULL;
    }
    return value->readFromParcel(parcel);
}

namespace impl {

/* `Holder` is a `std::optional` or a `std::unique_ptr`. */
template <typename Holder>
binder_status_t writeNullableParcelable(AParcel* parcel, const Holder& value) {
    return value ? AParcel_writeParcelable(parcel, *value) : AParcel_writeInt32(parcel, 0);
}
template <typename P, typename Holder, typename Make>
binder_status_t readNullableParcelable(const AParcel* parcel, Holder* value, Make make) {
    int32_t start = AParcel_getDataPosition(parcel);
    int32_t isThere = 0;
    binder_status_t status = AParcel_readInt32(parcel, &isThere);
    if (status != STATUS_OK) return status;
    if (isThere == 0) {
        value->reset();
        return STATUS_OK;
    }
    status = AParcel_setDataPosition(parcel, start);
    if (status == STATUS_OK) status = handoff_AParcel_makeRoom(parcel, 1, sizeof(P));
    if (status != STATUS_OK) return status;
    make(value);
    return AParcel_readParcelable(parcel, &**value);
}

}  // namespace impl

template <typename P>
static inline binder_status_t AParcel_writeNullableParcelable(AParcel* parcel, const std::optional<P>& value) {
    return impl::writeNullableParcelable(parcel, value);
}
template <typename P>
static inline binder_status_t AParcel_writeNullableParcelable(AParcel* parcel, const std::unique_ptr<P>& value) {
    return impl::writeNullableParcelable(parcel, value);
}
template <typename P>
static inline binder_status_t AParcel_readNullableParcelable(const AParcel* parcel, std::optional<P>* value) {
    return impl::readNullableParcelable<P>(parcel, value, [](std::optional<P>* made) { made->emplace(); });
}
template <typename P>
static inline binder_status_t AParcel_readNullableParcelable(const AParcel* parcel, std::unique_ptr<P>* value) {
    return impl::readNullableParcelable<P>(parcel, value,
                                           [](std::unique_ptr<P>* made) { *made = std::make_unique<P>(); });
}

/* Any value. */

template <typename T>
static inline binder_status_t AParcel_writeData(AParcel* parcel, const T& value);
template <typename T>
static inline binder_status_t AParcel_readData(const AParcel* parcel, T* value);
template <typename T>
static inline binder_status_t AParcel_writeNullableData(AParcel* parcel, const T& value);
template <typename T>
static inline binder_status_t AParcel_readNullableData(const AParcel* parcel, T* value);

namespace impl {

/* Items of an array; those of an array that may be null may be null, too. */
template <typename T, bool Nullable>
binder_status_t writeItems(AParcel* parcel, const T* items, int32_t length) {
    if constexpr (is_number<T>) {
        typedef typename number_of<T>::type N;
        return writeNumbers<N>(parcel, reinterpret_cast<const N*>(items), length);
    } else {
        return AParcel_writeParcelableArray(
                parcel, items, length, [](AParcel* to, const void* data, size_t index) -> binder_status_t {
                    const T& item = static_cast<const T*>(data)[index];
                    return Nullable ? AParcel_writeNullableData(to, item) : AParcel_writeData(to, item);
                });
    }
}

template <typename T, bool Nullable>
binder_status_t writeVector(AParcel* parcel, const std::vector<T>& vector) {
    if (!fits(vector.size())) return STATUS_BAD_VALUE;
    int32_t length = static_cast<int32_t>(vector.size());
    if constexpr (std::is_same<T, bool>::value) {
        return AParcel_writeBoolArray(parcel, &vector, length, [](const void* data, size_t index) -> bool {
            return (*static_cast<const std::vector<bool>*>(data))[index];
        });
    } else {
        return writeItems<T, Nullable>(parcel, vector.data(), length);
    }
}

template <typename T>
binder_status_t makeRoom(const AParcel* parcel, int32_t length, std::vector<T>* vector) {
    binder_status_t status = handoff_AParcel_makeRoom(parcel, length, sizeof(T));
    if (status != STATUS_OK) return status;
    vector->clear();
    vector->resize(static_cast<size_t>(length));
    return STATUS_OK;
}

template <typename T, bool Nullable>
binder_status_t readVector(const AParcel* parcel, std::vector<T>* vector) {
    if constexpr (is_number<T>) {
        return readNumbers(parcel, vector);
    } else {
        typedef std::pair<const AParcel*, std::vector<T>*> Filled;
        Filled filled(parcel, vector);
        return AParcel_readParcelableArray(
                parcel, &filled,
                [](void* data, int32_t length) {
                    auto* made = static_cast<Filled*>(data);
                    return makeRoom(made->first, length, made->second) == STATUS_OK;
                },
                [](const AParcel* from, void* data, size_t index) -> binder_status_t {
                    T* item = &(*static_cast<Filled*>(data)->second)[index];
                    return Nullable ? AParcel_readNullableData(from, item) : AParcel_readData(from, item);
                });
    }
}

/* Whether a null stands here: then it is passed over. */
inline binder_status_t readNullLength(const AParcel* parcel, bool* isNull) {
    int32_t start = AParcel_getDataPosition(parcel);
    int32_t length = 0;
    binder_status_t status = AParcel_readInt32(parcel, &length);
    if (status != STATUS_OK) return status;
    *isNull = length == -1;
    return *isNull ? static_cast<binder_status_t>(STATUS_OK) : AParcel_setDataPosition(parcel, start);
}

template <typename T, size_t N, bool Nullable>
binder_status_t readArray(const AParcel* parcel, std::array<T, N>* array) {
    std::vector<T> read;
    binder_status_t status = readVector<T, Nullable>(parcel, &read);
    if (status != STATUS_OK) return status;
    if (read.size() != N) return STATUS_BAD_VALUE;
    for (size_t at = 0; at < N; ++at) {
        (*array)[at] = std::move(read[at]);
    }
    return STATUS_OK;
}

template <typename T>
binder_status_t writeNumber(AParcel* parcel, T value) {
    if constexpr (std::is_same<T, bool>::value) {
        return AParcel_writeBool(parcel, value);
    } else if constexpr (std::is_same<T, char16_t>::value) {
        return AParcel_writeChar(parcel, value);
    } else if constexpr (sizeof(T) == 1) {
        return AParcel_writeByte(parcel, static_cast<int8_t>(value));
    } else if constexpr (std::is_same<T, float>::value) {
        return AParcel_writeFloat(parcel, value);
    } else if constexpr (std::is_same<T, double>::value) {
        return AParcel_writeDouble(parcel, value);
    } else if constexpr (sizeof(T) == 4) {
        return AParcel_writeInt32(parcel, static_cast<int32_t>(value));
    } else {
        static_assert(sizeof(T) == 8, "no such number can be sent");
        return AParcel_writeInt64(parcel, static_cast<int64_t>(value));
    }
}

template <typename T>
binder_status_t readNumber(const AParcel* parcel, T* value) {
    if constexpr (std::is_same<T, bool>::value) {
        return AParcel_readBool(parcel, value);
    } else if constexpr (std::is_same<T, char16_t>::value) {
        return AParcel_readChar(parcel, value);
    } else if constexpr (sizeof(T) == 1) {
        return AParcel_readByte(parcel, reinterpret_cast<int8_t*>(value));
    } else if constexpr (std::is_same<T, float>::value) {
        return AParcel_readFloat(parcel, value);
    } else if constexpr (std::is_same<T, double>::value) {
        return AParcel_readDouble(parcel, value);
    } else if constexpr (sizeof(T) == 4) {
        return AParcel_readInt32(parcel, reinterpret_cast<int32_t*>(value));
    } else {
        static_assert(sizeof(T) == 8, "no such number can be read");
        return AParcel_readInt64(parcel, reinterpret_cast<int64_t*>(value));
    }
}

}  // namespace impl

template <typename T>
static inline binder_status_t AParcel_writeVector(AParcel* parcel, const std::vector<T>& vector) {
    return impl::writeVector<T, false>(parcel, vector);
}
template <typename T>
static inline binder_status_t AParcel_writeVector(AParcel* parcel, const std::optional<std::vector<T>>& vector) {
    return vector ? impl::writeVector<T, true>(parcel, *vector) : AParcel_writeInt32(parcel, -1);
}
template <typename T>
static inline binder_status_t AParcel_readVector(const AParcel* parcel, std::vector<T>* vector) {
    return impl::readVector<T, false>(parcel, vector);
}
template <typename T>
static inline binder_status_t AParcel_readVector(const AParcel* parcel, std::optional<std::vector<T>>* vector) {
    bool isNull = false;
    binder_status_t status = impl::readNullLength(parcel, &isNull);
    if (status != STATUS_OK) return status;
    if (isNull) {
        vector->reset();
        return STATUS_OK;
    }
    vector->emplace();
    return impl::readVector<T, true>(parcel, &**vector);
}

/* The length of an array that the callee fills, and room for it: as much as a peer may ask for. */

template <typename T>
static inline binder_status_t AParcel_writeVectorSize(AParcel* parcel, const std::vector<T>& vector) {
    if (!impl::fits(vector.size())) return STATUS_BAD_VALUE;
    return AParcel_writeInt32(parcel, static_cast<int32_t>(vector.size()));
}
template <typename T>
static inline binder_status_t AParcel_writeVectorSize(AParcel* parcel, const std::optional<std::vector<T>>& vector) {
    return vector ? AParcel_writeVectorSize(parcel, *vector) : AParcel_writeInt32(parcel, -1);
}

template <typename T>
static inline binder_status_t AParcel_resizeVector(const AParcel* parcel, std::vector<T>* vector) {
    int32_t length = 0;
    binder_status_t status = AParcel_readInt32(parcel, &length);
    return status == STATUS_OK ? impl::makeRoom(parcel, length, vector) : status;
}
template <typename T>
static inline binder_status_t AParcel_resizeVector(const AParcel* parcel, std::optional<std::vector<T>>* vector) {
    int32_t length = 0;
    binder_status_t status = AParcel_readInt32(parcel, &length);
    if (status != STATUS_OK) return status;
    if (length == -1) {
        vector->reset();
        return STATUS_OK;
    }
    vector->emplace();
    return impl::makeRoom(parcel, length, &**vector);
}

template <typename T, size_t N>
static inline binder_status_t AParcel_writeFixedArray(AParcel* parcel, const std::array<T, N>& array) {
    return impl::writeItems<T, false>(parcel, array.data(), static_cast<int32_t>(N));
}
template <typename T, size_t N>
static inline binder_status_t AParcel_readFixedArray(const AParcel* parcel, std::array<T, N>* array) {
    return impl::readArray<T, N, false>(parcel, array);
}

namespace impl {

template <typename T, size_t N>
binder_status_t writeNullableArray(AParcel* parcel, const std::optional<std::array<T, N>>& array) {
    return array ? writeItems<T, true>(parcel, array->data(), static_cast<int32_t>(N)) : AParcel_writeInt32(parcel, -1);
}
template <typename T, size_t N>
binder_status_t readNullableArray(const AParcel* parcel, std::optional<std::array<T, N>>* array) {
    bool isNull = false;
    binder_status_t status = readNullLength(parcel, &isNull);
    if (status != STATUS_OK) return status;
    if (isNull) {
        array->reset();
        return STATUS_OK;
    }
    array->emplace();
    return readArray<T, N, true>(parcel, &**array);
}

/* References to interfaces. */
template <typename I>
binder_status_t writeInterface(AParcel* parcel, const std::shared_ptr<I>& interface) {
    SpAIBinder binder = interface == nullptr ? SpAIBinder() : interface->asBinder();
    return AParcel_writeStrongBinder(parcel, binder.get());
}
template <typename I>
binder_status_t readInterface(const AParcel* parcel, std::shared_ptr<I>* interface) {
    SpAIBinder binder;
    binder_status_t status = AParcel_readNullableStrongBinder(parcel, &binder);
    if (status != STATUS_OK) return status;
    *interface = binder.get() == nullptr ? nullptr : I::fromBinder(binder);
    /* An object of another interface is none that can be used. */
    if (binder.get() != nullptr && *interface == nullptr) return STATUS_BAD_TYPE;
    return STATUS_OK;
}

}  // namespace impl

template <typename T>
static inline binder_status_t AParcel_writeData(AParcel* parcel, const T& value) {
    if constexpr (impl::is_number<T>) {
        return impl::writeNumber(parcel, static_cast<typename impl::number_of<T>::type>(value));
    } else if constexpr (std::is_same<T, std::string>::value) {
        return AParcel_writeString(parcel, value);
    } else if constexpr (std::is_same<T, SpAIBinder>::value) {
        return AParcel_writeRequiredStrongBinder(parcel, value);
    } else if constexpr (std::is_same<T, ScopedFileDescriptor>::value) {
        return AParcel_writeRequiredParcelFileDescriptor(parcel, value);
    } else if constexpr (impl::is_shared_ptr<T>::value) {
        if (value == nullptr) return STATUS_UNEXPECTED_NULL;
        return impl::writeInterface(parcel, value);
    } else if constexpr (impl::is_vector<T>::value) {
        return AParcel_writeVector(parcel, value);
    } else if constexpr (impl::is_array<T>::value) {
        return AParcel_writeFixedArray(parcel, value);
    } else if constexpr (impl::is_optional<T>::value || impl::is_unique_ptr<T>::value) {
        return AParcel_writeNullableData(parcel, value);
    } else {
        return AParcel_writeParcelable(parcel, value);
    }
}

template <typename T>
static inline binder_status_t AParcel_readData(const AParcel* parcel, T* value) {
    if constexpr (impl::is_number<T>) {
        return impl::readNumber(parcel, reinterpret_cast<typename impl::number_of<T>::type*>(value));
    } else if constexpr (std::is_same<T, std::string>::value) {
        return AParcel_readString(parcel, value);
    } else if constexpr (std::is_same<T, SpAIBinder>::value) {
        return AParcel_readRequiredStrongBinder(parcel, value);
    } else if constexpr (std::is_same<T, ScopedFileDescriptor>::value) {
        return AParcel_readRequiredParcelFileDescriptor(parcel, value);
    } else if constexpr (impl::is_shared_ptr<T>::value) {
        binder_status_t status = impl::readInterface(parcel, value);
        if (status == STATUS_OK && *value == nullptr) return STATUS_UNEXPECTED_NULL;
        return status;
    } else if constexpr (impl::is_vector<T>::value) {
        return AParcel_readVector(parcel, value);
    } else if constexpr (impl::is_array<T>::value) {
        return AParcel_readFixedArray(parcel, value);
    } else if constexpr (impl::is_optional<T>::value || impl::is_unique_ptr<T>::value) {
        return AParcel_readNullableData(parcel, value);
    } else {
        return AParcel_readParcelable(parcel, value);
    }
}

template <typename T>
static inline binder_status_t AParcel_writeNullableData(AParcel* parcel, const T& value) {
    if constexpr (std::is_same<T, SpAIBinder>::value) {
        return AParcel_writeNullableStrongBinder(parcel, value);
    } else if constexpr (std::is_same<T, ScopedFileDescriptor>::value) {
        return AParcel_writeNullableParcelFileDescriptor(parcel, value);
    } else if constexpr (impl::is_shared_ptr<T>::value) {
        return impl::writeInterface(parcel, value);
    } else if constexpr (impl::is_unique_ptr<T>::value) {
        return AParcel_writeNullableParcelable(parcel, value);
    } else if constexpr (impl::is_optional<T>::value) {
        typedef typename T::value_type Inner;
        if constexpr (std::is_same<Inner, std::string>::value) {
            return AParcel_writeString(parcel, value);
        } else if constexpr (impl::is_vector<Inner>::value) {
            return AParcel_writeVector(parcel, value);
        } else if constexpr (impl::is_array<Inner>::value) {
            return impl::writeNullableArray(parcel, value);
        } else {
            return AParcel_writeNullableParcelable(parcel, value);
        }
    } else {
        return AParcel_writeData(parcel, value);
    }
}

template <typename T>
static inline binder_status_t AParcel_readNullableData(const AParcel* parcel, T* value) {
    if constexpr (std::is_same<T, SpAIBinder>::value) {
        return AParcel_readNullableStrongBinder(parcel, value);
    } else if constexpr (std::is_same<T, ScopedFileDescriptor>::value) {
        return AParcel_readNullableParcelFileDescriptor(parcel, value);
    } else if constexpr (impl::is_shared_ptr<T>::value) {
        return impl::readInterface(parcel, value);
    } else if constexpr (impl::is_unique_ptr<T>::value) {
        return AParcel_readNullableParcelable(parcel, value);
    } else if constexpr (impl::is_optional<T>::value) {
        typedef typename T::value_type Inner;
        if constexpr (std::is_same<Inner, std::string>::value) {
            return AParcel_readString(parcel, value);
        } else if constexpr (impl::is_vector<Inner>::value) {
            return AParcel_readVector(parcel, value);
        } else if constexpr (impl::is_array<Inner>::value) {
            return impl::readNullableArray(parcel, value);
        } else {
            return AParcel_readNullableParcelable(parcel, value);
        }
    } else {
        return AParcel_readData(parcel, value);
    }
}

}  // namespace ndk
