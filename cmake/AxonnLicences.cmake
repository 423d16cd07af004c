# Libraries that are compiled into programs, by the Debian packages whose file copyright says under
# which licence. Packages of programs carry these files. In the cache for scripts/wheel.
set(AXONN_PLANNER_LICENCES libcli11-dev libfmt-dev libspdlog-dev libtomlplusplus-dev nlohmann-json3-dev libxxhash-dev
  CACHE INTERNAL "")
set(AXONN_TRAINER_LICENCES ${AXONN_PLANNER_LICENCES} libpng-dev libjpeg62-turbo-dev libzstd-dev zlib1g-dev
  CACHE INTERNAL "")
# Those that a static program holds, too.
string(REGEX MATCH "^[0-9]+" axonn_gcc ${CMAKE_CXX_COMPILER_VERSION})
set(AXONN_STATIC_LICENCES libc6-dev libstdc++-${axonn_gcc}-dev CACHE INTERNAL "")
