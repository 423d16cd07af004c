# CTest's PROCESSORS are thirds of a processor here: scripts/test gives it three per processor. A
# test of one process takes two, because it also starts, reads and waits. One of several ranks takes
# four, or three if it starts several jobs. One that mostly waits takes one, so that others compute
# beside it.

# axonn_test(NAME SOURCES ... LIBRARIES ... LABELS ... [NP 1 2 4] [ARGUMENTS ...]
#            [DEFINITIONS ...] [ENVIRONMENT NAME=VALUE ...] [TIMEOUT s] [WAITS]): one GoogleTest
# program. Without NP it runs once. With NP, and if MPI is built in, it runs once under mpirun for
# every rank count (name.npN, labels mpi and npN), with a main that creates the Environment
# (tests/support/rank_test.hpp). With OF TARGET instead of SOURCES and LIBRARIES, it is another run
# of that program. WAITS (only without NP): it mostly waits.
include(GoogleTest)

set(AXONN_MPIRUN ${PROJECT_SOURCE_DIR}/scripts/mpirun)

function(axonn_test name)
  cmake_parse_arguments(arg "WAITS" "OF;TIMEOUT"
    "SOURCES;LIBRARIES;LABELS;NP;ARGUMENTS;DEFINITIONS;ENVIRONMENT" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(arg_NP AND NOT AXONN_WITH_MPI)
    return()
  endif()
  set(support axonn_test_support)
  if(arg_NP)
    set(support axonn_rank_test_support)
  endif()
  set(program ${arg_OF})
  if(NOT program)
    set(program ${name})
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE axonn_compiler ${arg_LIBRARIES} ${support})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    axonn_compile_fast(${name})
  endif()
  if(NOT arg_NP)
    set(processors 2)
    if(arg_WAITS)
      set(processors 1)
    endif()
    add_test(NAME ${name} COMMAND ${program} ${arg_ARGUMENTS})
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} PROCESSORS ${processors}
      ENVIRONMENT "OMP_NUM_THREADS=1;${arg_ENVIRONMENT}")
    return()
  endif()
  foreach(np IN LISTS arg_NP)
    set(processors 4)
    if(np EQUAL 1)
      set(processors 2)
    endif()
    add_test(NAME ${name}.np${np} COMMAND ${AXONN_MPIRUN} -n ${np} $<TARGET_FILE:${program}> ${arg_ARGUMENTS})
    set_tests_properties(${name}.np${np} PROPERTIES LABELS "${arg_LABELS};mpi;np${np}" TIMEOUT ${arg_TIMEOUT}
      PROCESSORS ${processors} ENVIRONMENT "OMP_NUM_THREADS=1;${arg_ENVIRONMENT}")
  endforeach()
endfunction()

# axonn_program_test(FILE.py LABELS ... [PROGRAM gpt|unet] [PROCESSORS n] [TIMEOUT s]): end-to-end
# tests of a program (default: gpt) in Python's unittest, with tests/support/program_runs.py and the
# program's own helpers. n: thirds of a processor, as above (2).
function(axonn_program_test file)
  cmake_parse_arguments(arg "" "PROGRAM;PROCESSORS;TIMEOUT" "LABELS" ${ARGN})
  if(NOT arg_PROGRAM)
    set(arg_PROGRAM gpt)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 240)
  endif()
  if(AXONN_WITH_MPI)
    set(has_mpi 1)
  else()
    set(has_mpi 0)
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 2)
  endif()
  get_filename_component(name ${file} NAME_WE)
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -m parts ${name}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set(environment
    "AXONN_PROGRAM=$<TARGET_FILE:${arg_PROGRAM}>" "AXONN_MPIRUN=${AXONN_MPIRUN}" "AXONN_HAS_MPI=${has_mpi}"
    OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
    "PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/support:${PROJECT_SOURCE_DIR}/tests/${arg_PROGRAM}")
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSORS}
    SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
endfunction()

# axonn_program_nights(NAME ... [TIMEOUT s]): tests of axonn_program_test() with all of their cases,
# every night as NAME.nightly.
function(axonn_program_nights)
  cmake_parse_arguments(arg "" "TIMEOUT" "" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  foreach(name IN LISTS arg_UNPARSED_ARGUMENTS)
    get_test_property(${name} ENVIRONMENT environment)
    add_test(NAME ${name}.nightly COMMAND ${Python3_EXECUTABLE} -m parts ${name}
      WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set_tests_properties(${name}.nightly PROPERTIES LABELS nightly TIMEOUT ${arg_TIMEOUT} PROCESSORS 4
      SKIP_RETURN_CODE 77 ENVIRONMENT "${environment};AXONN_TEST_NIGHTLY=1")
  endforeach()
endfunction()
