"""An outside project builds axonn as a part of itself (add_subdirectory), with a LibTorch that it
has already found."""
import unittest

from outside_project import HERE, LIBTORCH, MPIRUN, SOURCE, OutsideProject, on_ranks, run


class AddedLibrary(OutsideProject):
    component = "perfmodel"  # this test needs no installed part

    def test_builds_and_trains(self):
        folder, said = self.build(HERE / "added", "added", f"-DAXONN_SOURCE={SOURCE}",
                                  f"-DEXAMPLE={SOURCE / 'examples/custom_trainer'}",
                                  f"-DTorch_DIR={HERE / 'torch'}", f"-DAXONN_TEST_LIBTORCH={LIBTORCH}",
                                  "-DCMAKE_BUILD_TYPE=Release", seconds=3000)
        self.assertIn("(the project's target torch)", said)
        self.assertNotIn("bin/gpt:", (folder / "build.ninja").read_text())  # only the libraries
        program = folder / "example/custom_trainer"
        self.assertIn("step 199", run(program))
        if MPIRUN:
            self.assertIn("step 199", on_ranks(4, program, "2x1x2x1"))


if __name__ == "__main__":
    unittest.main()
