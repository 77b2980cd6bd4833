/* Values as text for people: what generated `toString` functions use. */
#pragma once

#include <android/binder_auto_utils.h>
#include <android/binder_interface_utils.h>
#include <android/binder_parcelable_utils.h>
/* Tests of Android name android::OK without naming this: there it comes along, too. */
#include <utils/Errors.h>

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>

namespace android {
namespace internal {

template <typename T>
std::string ToString(const T& value);

namespace details {

/* A class with a function of its own, and an enum with one beside it. */
template <typename T, typename = void>
struct has_method : std::false_type {};
template <typename T>
struct has_method<T, std::void_t<decltype(std::declval<const T&>().toString())>> : std::true_type {};
template <typename T, typename = void>
struct has_function : std::false_type {};
template <typename T>
struct has_function<T, std::void_t<decltype(toString(std::declval<const T&>()))>> : std::true_type {};

/* A UTF-16 unit in UTF-8. Half of a pair has no form there. */
inline std::string unitToString(char16_t unit) {
    if (unit >= 0xd800 && unit < 0xe000) return "\xef\xbf\xbd";
    if (unit < 0x80) return std::string(1, static_cast<char>(unit));
    std::string text;
    if (unit < 0x800) {
        text += static_cast<char>(0xc0 | unit >> 6);
    } else {
        text += static_cast<char>(0xe0 | unit >> 12);
        text += static_cast<char>(0x80 | (unit >> 6 & 0x3f));
    }
    return text + static_cast<char>(0x80 | (unit & 0x3f));
}

template <typename Items>
std::string itemsToString(const Items& items) {
    std::string text;
    for (const auto& item : items) {
        text += text.empty() ? "[" : ", ";
        /* Items of a vector of bool are not what they look like. */
        text += ToString<typename Items::value_type>(item);
    }
    return text.empty() ? "[]" : text + "]";
}

}  // namespace details

template <typename T>
std::string ToString(const T& value) {
    if constexpr (std::is_same<T, bool>::value) {
        return value ? "true" : "false";
    } else if constexpr (std::is_same<T, char16_t>::value) {
        return details::unitToString(value);
    } else if constexpr (std::is_arithmetic<T>::value) {
        return std::to_string(value);
    } else if constexpr (std::is_same<T, std::string>::value) {
        return value;
    } else if constexpr (std::is_same<T, ::ndk::SpAIBinder>::value) {
        return value.get() == nullptr ? "(null)" : "";
    } else if constexpr (std::is_same<T, ::ndk::ScopedFileDescriptor>::value) {
        return value.get() == -1 ? "(null)" : "";
    } else if constexpr (::ndk::impl::is_shared_ptr<T>::value) {
        return value == nullptr ? "(null)" : "";
    } else if constexpr (::ndk::impl::is_optional<T>::value || ::ndk::impl::is_unique_ptr<T>::value) {
        return value ? ToString(*value) : "(null)";
    } else if constexpr (::ndk::impl::is_vector<T>::value || ::ndk::impl::is_array<T>::value) {
        return details::itemsToString(value);
    } else if constexpr (details::has_method<T>::value) {
        return value.toString();
    } else if constexpr (details::has_function<T>::value) {
        return toString(value);
    } else if constexpr (std::is_same<T, ::ndk::AParcelableHolder>::value) {
        return "";
    } else {
        return "{no toString() implemented}";
    }
}

}  // namespace internal
}  // namespace android
