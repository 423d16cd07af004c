"""The trainer libraries and the programs as a package: outside projects find them before or after
LibTorch, build and train."""
import os
import unittest

from outside_project import HERE, HIDDEN, LIBTORCH, MPIRUN, SOURCE, OutsideProject, losses, on_ranks, run

EXAMPLE = SOURCE / "examples/custom_trainer"
OTHER_LIBTORCH = """
#include <map>
#include <string>
namespace caffe2 {
const std::map<std::string, std::string>& GetBuildOptions() {
  static const std::map<std::string, std::string> options = {{"TORCH_VERSION", "1.13.1"}};
  return options;
}
}
"""


preloads = unittest.skipIf(os.environ["AXONN_SANITIZE"], "a sanitizer's run time must be the first that is loaded")


class InstalledLibrary(OutsideProject):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # LibTorch as a Python package, in another folder than the one that axonn was built with.
        cls.site = cls.scratch / "site"
        cls.site.mkdir()
        (cls.site / "torch").symlink_to(LIBTORCH)
        ours = f"-DAXONN_LIBTORCH={cls.site / 'torch'}"
        theirs = f"-DEXAMPLE={EXAMPLE}", f"-DTorch_DIR={HERE / 'torch'}", f"-DAXONN_TEST_LIBTORCH={cls.site / 'torch'}"
        cls.start_build(EXAMPLE, "ours-first", *HIDDEN, environment={"PYTHONPATH": str(cls.site)})
        cls.start_build(SOURCE / "examples/plain_module", "plain", ours, *HIDDEN)
        cls.start_build(SOURCE / "examples/two_stages", "stages", ours, *HIDDEN)
        cls.start_build(SOURCE / "examples/own_layer", "own-layer", ours, *HIDDEN)
        cls.start_build(HERE / "saved_layers", "saved-layers", ours, *HIDDEN)
        cls.start_build(SOURCE / "examples/planner", "planner", "-DAXONN_LIBTORCH=/nowhere", *HIDDEN)
        # They compile what the first one compiled: by now the compiler cache has it.
        cls.start_build(HERE / "with_torch", "torch-first", "-DTORCH=first", *theirs, "-DAXONN_LIBTORCH=/not/read")
        cls.start_build(HERE / "with_torch", "torch-last", "-DTORCH=last", *theirs, ours)

    def setUp(self):
        self.ours_first, self.said = self.built("ours-first")
        self.trainer = self.ours_first / "custom_trainer"

    def check_trains(self, program):
        alone = losses(run(program))
        self.assertEqual(len(alone), 5)
        self.assertLess(alone[-1], 0.5 * alone[0])
        if MPIRUN:
            together = losses(on_ranks(4, program, "2x1x2x1"))
            self.assertEqual(len(together), 5)
            for a, b in zip(alone, together):
                self.assertAlmostEqual(a, b, delta=1e-4)

    def test_ours_alone_takes_the_wheel_of_python(self):
        self.assertIn(f"(the wheel of its Python): {self.site}/torch", self.said)
        self.check_trains(self.trainer)

    def test_torch_first(self):
        folder, said = self.built("torch-first")
        self.assertIn("(the project's target torch)", said)
        self.check_trains(folder / "custom_trainer")

    def test_torch_after_ours(self):
        folder, said = self.built("torch-last")
        self.assertIn("(AXONN_LIBTORCH)", said)
        self.check_trains(folder / "custom_trainer")

    def test_the_planner_alone_asks_for_no_libtorch(self):
        folder, said = self.built("planner")
        self.assertNotIn("LibTorch", said)
        self.assertIn(" s\n", run(folder / "rank_grids", "64", "gpt5b"))

    def test_a_plain_module_trains_on_any_number_of_ranks_and_goes_on_with_another(self):
        folder, _ = self.built("plain")
        program = folder / "plain_module"
        alone = losses(run(program, self.scratch / "plain-self")) + losses(run(program, self.scratch / "plain-self"))
        self.assertEqual(len(alone), 10)
        self.assertLess(alone[-1], 0.7 * alone[0])
        if MPIRUN:
            together = [loss for ranks in (4, 2)
                        for loss in losses(on_ranks(ranks, program, self.scratch / "plain-together"))]
            self.assertEqual(len(together), 10)
            for a, b in zip(alone, together):
                self.assertAlmostEqual(a, b, delta=1e-4)

    def test_a_layer_of_the_projects_own_trains_alike_on_every_grid(self):
        folder, _ = self.built("own-layer")
        program = folder / "own_layer"
        alone = losses(run(program))
        self.assertEqual(len(alone), 5)
        self.assertLess(alone[-1], alone[0])
        for ranks, grid in ((2, "2x1x1x1"), (4, "1x1x2x2"), (4, "2x2x1x1")) if MPIRUN else ():
            together = losses(on_ranks(ranks, program, grid))
            self.assertEqual(len(together), 5)
            for a, b in zip(alone, together):
                self.assertAlmostEqual(a, b, delta=1e-10 * a)

    def test_two_stages_train_like_the_whole_network(self):
        folder, _ = self.built("stages")
        program = folder / "two_stages"
        alone = losses(run(program))
        self.assertEqual(len(alone), 6)
        self.assertLess(alone[-1], alone[0])
        for ranks, grid in ((2, "1x1x1x1"), (4, "1x2x1x1"), (4, "2x1x1x1"), (4, "1x1x1x2")) if MPIRUN else ():
            cut = losses(on_ranks(ranks, program, grid))
            self.assertEqual(len(cut), 6)
            for a, b in zip(alone, cut):
                self.assertAlmostEqual(a, b, delta=1e-12 * a)

    def test_layers_and_checkpoints_need_nothing_that_reads_options_and_images(self):
        folder, _ = self.built("saved-layers")
        program = folder / "saved_layers"
        self.assertIn("2 tensors on 1x1x1x1", run(program, "1x1x1x1", self.scratch / "one-rank"))
        if MPIRUN:
            self.assertIn("2 tensors on 2x1x2x1", on_ranks(4, program, "2x1x2x1", self.scratch / "together"))
        symbols = run("nm", "-C", program)
        for name in ("png_read", "jpeg_", "CLI::", "toml::"):
            self.assertNotIn(name, symbols)

    # A linker takes one of several functions of one name: it would run on every processor.
    def test_what_only_some_processors_run_has_no_name_of_others(self):
        library, = self.prefix.glob("lib*/**/libaxonn_coconet.a")
        symbols = run("nm", "-C", "--defined-only", "--extern-only", library)
        for name in ("avx2", "avx512"):
            _, member = symbols.split(f"stages_{name}.cpp.o:\n")
            defined = [line.split(maxsplit=2)[2] for line in member.split("\n\n")[0].splitlines()]
            self.assertEqual(defined, [f"axonn::coconet::{name}_stages()"])

    def test_programs_name_one_openmp_and_no_image_library(self):
        for program in (self.trainer, self.prefix / "bin/unet"):
            linked = run("ldd", program)
            self.assertNotIn("not found", linked)
            self.assertEqual(sum("libgomp" in line or "libomp." in line or "libiomp5" in line
                                 for line in linked.splitlines()), 1, linked)
            for name in ("libpng", "libjpeg", "libzstd"):
                self.assertNotIn(name, linked)

    def test_installed_programs_start_and_train(self):
        programs = self.prefix / "bin"
        for name in ("gpt", "unet", "axonn-calibrate", "axonn-checkpoint", "axonn-config", "axonn-report"):
            self.assertIn("--help", run(programs / name, "--help"))
        self.assertIn("0.4.0", run(programs / "gpt", "--version"))
        text = self.scratch / "text.txt"
        text.write_text("a few words, again and again\n" * 100)
        command = [programs / "gpt", "--data", text, "--layers", 1, "--hidden", 16, "--heads", 2, "--sequence", 16,
                   "--batch", 8, "--steps", 3, "--validate-every", 0, "--gemm", "mm", "--out", self.scratch / "run"]
        run(*command)
        if MPIRUN:
            on_ranks(4, *command[:-1], self.scratch / "run-of-4", "--grid", "2x1x2x1")

    def test_another_libtorch_is_refused_by_cmake(self):
        other = self.scratch / "other-torch"
        (other / "include/ATen/core").mkdir(parents=True)
        (other / "include/ATen/core/Tensor.h").touch()
        versions = other / "include/torch/csrc/api/include/torch"
        versions.mkdir(parents=True)
        (versions / "version.h").write_text("#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 4\n")
        find = "find_package(axonn 0.4 CONFIG REQUIRED)"
        text = self.refusal(find, f"-DAXONN_LIBTORCH={other}")
        self.assertIn(f"LibTorch in {other} (AXONN_LIBTORCH) is 2.4, and axonn was built with 2.", text)
        self.assertIn("set AXONN_LIBTORCH to the folder of a LibTorch 2.", text)
        self.assertIn(f"or build axonn again with -DAXONN_LIBTORCH={other}", text)
        torch = f"add_library(torch INTERFACE)\ntarget_include_directories(torch INTERFACE {other}/include)\n"
        self.assertIn("(the project's target torch) is 2.4", self.refusal(torch + find, "--fresh"))
        self.assertIn("let find_package(Torch) find", self.refusal(torch + find, "--fresh"))
        self.assertIn("the target torch names no folder",
                      self.refusal("add_library(torch INTERFACE)\n" + find, "--fresh"))
        self.assertIn("/nowhere (AXONN_LIBTORCH) holds no include/ATen/core/Tensor.h: set AXONN_LIBTORCH to "
                      "LibTorch's own folder", self.refusal(find, "-DAXONN_LIBTORCH=/nowhere", "--fresh"))

    def test_an_unknown_component_is_refused(self):
        text = self.refusal("find_package(axonn 0.4 CONFIG REQUIRED COMPONENTS layer)")
        self.assertIn("axonn has no component 'layer': ask for core, ", text)
        self.assertIn("optim, checkpoint, wrap, data, train, model, tasks, program, axonn", text)

    @preloads
    def test_two_openmp_run_times_are_refused_at_the_start(self):
        (self.scratch / "nothing.cpp").touch()
        second = self.scratch / "libiomp5.so"
        run("c++", "-shared", "-fPIC", "-o", second, self.scratch / "nothing.cpp")
        text = run(self.trainer, status=1, environment={"LD_PRELOAD": str(second)})
        self.assertIn("two OpenMP run times are loaded, ", text)
        self.assertIn(str(second), text)
        self.assertEqual(len(text.splitlines()), 1, text)

    @preloads
    def test_another_loaded_libtorch_is_refused_at_the_start(self):
        (self.scratch / "other.cpp").write_text(OTHER_LIBTORCH)
        other = self.scratch / "libother.so"
        run("c++", "-std=c++20", "-shared", "-fPIC", "-o", other, self.scratch / "other.cpp")
        text = run(self.trainer, status=1, environment={"LD_PRELOAD": str(other)})
        self.assertIn("LibTorch 1.13.1 is loaded from ", text)
        self.assertIn("and axonn was built with 2.", text)
        self.assertEqual(len(text.splitlines()), 1, text)


if __name__ == "__main__":
    unittest.main()
