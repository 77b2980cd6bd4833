# find_package(handoff) gives handoff::handoff, the shared library, and handoff::static.
# Everything is found from where this file is: lib/cmake/handoff below the folder of the package.

include(CMakeFindDependencyMacro)
find_dependency(Threads)

get_filename_component(_handoff_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET handoff::handoff)
  add_library(handoff::handoff SHARED IMPORTED)
  set_target_properties(handoff::handoff PROPERTIES
    IMPORTED_LOCATION "${_handoff_prefix}/lib/libhandoff_c.so.0"
    IMPORTED_SONAME "libhandoff_c.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_handoff_prefix}/include")

  add_library(handoff::static STATIC IMPORTED)
  set_target_properties(handoff::static PROPERTIES
    IMPORTED_LOCATION "${_handoff_prefix}/lib/libhandoff_c.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_handoff_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()

unset(_handoff_prefix)
