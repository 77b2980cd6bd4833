# find_package(binder_ndk) gives binder_ndk::binder_ndk: a library under Android's name, on Handoff.
# Everything is found from where this file is: lib/cmake/binder_ndk below the folder of the package.

get_filename_component(_binder_ndk_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET binder_ndk::binder_ndk)
  add_library(binder_ndk::binder_ndk SHARED IMPORTED)
  set_target_properties(binder_ndk::binder_ndk PROPERTIES
    IMPORTED_LOCATION "${_binder_ndk_prefix}/lib/libbinder_ndk.so"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_INCLUDE_DIRECTORIES "${_binder_ndk_prefix}/include"
    # A call makes ten calls into the library: each goes there at once, and not by way of a table of jumps.
    INTERFACE_COMPILE_OPTIONS -fno-plt)
endif()

unset(_binder_ndk_prefix)
