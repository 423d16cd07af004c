import os

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Axonn(CMakePackage, CudaPackage):
    """C++20 library for distributed training on top of LibTorch, with two trainers (gpt for text,
    unet for images) and a planner that ranks grids of GPUs (axonn-config)."""

    # The project has no public page yet: the archive of scripts/release lies in the folder in which
    # Spack is called, or in a mirror.
    homepage = "https://axonn.invalid"
    url = f"file://{os.getcwd()}/axonn-0.4.0.tar.gz"
    manual_download = True

    license("Apache-2.0")

    # scripts/release writes this file again, with the archive's sum in place of the word.
    version("0.4.0", sha256="@SHA256@")

    variant("torch", default=True, description="Build the trainers; without: the planner only")
    variant("mpi", default=True, when="+torch", description="Build the MPI transport")
    conflicts("+cuda", when="~torch", msg="the planner needs no CUDA: leave +cuda out, or ask for +torch")
    conflicts("cuda_arch=none", when="+cuda", msg="say for which GPUs to compile, e.g. cuda_arch=80,90")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    conflicts("%gcc@:11", msg="axonn needs GCC 12 or later")
    depends_on("cmake@3.25:", type="build")

    # Headers only: neither programs nor installed libraries need them later.
    with default_args(type="build"):
        depends_on("cli11@2.1:")
        depends_on("fmt@9:")
        depends_on("nlohmann-json@3.11:")
        depends_on("spdlog@1.10:")
        depends_on("tomlplusplus@3.3:")
        depends_on("xxhash")

    with when("+torch"):
        depends_on("jpeg")
        depends_on("libpng")
        depends_on("zlib-api")
        depends_on("zstd")
        depends_on("py-torch@2.6:")
        depends_on("mpi", when="+mpi")
        depends_on("py-torch~cuda", when="~cuda")
        depends_on("py-torch+cuda+nccl", when="+cuda")
        depends_on("cuda@12:", when="+cuda")
        depends_on("nccl+cuda", when="+cuda")
        for arch in CudaPackage.cuda_arch_values:
            depends_on(f"py-torch cuda_arch={arch}", when=f"+cuda cuda_arch={arch}")

    def cmake_args(self):
        args = [
            self.define_from_variant("AXONN_WITH_TORCH", "torch"),
            self.define("AXONN_WITH_MPI", self.spec.satisfies("+torch+mpi")),
            self.define_from_variant("AXONN_WITH_CUDA", "cuda"),
            self.define("AXONN_BUILD_TESTS", False),
            self.define("AXONN_BUILD_BENCH", False),
            self.define("AXONN_BUILD_EXAMPLES", False),
            self.define("AXONN_WERROR", False),
            self.define("AXONN_CCACHE", False),
        ]
        if self.spec.satisfies("+torch"):
            args.append(self.define("AXONN_LIBTORCH", join_path(self["py-torch"].module.python_platlib, "torch")))
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
            args.append(self.define("CMAKE_CUDA_COMPILER", join_path(self.spec["cuda"].prefix.bin, "nvcc")))
        return args

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_planner(self):
        Executable(join_path(self.prefix.bin, "axonn-config"))("--gpus", "64", "--model", "gpt5b", "--top", "3")
