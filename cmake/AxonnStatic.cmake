# AXONN_STATIC_LINKS: whether this compiler can make programs that need no shared library. Other
# systems than Debian have libc.a in a package of its own.
include(CMakePushCheckState)
include(CheckCXXSourceCompiles)

if(NOT AXONN_SANITIZE)
  cmake_push_check_state()
  set(CMAKE_REQUIRED_LINK_OPTIONS -static)
  check_cxx_source_compiles("#include <iostream>\nint main() { std::cout << 1; }" AXONN_STATIC_LINKS)
  cmake_pop_check_state()
endif()
