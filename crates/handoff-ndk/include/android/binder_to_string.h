/* Values as text for people: what generated `toString` functions use. */
#pragma once

#include <android/binder_auto_utils.h>
#include <android/binder_interface_utils.h>
#include <android/binder_parcel_utils.h>

#include <sstream>
#include <string>
#include <type_traits>

namespace ndk {

template <typename T>
std::string toString(const T& value);

namespace impl {

template <typename T, typename = void>
struct has_toString : std::false_type {};
template <typename T>
struct has_toString<T, std::void_t<decltype(std::declval<const T&>().toString())>> : std::true_type {};
template <typename Items>
std::string itemsToString(const Items& items) {
    std::string text = "[";
    for (size_t at = 0; at < items.size(); ++at) {
        if (at > 0) text += ", ";
        typedef typename Items::value_type Item;
        const Item& item = items[at];
        text += ::ndk::toString<Item>(item);
    }
    return text + "]";
}

}  // namespace impl

template <typename T>
std::string toString(const T& value) {
    if constexpr (std::is_same<T, bool>::value) {
        return value ? "true" : "false";
    } else if constexpr (std::is_same<T, char16_t>::value) {
        return std::to_string(static_cast<unsigned>(value));
    } else if constexpr (std::is_enum<T>::value) {
        return std::to_string(static_cast<long long>(value));
    } else if constexpr (std::is_arithmetic<T>::value) {
        return std::to_string(value);
    } else if constexpr (std::is_same<T, std::string>::value) {
        return value;
    } else if constexpr (std::is_same<T, SpAIBinder>::value) {
        std::ostringstream text;
        text << "binder:" << static_cast<const void*>(value.get());
        return text.str();
    } else if constexpr (std::is_same<T, ScopedFileDescriptor>::value) {
        return "fd:" + std::to_string(value.get());
    } else if constexpr (impl::is_shared_ptr<T>::value) {
        return value == nullptr ? "(null)" : toString(value->asBinder());
    } else if constexpr (impl::is_optional<T>::value || impl::is_unique_ptr<T>::value) {
        return value ? toString(*value) : "(null)";
    } else if constexpr (impl::is_vector<T>::value || impl::is_array<T>::value) {
        return impl::itemsToString(value);
    } else if constexpr (impl::has_toString<T>::value) {
        return value.toString();
    } else {
        return "{no toString() implemented}";
    }
}

}  // namespace ndk
