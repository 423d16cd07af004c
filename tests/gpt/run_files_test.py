"""config.toml and environment.json: what a run does and what it runs on, of the newest start and of
earlier ones."""
import json
import tomllib
import unittest

from gpt_runs import GptTest, NETWORK, TRAINING
from program_runs import PROGRAM, losses, metrics, needs_mpi


def environment(run):
    return json.loads((run / "environment.json").read_text())


def starts(run):
    return [json.loads(line) for line in (run / "starts.jsonl").read_text().splitlines()]


class RunFiles(GptTest):
    def test_the_configuration_is_a_file_that_does_the_same_again(self):
        ended = self.gpt("train", "--data", self.text.name, "--out", "first", *NETWORK, "--gemm", "mm", "--epochs", "1",
                         "--batch-tokens", "128", "--optimizer", "lamb", "--beta2", "0.98")
        self.assertEqual(ended.status, 0, ended.text)
        first = self.directory / "first"
        text = (first / "config.toml").read_text()
        read = tomllib.loads(text)
        steps = len(losses(first))
        self.assertEqual((read["train"]["steps"], read["train"]["epochs"], read["train"]["batch"]), (steps, 0, 8))
        self.assertEqual({section: set(keys) for section, keys in read.items()},
                         {section: set(keys) for section, keys in starts(first)[0]["configuration"].items()})
        ended = self.gpt("train", "--config", "first/config.toml", "--out", "again")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertEqual(losses(self.directory / "again"), losses(first))
        again = (self.directory / "again/config.toml").read_text()
        self.assertEqual(again.replace('out = "again"', 'out = "first"'), text)

    def test_the_environment_says_what_ran(self):
        run = self.train("run", "--steps", "1", "--learning-rate", "0.01")
        said = environment(run)
        self.assertEqual([said[key] for key in ("ranks", "grid", "transport", "device")], [1, "1x1x1x1", "self", "cpu"])
        self.assertEqual(said["threads"], 1)
        self.assertEqual([host["ranks"] for host in said["hosts"]], [1])
        self.assertEqual((said["command"][0], said["command"][1]), (PROGRAM, "train"))
        self.assertIn("--learning-rate", said["command"])
        self.assertRegex(said["compiler"], r"^(GCC|.*[Cc]lang) ?[\d.]+")
        self.assertEqual(said["axonn"], self.gpt("--version").out.strip())
        self.assertRegex(said["libtorch"], r"^\d+\.\d+")
        self.assertGreater(said["predicted_memory"]["total"], said["predicted_memory"]["weights"])
        self.assertNotIn("library", said)

    @needs_mpi
    def test_every_rank_counts_for_its_host(self):
        run = self.train("run", "--steps", "1", "--grid", "2x1x1x1", ranks=2)
        said = environment(run)
        self.assertEqual((said["ranks"], said["grid"], said["transport"]), (2, "2x1x1x1", "mpi"))
        self.assertEqual([host["ranks"] for host in said["hosts"]], [2])
        self.assertRegex(said["library"], r"\d")

    def test_a_resumed_run_keeps_what_earlier_starts_were(self):
        run = self.train("run", "--steps", "2", "--save-every", "1")
        first = environment(run)
        self.assertEqual(starts(run)[0]["environment"], first)
        ended = self.gpt("train", "--resume", "run", "--steps", "4")
        self.assertEqual(ended.status, 0, ended.text)
        lines = starts(run)
        self.assertEqual([line["step"] for line in lines], [0, 2])
        self.assertEqual([line["environment"] for line in lines], [first, environment(run)])
        self.assertIn("--resume", environment(run)["command"])
        steps = [line["configuration"]["train"]["steps"] for line in lines]
        self.assertEqual(steps, [2, tomllib.loads((run / "config.toml").read_text())["train"]["steps"]])
        self.assertEqual(steps[1], 4)

        ended = self.gpt("train", "--resume", "run/step-000003", "--steps", "4")  # goes back
        self.assertEqual(ended.status, 0, ended.text)
        left = run / "after-step-000003"
        self.assertEqual(tomllib.loads((left / "config.toml").read_text())["train"]["steps"], 4)
        self.assertEqual(environment(left), lines[1]["environment"])

    def test_the_newest_metrics_are_in_a_file_for_prometheus(self):
        run = self.train("run", "--steps", "3", "--metrics-file", "a.prom")
        lines = (self.directory / "a.prom").read_text().splitlines()
        values = dict(line.split(" ") for line in lines if not line.startswith("#"))
        last = metrics(run)[-1]
        for name, value in (("running", 0), ("step", 3), ("loss", last["loss"]),
                            ("seconds_step", last["seconds"]["step"])):
            self.assertEqual(float(values[f'axonn_{name}{{run="run"}}']), value)
        ended = self.gpt("train", "--data", self.text.name, "--out", "other", *TRAINING, "--steps", "1",
                         "--metrics-file", "none/a.prom")
        self.assert_refused(ended, "cannot create none/a.prom.partial: No such file")

    def test_a_run_that_does_not_begin_is_not_said_to_run(self):
        (self.directory / "run/environment.json").mkdir(parents=True)  # in the place of its file
        ended = self.gpt("train", "--data", self.text.name, "--out", "run", *TRAINING, "--steps", "1",
                         "--metrics-file", "a.prom")
        self.assertNotEqual(ended.status, 0, ended.text)
        self.assertIn("environment.json", ended.text)
        self.assertFalse((self.directory / "a.prom").exists())

    def test_words_that_are_no_text_are_shown(self):
        folder = self.directory / "a b"
        folder.mkdir()
        ended = self.gpt("train", "--data", self.text.name, "--out", "a b/<script>\udcff", "--layers", "1", "--hidden",
                         "16", "--heads", "2", "--sequence", "16", "--steps", "1")
        self.assertEqual(ended.status, 0, ended.text)
        said = environment(next(folder.iterdir()))
        self.assertIn("a b/<script>\\xFF", said["command"])


if __name__ == "__main__":
    unittest.main()
