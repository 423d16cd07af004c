"""The planner can be installed without the trainer libraries, and an outside project finds, builds
and runs it."""
import unittest

from outside_project import SOURCE, OutsideProject, run


class InstalledPlanner(OutsideProject):
    component = "perfmodel"

    def test_is_found_built_against_and_run(self):
        folder, _ = self.build(SOURCE / "examples/planner", "example")
        program = folder / "rank_grids"
        found = [line.split()[0] for line in run(program, "64", "gpt5b").splitlines()]
        table = run(self.prefix / "bin/axonn-config", "--gpus", "64", "--model", "gpt5b", "--top", "3",
                    "--csv").splitlines()[1:]
        self.assertEqual(found, ["x".join(line.split(",")[:4]) for line in table])
        self.assertIn("unet2b", run(program, "64", "unet2", status=2))
        linked = run("ldd", program)
        for name in ("torch", "mpi", "cuda"):
            self.assertNotIn(name, linked)

    def test_needs_nothing_of_what_trains(self):
        for path in self.prefix.rglob("*"):
            if path.suffix not in (".hpp", ".cmake"):
                continue
            text = path.read_text()
            for name in ("torch/", "ATen/", "c10/", "mpi.h", "LibTorch", str(SOURCE)):
                self.assertNotIn(name, text, path)

    def test_says_that_it_is_the_planner_alone(self):
        for find in ("find_package(axonn CONFIG REQUIRED COMPONENTS layers)",
                     "find_package(axonn 0.4 CONFIG REQUIRED)"):
            text = self.refusal(find)
            self.assertIn("this installation of axonn holds only the planner, not '", text)
            self.assertIn("ask for COMPONENTS perfmodel, or install axonn from a build with AXONN_WITH_TORCH=ON", text)

    def test_says_which_components_there_are(self):
        text = self.refusal("find_package(axonn CONFIG REQUIRED COMPONENTS planner)")
        self.assertIn("axonn has no component 'planner': ask for core, grid, terms, network, hugging_face, "
                      "config, perfmodel", text)

    def test_another_minor_version_is_another_package(self):
        self.assertIn("version: 0.4.0", self.refusal("find_package(axonn 0.1 CONFIG REQUIRED COMPONENTS perfmodel)"))

    def test_optional_components_stop_nothing(self):
        folder = self.scratch / "optional"
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(optional LANGUAGES CXX)\n"
            "find_package(axonn CONFIG REQUIRED COMPONENTS grid OPTIONAL_COMPONENTS layers)\n"
            'message(STATUS "grid ${axonn_grid_FOUND} layers ${axonn_layers_FOUND}")\n')
        self.assertIn("grid TRUE layers FALSE", self.configure(folder, "optional/build"))

    def test_configures_where_there_is_neither_libtorch_nor_mpi(self):
        text = self.configure(SOURCE, "planner", "-DAXONN_WITH_TORCH=OFF", "-DAXONN_LIBTORCH=/nowhere",
                              "-DMPI_C_COMPILER=/nowhere/mpicc", "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON")
        self.assertNotIn("LibTorch", text)


if __name__ == "__main__":
    unittest.main()
