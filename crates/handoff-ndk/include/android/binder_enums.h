/* The values of generated enums, to walk through. */
#pragma once

#include <iterator>
#include <type_traits>

namespace ndk {

namespace internal {
/* Generated code says the values of each enum. */
template <typename EnumType, typename = std::enable_if_t<std::is_enum<EnumType>::value>>
constexpr void* enum_values = nullptr;
}  // namespace internal

template <typename EnumType, typename = std::enable_if_t<std::is_enum<EnumType>::value>>
struct enum_range {
    constexpr auto begin() const { return std::begin(internal::enum_values<EnumType>); }
    constexpr auto end() const { return std::end(internal::enum_values<EnumType>); }
};

}  // namespace ndk
