"""axonn-schedule from the command line: every program file of the project, and wrong input."""
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["AXONN_SCHEDULE"]
CONFIGS = pathlib.Path(os.environ["AXONN_SOURCE"]) / "configs"
PROGRAMS = sorted((CONFIGS / "programs").glob("*.program"))
ROW_PARALLEL = CONFIGS / "layers/row-parallel.program"
# Every program of a layer: sizes, schedules, and the largest difference from the oracle.
LAYERS = {
    "row-parallel": (["M=1300", "K=20", "H=70"], ["overlap-ar", "fuse", "overlap"], 1e-5),
    "pipeline-border": (["B=2", "S=200", "H=301"],
                        ["ar-c-p2p-ag", "rs-c-p2p-ag", "fuse", "overlap-p2p-ag", "overlap"], 1e-5),
    "self-attention": (["B=3", "S=400", "H=64"], ["rs-c-ag", "fuse", "overlap"], 4e-3),  # fp16
}
SMALL = """program sgd
size N
tensor g fp32 [N] local
tensor w fp32 [N] replicated
scalar lr = 0.5
sum = all_reduce(+, g)
w1 = update(w, w - lr * sum)
return w1

schedule fuse
split(sum, reduce_scatter)
reorder(sum, w1)
fuse(all, sum.part, w1.part, w1.whole, w1)
"""


class ScheduleCommandTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)

    def run_program(self, *arguments, status=0, launcher=()):
        ended = subprocess.run([*launcher, PROGRAM, *map(str, arguments)], cwd=self.directory, capture_output=True,
                               text=True, timeout=60)
        self.assertEqual(ended.returncode, status, f"{arguments}\n{ended.stdout}{ended.stderr}")
        return ended

    def write(self, text):
        path = self.directory / "own.program"
        path.write_text(text)
        return path

    def refuse(self, *arguments, words):
        ended = self.run_program(*arguments, status=2)
        self.assertEqual(ended.stdout, "")
        self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
        for word in ["axonn-schedule: error: ", *words]:
            self.assertIn(word, ended.stderr)

    def test_every_schedule_of_the_projects_programs_is_equal(self):
        self.assertEqual(sorted(path.stem for path in PROGRAMS), ["adamw", "lamb", "sgd", "sgd-momentum"])
        for path in PROGRAMS:
            lines = self.run_program("check", path).stdout.splitlines()
            self.assertEqual(len(lines), 4 * 3, lines)
            for line in lines:
                self.assertTrue(line.endswith(" equal"), f"{path.stem}: {line}")

    def test_shows_what_a_schedule_makes(self):
        text = self.run_program("show", self.write(SMALL), "--schedule", "fuse").stdout
        self.assertIn("fuse all {\n  sum.part = reduce_scatter(+, g, dim=0)\n", text)
        shown = self.run_program("show", self.write(text)).stdout  # its output is a program
        self.assertIn("w1 = update(w, w1.whole)", shown)

    def test_plans_count(self):
        options = ["--schedule", "fuse", "--size", "N=1M", "--ranks", "4"]
        text = self.run_program("plan", self.write(SMALL), *options).stdout
        self.assertIn("1 fused all, reduce_scatter(+, g, dim=0), computes w1.part, all_gather(w1.part) into w", text)
        self.assertIn("per rank: 1 launches, 6291456 bytes sent", text)  # 2 (R - 1) / R of 4 MiB

    def test_prints_loops_as_cuda(self):
        text = self.run_program("cuda", self.write(SMALL), "--schedule", "fuse").stdout
        self.assertIn("// nvcc or NVRTC: --std=c++17 --fmad=false", text)
        self.assertIn("// schedule fuse, step all: for each block that its collective hands over", text)
        self.assertIn('extern "C" __global__ void sgd_fuse_all(\n    int64_t count,\n', text)

    def test_tunes_on_threads_as_ranks_and_keeps_the_choice(self):
        path = self.write(SMALL)
        options = ["--size", "N=10k", "--rank-threads", "2", "--choices", "choices"]
        text = self.run_program("tune", path, *options).stdout
        self.assertRegex(text, r"(?m)^ +[0-9]+ +[0-9.]+ ms +1 launches, ")
        self.assertRegex(text, r"sgd: [0-9]+ schedules: [1-9][0-9]* timed, [0-9]+ run like another, ")
        known = self.run_program("tune", path, *options)
        self.assertIn("chosen before (choices/sgd-", known.stdout)
        next((self.directory / "choices").iterdir()).write_text("axonn choice 1\n")
        renewed = self.run_program("tune", path, *options)
        self.assertIn(" is corrupt; it is renewed", renewed.stderr)
        self.assertIn(" timed, ", renewed.stdout)
        self.assertIn(" timed, ", self.run_program("tune", path, *options, "--renew").stdout)

    def test_tunes_overlaps_of_a_product_too(self):
        sizes = ["--size", "M=1300", "--size", "K=20", "--size", "H=70", "--rank-threads", "2"]
        text = self.run_program("tune", ROW_PARALLEL, *sizes).stdout
        timed = r"(?m)^ +[0-9]+ +[0-9.]+ ms .*\n(       .*\n)*?"
        self.assertRegex(text, timed + r"       overlap\(both1, layer, sum\)")
        self.assertRegex(text, timed + r"       overlap\(both1, layer, part[0-9]+\)")

    @unittest.skipUnless(os.environ.get("AXONN_MPIRUN"), "needs a build with MPI")
    def test_tunes_on_the_ranks_of_a_job(self):
        ended = self.run_program("tune", self.write(SMALL), "--size", "N=10k",
                                 launcher=[os.environ["AXONN_MPIRUN"], "-n", "3"])
        self.assertEqual(ended.stdout.count(" of search; "), 1)  # rank 0 prints

    @unittest.skipUnless(os.environ.get("AXONN_MPIRUN"), "needs a build with MPI")
    def test_runs_on_ranks_as_the_oracle_says(self):
        for path in PROGRAMS:
            ended = self.run_program("run", path, "--size", "T=3", "--size", "K=5000", "--repeats", "2",
                                     launcher=[os.environ["AXONN_MPIRUN"], "-n", "3"])
            lines = ended.stdout.splitlines()
            self.assertEqual([line.split()[0] for line in lines], ["plain", "ar-opt", "rs-opt-ag", "fuse"])
            for line in lines:
                self.assertLess(float(line.split()[-1]), 1e-5, line)

    def test_every_schedule_of_the_layers_is_equal(self):
        self.assertEqual(sorted(path.stem for path in (CONFIGS / "layers").glob("*.program")), sorted(LAYERS))
        for name, (_, schedules, _) in LAYERS.items():
            lines = self.run_program("check", CONFIGS / f"layers/{name}.program").stdout.splitlines()
            self.assertEqual([line.split()[0] for line in lines[::3]], ["plain", *schedules])
            self.assertEqual([line.split()[-1] for line in lines], ["equal"] * len(lines))

    def test_plans_overlaps(self):
        sizes = ["--size", "M=300", "--size", "K=8", "--size", "H=13", "--ranks", "4"]
        text = self.run_program("plan", ROW_PARALLEL, "--schedule", "overlap", *sizes).stdout
        self.assertIn("2 fused c, reduce_scatter(+, layer, dim=0), computes out.part, all_gather(out.part) into "
                      "stream, part by part with layer", text)
    def expect_layers_run(self, launcher):
        for name, (sizes, schedules, most) in LAYERS.items():
            (self.directory / "meet").unlink(missing_ok=True)
            options = [word for size in sizes for word in ("--size", size)]
            ended = self.run_program("run", CONFIGS / f"layers/{name}.program", *options, "--repeats", "1",
                                     launcher=launcher)
            lines = ended.stdout.splitlines()
            self.assertEqual([line.split()[0] for line in lines], ["plain", *schedules])
            for line in lines:
                self.assertLess(float(line.split()[-1]), most, f"{name}: {line}")

    @unittest.skipUnless(os.environ.get("AXONN_MPIRUN"), "needs a build with MPI")
    def test_runs_layers_on_ranks_as_the_oracle_says(self):
        self.expect_layers_run(["env", "AXONN_SHARED_MEMORY=0", os.environ["AXONN_MPIRUN"], "-n", "4"])

    def test_runs_layers_over_tcp(self):
        start = ("AXONN_INIT_FILE=meet WORLD_SIZE=4; export AXONN_INIT_FILE WORLD_SIZE AXONN_SHARED_MEMORY=0; "
                 'RANK=1 "$0" "$@" & RANK=2 "$0" "$@" & RANK=3 "$0" "$@" & RANK=0 "$0" "$@"; wait')
        self.expect_layers_run(["sh", "-c", start])

    def test_a_wrong_schedule_is_an_error(self):
        path = self.write(SMALL.replace("reorder(sum, w1)\n", ""))
        self.refuse("check", path, words=["fuse(all, sum.part, w1.part", "'w1.part'"])
        self.refuse("check", self.write(SMALL.replace("fuse(all", "fuze(all")), words=["own.program:13", "'fuse'"])
        self.refuse("show", self.write(SMALL), "--schedule", "fused", words=["plain, fuse", "did you mean 'fuse'"])

    def test_errors_of_a_schedule_say_where_it_is(self):
        path = self.write(SMALL + "\nschedule other\nsplit(sum, reduce_scatter)\nreorder(sum, w1)\nWRONG\n")
        place = "own.program:18: schedule other, transformation 3 of 3: "
        text = path.read_text()
        for wrong in ["dead(zz)", "fuse(f, sum, w1)", "overlap(o, sum, w1)", "split(sum, reduce_scatter)", "join(w1)",
                      "as_slice(lr)", "dead(sum.part)", "reorder(w1, sum)", "fuse(f)"]:
            path.write_text(text.replace("WRONG", wrong))
            self.refuse("show", path, "--schedule", "other", words=[place + wrong + ": "])
        path.write_text(text.replace("WRONG", "deed(w1)"))
        self.refuse("show", path, words=["own.program:18: schedule other: a transformation must be", "'dead'"])
        path.write_text(SMALL + "\nschedule far\nsplit(sum, reduce, root=99)\n")
        for command in ["check", "plan", "run"]:
            sizes = ["--size", "N=9"]
            self.refuse(command, path, "--schedule", "far", *sizes, words=["own.program:15: schedule far: ", "99"])

    def test_what_is_too_large_is_refused_with_its_number(self):
        path = self.write(SMALL)
        for command in ["check", "run", "tune", "plan"]:
            self.refuse(command, path, "--size", "N=9223372036854775807k", words=["N is too large"])
        for command in ["run", "tune"]:
            self.refuse(command, path, "--size", "N=1000000M", words=["needs 7.63 TiB per rank", "choose smaller"])
        self.refuse("check", path, "--size", "N=1000000M", words=["in the oracle", "choose smaller sizes or fewer"])
        self.refuse("check", path, "--ranks", "1000000000", words=["in the oracle", "fewer ranks"])
        path.write_text(SMALL.replace("[N]", "[N, N]"))
        for command in ["check", "run", "tune", "plan"]:
            self.refuse(command, path, "--size", "N=4G", words=["4294967296*4294967296 elements", "64 bits"])
        self.refuse("check", self.write("program p\ngroups 1000000000\n"), words=["from 1 to 65536, got 1000000000"])

    def test_wrong_input_is_named(self):
        self.refuse("check", self.write(SMALL), "--ranks", "0", words=["--ranks", "whole number from 1 to", "got '0'"])
        self.refuse("check", self.write(SMALL), "--size", "N=2", "--size", "N=3", words=["--size N", "only once"])
        self.refuse("check", self.write(SMALL), "--set", "lr=2", "--set", "lr=3", words=["--set lr", "only once"])
        self.refuse("check", self.write(SMALL.replace("[N] local", "[Q] local")), words=["size Q is not declared"])
        self.refuse("check", "missing.program", words=["missing.program cannot be read"])
        self.refuse("plan", self.write(SMALL), words=["size N of sgd needs a value: --size N=1024"])
        self.refuse("plan", self.write(SMALL), "--size", "M=3", words=["sgd has no size 'M'"])
        self.refuse("tune", self.write(SMALL), words=["size N of sgd needs a value: --size N=1024"])
        self.refuse("tune", self.write(SMALL), "--size", "N=9", "--machine", "perlmuter",
                    words=["did you mean 'perlmutter'"])
        self.refuse("check", self.write(SMALL), "--set", "rate=3", words=["sgd has no scalar 'rate'"])
        self.refuse("check", self.write(SMALL), "--set", "lr=fast", words=["--set lr must be a number, got 'fast'"])
        self.refuse("check", self.write(SMALL.replace("size N", "size N N")), words=["own.program:2"])


if __name__ == "__main__":
    unittest.main()
