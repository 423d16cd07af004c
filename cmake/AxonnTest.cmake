# axonn_test(NAME SOURCES ... LIBRARIES ... LABELS ... [NP 1 2 4] [ARGUMENTS ...] [ENVIRONMENT NAME=VALUE ...] [TIMEOUT s]): one GoogleTest program. Without NP it runs once;
# with NP once under mpirun for every rank count (name.npN, labels mpi and npN) when MPI is built in, with a main that makes the Environment
# (tests/support/rank_test.hpp).
include(GoogleTest)

set(AXONN_MPIRUN ${PROJECT_SOURCE_DIR}/scripts/mpirun)

function(axonn_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS;NP;ARGUMENTS;ENVIRONMENT" ${ARGN})
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
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE axonn_compiler ${arg_LIBRARIES} ${support})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT arg_NP)
    add_test(NAME ${name} COMMAND ${name} ${arg_ARGUMENTS})
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "OMP_NUM_THREADS=1;${arg_ENVIRONMENT}")
    return()
  endif()
  foreach(np IN LISTS arg_NP)
    add_test(NAME ${name}.np${np} COMMAND ${AXONN_MPIRUN} -n ${np} $<TARGET_FILE:${name}> ${arg_ARGUMENTS})
    set_tests_properties(${name}.np${np} PROPERTIES LABELS "${arg_LABELS};mpi;np${np}" TIMEOUT ${arg_TIMEOUT} PROCESSORS 2
      ENVIRONMENT "OMP_NUM_THREADS=1;${arg_ENVIRONMENT}")
  endforeach()
endfunction()
