# Warnings, sanitizers and the compiler cache, for our own targets only. With paths from the base
# directory, presets and clones share what has the same flags: after preset release, preset cuda
# compiles only what names CUDA.
find_program(AXONN_CCACHE ccache)
if(AXONN_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${AXONN_CCACHE})
endif()

option(AXONN_WERROR "Warnings are errors: for changes to axonn (.ci/run sets it), whose compilers are known" OFF)
set(AXONN_GCC_BEFORE_13
    $<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>)
# It has two options from -O2 on, and refuses a precompiled header of -O3 without them.
set(AXONN_GCC_13_ON_X86
    $<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<NOT:${AXONN_GCC_BEFORE_13}>,$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>>)
add_library(axonn_compiler INTERFACE)
target_compile_options(axonn_compiler INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Wno-missing-field-initializers>
  $<$<COMPILE_LANGUAGE:CXX>:$<$<BOOL:${AXONN_WERROR}>:-Werror>;-fno-math-errno>
  # A product and a sum are rounded each: GCC's rule for ISO C++, so that all compilers and all
  # widths of vectors give the same bits.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang,IntelLLVM>:-ffp-contract=off>
  # A cache that two clones share may give one of them the other's header, which is only slower.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-error=invalid-pch>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>
  # Clang 18 gives functions of LibTorch, such as const_data_ptr(), other names than GCC does.
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,Clang>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,18>>:-fclang-abi-compat=17>
  # Clang warns of what GCC 12's own stable_sort() calls.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>
  # GCC 12 warns of impossible copies in string concatenation (GCC bug 105651).
  $<${AXONN_GCC_BEFORE_13}:-Wno-restrict>)

if(AXONN_SANITIZE)
  list(JOIN AXONN_SANITIZE "," sanitizers)
  # With its checks in between, GCC 12 takes members of an empty std::optional for uninitialized.
  target_compile_options(axonn_compiler INTERFACE -fsanitize=${sanitizers} -fno-omit-frame-pointer
    $<${AXONN_GCC_BEFORE_13}:-Wno-maybe-uninitialized>)
  target_link_options(axonn_compiler INTERFACE -fsanitize=${sanitizers})
endif()
