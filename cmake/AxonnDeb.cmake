# Debian packages of this build: `cpack -G DEB` in its folder writes axonn-planner, and also
# axonn-trainer where that can run on other machines (docs/packaging.md). The parts are those of the
# installed package, with its programs, libraries and headers.
if(AXONN_SANITIZE OR NOT AXONN_BUILD_PROGRAMS)
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME axonn)
# There is no public address yet: set the one of those who give packages to others.
set(AXONN_PACKAGE_CONTACT "axonn maintainers <maintainers@axonn.invalid>" CACHE STRING
  "Name and address in the field Maintainer of Debian packages")
mark_as_advanced(AXONN_PACKAGE_CONTACT)
set(CPACK_PACKAGE_CONTACT ${AXONN_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package begins its description with its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_COMPONENTS_ALL perfmodel)
set(CPACK_DEBIAN_PERFMODEL_PACKAGE_NAME axonn-planner)
set(CPACK_DEBIAN_PERFMODEL_DESCRIPTION "planner of grids for distributed training
axonn-config ranks the ways to spread the training of a neural network over
many GPUs, by predicted seconds and memory. axonn-report writes a page about
training runs. They need no GPU, LibTorch or MPI.

The package also holds the planner's libraries and headers, for CMake's
find_package(axonn COMPONENTS perfmodel).")

# Debian 12 has no LibTorch. A folder below /opt or /usr is one that other machines can have, too.
# From anywhere else, such as .deps of a checkout, the package takes LibTorch's libraries along, so
# that it runs where it is installed: 470 MB, and nothing to be put there by hand. With CUDA they
# would be ten times as much.
set(AXONN_DEB_PROBLEM)
set(AXONN_DEB_HOLDS_LIBTORCH OFF)
set(axonn_from "")
if(AXONN_WITH_TORCH AND AXONN_LIBTORCH_FOLDER MATCHES "^/(opt|usr)/")
  set(axonn_from "The programs load LibTorch ${AXONN_LIBTORCH_VERSION} from
${AXONN_LIBTORCH_FOLDER}
which no package of Debian 12 holds: it must be put there by hand.")
  configure_file(${PROJECT_SOURCE_DIR}/packaging/deb/postinst.in ${PROJECT_BINARY_DIR}/deb/postinst @ONLY)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/deb/postinst)
elseif(AXONN_WITH_TORCH AND NOT AXONN_WITH_CUDA)
  set(AXONN_DEB_HOLDS_LIBTORCH ON)
  set(axonn_from "The programs have the libraries of LibTorch ${AXONN_LIBTORCH_VERSION} in this package, since
no package of Debian 12 holds them. Who builds programs of their own names a
LibTorch ${AXONN_LIBTORCH_VERSION} with its headers in AXONN_LIBTORCH.")
elseif(AXONN_WITH_TORCH)
  string(CONCAT AXONN_DEB_PROBLEM "no package axonn-trainer: its programs would look for LibTorch with CUDA in "
    "${AXONN_LIBTORCH_FOLDER}, which other machines do not have; copy LibTorch to a folder below /opt and "
    "configure again with -DAXONN_LIBTORCH=THAT_FOLDER")
endif()
if(axonn_from)
  list(APPEND CPACK_COMPONENTS_ALL trainer)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_NAME axonn-trainer)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_DEPENDS "axonn-planner (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
  if(AXONN_WITH_MPI)
    set(CPACK_DEBIAN_TRAINER_PACKAGE_RECOMMENDS openmpi-bin)  # mpirun
    set(CPACK_DEBIAN_TRAINER_PACKAGE_SUGGESTS libopenmpi-dev)  # find_package(axonn) links it
  endif()
  set(CPACK_DEBIAN_TRAINER_DESCRIPTION "distributed training of neural networks on 4D grids
gpt and unet train models for text and images over many processes, with tensor
parallelism in two dimensions, sharded weights and replicas.

${axonn_from}

The package also holds the libraries and headers, for CMake's
find_package(axonn).")
endif()

# Files that only Debian packages have, and the refusals.
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/deb/check.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_BINARY_DIR}/deb/documents.cmake)
if(AXONN_DEB_HOLDS_LIBTORCH)
  list(APPEND CPACK_PRE_BUILD_SCRIPTS ${PROJECT_BINARY_DIR}/deb/libtorch.cmake)
endif()
foreach(script check documents libtorch)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/deb/${script}.cmake.in ${PROJECT_BINARY_DIR}/deb/${script}.cmake @ONLY)
endforeach()
include(CPack)
