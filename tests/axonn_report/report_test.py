"""axonn-report: its page has the numbers of a run's files, thinned, and whatever is torn, missing or
hostile in them neither ends it nor becomes HTML."""
import base64
import json
import os
import signal
import subprocess
import time
import unittest

from page_files import Page
from report_runs import PROGRAM, ReportTest, line_of, start_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


class Report(ReportTest):
    def test_a_short_run_is_there_step_by_step(self):
        lines = [line_of(step, 1 / step) for step in range(1, 11)]
        lines[4]["validation_loss"] = 0.25
        lines[9]["own_new_key"] = 7
        self.write_run("a", lines)
        data = self.report("a")
        run, = data["runs"]
        self.assertEqual((run["name"], run["steps"], run["problems"], data["notes"]), ("a", 10, [], []))
        metrics = run["metrics"]
        self.assertEqual(metrics["axes"]["step"], list(range(1, 11)))
        self.assertEqual(metrics["axes"]["terms so far"], [500 * step for step in range(1, 11)])
        self.assertEqual(metrics["axes"]["seconds so far"], [0.5 * step for step in range(1, 11)])
        curves = metrics["curves"]
        self.assertEqual(curves["loss"]["mean"], [float(f"{1 / step:.6g}") for step in range(1, 11)])
        self.assertNotIn("least", curves["loss"])
        self.assertEqual((curves["loss"]["last"], curves["loss"]["lowest"]), (0.1, 0.1))
        self.assertEqual((curves["validation_loss"]["mean"], curves["validation_loss"]["at"]), ([0.25], [4]))
        self.assertEqual((curves["own_new_key"]["mean"], curves["own_new_key"]["at"]), ([7], [9]))
        self.assertEqual(curves["communication.all_reduce.hidden_seconds"]["average"], 0.06)
        self.assertIsNone(data["renewed_every"])

    def test_a_long_run_is_thinned_and_loses_no_spike(self):
        spike = 77777
        self.write_run("long", [line_of(step, 50 if step == spike else 2) for step in range(1, 100001)])
        curves = self.report("long")["runs"][0]["metrics"]
        loss, steps = curves["curves"]["loss"], curves["axes"]["step"]
        self.assertTrue(256 <= len(steps) <= 1024, len(steps))
        self.assertEqual(steps[-1], 100000)
        self.assertEqual({len(loss[part]) for part in ("mean", "least", "most")}, {len(steps)})
        self.assertEqual((max(loss["most"]), max(loss["least"])), (50, 2))
        place = loss["most"].index(50)
        self.assertTrue(steps[place - 1] < spike <= steps[place])
        self.assertAlmostEqual(loss["average"], (2 * 99999 + 50) / 100000, delta=1e-4)
        self.assertEqual(curves["axes"]["terms so far"][-1], 500 * 100000)
        self.assertLess((self.directory / "report.html").stat().st_size, 1 << 20)

    def test_a_run_that_begins_late_has_its_own_steps(self):
        self.write_run("branch", [line_of(step, 1) for step in range(5001, 5004)])
        self.assertEqual(self.report("branch")["runs"][0]["metrics"]["axes"]["step"], [5001, 5002, 5003])

    def test_torn_and_foreign_lines_are_left_out_and_counted(self):
        torn = json.dumps(line_of(3, 1))[:40]
        self.write_run("a", [line_of(1, 1), "nonsense\n", "[1]\n", '{"step":"2"}\n', "{" * 5000 + "\n", line_of(4, 1),
                             line_of(2, 9), torn])
        run, = self.report("a")["runs"]
        self.assertEqual(run["metrics"]["axes"]["step"], [1, 4])
        self.assertEqual(run["problems"], ["4 lines of metrics.jsonl are no record of a step; left out",
                                           "1 line of metrics.jsonl comes after a later step; left out"])

    def test_numbers_that_are_not_finite_are_told(self):
        lines = [line_of(step, 1) for step in range(1, 6)]
        lines[2]["loss"] = lines[3]["loss"] = None
        self.write_run("a", lines)
        loss = self.report("a")["runs"][0]["metrics"]["curves"]["loss"]
        self.assertEqual((loss["at"], loss["not_finite"]), ([0, 1, 4], [2, 3]))

    def test_a_run_of_another_version_has_what_it_has(self):
        run = self.write_run("a", [{"step": 1, "loss": 3}])
        (run / "starts.jsonl").unlink()
        (run / "status.json").write_text('["no object"]')
        found, = self.report("a")["runs"]
        self.assertEqual(found["problems"], ["there is no starts.jsonl, so its settings and restarts are not known"])
        self.assertEqual((found["status"], found["starts"], found["samples"]), ({}, [], []))
        (run / "starts.jsonl").write_text('{"step":0,"environment":7}\n"x"\n{"configuration":[]}\n{torn')
        self.assertEqual(len(self.report("a")["runs"][0]["starts"]), 2)

    def test_a_run_without_a_step_is_shown(self):
        self.write_run("a", [], state="running")
        run, = self.report("a")["runs"]
        self.assertEqual((run["steps"], run["metrics"]["curves"]), (0, {}))

    def test_slow_ranks_and_starts_are_listed(self):
        lines = [line_of(step, 1) for step in range(1, 301)]
        for step in (100, 200):
            lines[step - 1]["straggler"] = "rank 3 on host n1 computes 40% longer"
        self.write_run("a", lines, starts=[start_of(0), start_of(150, grid="1x1x1x1")])
        run, = self.report("a")["runs"]
        self.assertEqual([one["step"] for one in run["stragglers"]], [100, 200])
        self.assertEqual([start["environment"]["grid"] for start in run["starts"]], ["2x1x2x1", "1x1x1x1"])
        self.assertEqual(["configuration" in start for start in run["starts"]], [False, True])

    def test_samples_are_some_of_all(self):
        samples = {f"step-{step:06d}.png": PNG + bytes([step]) for step in range(1, 41)}
        samples["step-000007.txt"] = "a text\n<b>\u00e9".encode() + b"\xff\x07"
        samples["step-000008.txt"] = b"x" * 100000
        samples["step-x.png"] = samples["other.gif"] = b"?"
        self.write_run("a", [line_of(1, 1)], samples=samples)
        shown = self.report("a")["runs"][0]["samples"]
        images = {sample["step"]: base64.b64decode(sample["image"]) for sample in shown if "image" in sample}
        self.assertEqual(sorted(images), [5, 10, 15, 20, 25, 30, 35, 40])
        self.assertTrue(all(images[step] == PNG + bytes([step]) for step in images))
        texts = {sample["step"]: sample["text"] for sample in shown if "text" in sample}
        self.assertEqual(texts[7], "a text\n<b>\u00e9\\xFF\\x07")
        self.assertTrue(texts[8].endswith("x\n[cut at 64 KiB]"))
        for size in range(4):
            self.write_run(f"b{size}", [line_of(1, 1)], samples={"step-000001.png": PNG[:size]})
            found, = self.report(f"b{size}")["runs"][0]["samples"]
            self.assertEqual(base64.b64decode(found["image"]), PNG[:size])

    def test_names_are_told_apart(self):
        for name in ("one/run", "two/run", "three", "a b c"):
            self.write_run(name, [line_of(1, 1)])
        names = lambda *runs: [run["name"] for run in self.report(*runs)["runs"]]
        self.assertEqual(names("one/run", "two/run", "three/"), ["one/run", "two/run", "three"])
        self.assertEqual(names("one/run", "one/../one/run/.", "a b c"), ["run", "a b c"])

    def test_ten_thousand_runs_are_a_table(self):
        self.write_run("first", [line_of(step, 2) for step in range(1, 50)])
        for number in range(10000):
            run = self.directory / f"many/run-{number}"
            run.mkdir(parents=True)
            (run / "metrics.jsonl").write_text('{"step":1,"loss":2.5}\n{"step":2,"loss":1.5}\n')
        # 20 bytes a name: the arguments fit in the system's limit
        data = self.report("first", *(f"many/run-{number}" for number in range(10000)))
        self.assertEqual(len(data["runs"]), 10001)
        self.assertEqual(sum(run["drawn"] for run in data["runs"]), 16)
        self.assertEqual(data["runs"][-1]["metrics"]["curves"]["loss"]["last"], 1.5)
        self.assertEqual(data["notes"], ["curves and samples are those of the first 16 of 10001 runs; name fewer to "
                                         "see those of others"])
        self.assertLess((self.directory / "report.html").stat().st_size, 16 << 20)

    def test_a_run_that_is_not_drawn_is_a_row(self):
        many = [{"name": f"n{number}", "ranks": 4} for number in range(1000)]
        line = {**line_of(1, 2), **{f"own_{number}": number for number in range(1000)}, "validation_loss": 1}
        for number in range(17):
            self.write_run(f"run-{number}", [line], starts=[start_of(0), start_of(0, hosts=many)])
        first, *_, last = self.report(*(f"run-{number}" for number in range(17)))["runs"]
        self.assertEqual([start["environment"]["hosts"] for start in first["starts"]],
                         [[{"name": "n1", "ranks": 4}], 1000])
        self.assertIn("own_999", first["metrics"]["curves"])
        self.assertEqual(last["starts"], [{"ranks": 4, "environment": {"grid": "2x1x2x1"},
                                           "configuration": {"train": {"steps": 1000}}}])
        self.assertEqual(set(last["metrics"]["curves"]), {"loss", "validation_loss", "tokens_per_second", "utilisation",
                                                          "hidden_share", "peak_memory_bytes"})
        self.assertLess(len(json.dumps(last)), 2000)

    def test_texts_stay_texts(self):
        self.write_run("plain", [line_of(1, 1)])
        plain = self.page("plain")
        hostile = "</script><script>alert(1)<!--<b onclick='x'>&lt;\"`${1}{{data}}\\u003c"
        name = hostile.replace("/", "\u2215")
        lines = [{**line_of(1, 1), hostile: 1, "straggler": hostile}]
        run = self.write_run(name, lines, samples={"step-000001.txt": hostile.encode()},
                             starts=[start_of(0, machine=hostile, command=[hostile], hosts=hostile)], state=hostile)
        page = self.page(name)
        self.assertEqual(page.tags, plain.tags)
        found, = page.data["runs"]
        self.assertEqual((found["name"], found["stragglers"][0]["text"], found["samples"][0]["text"]),
                         (name, hostile, hostile))
        self.assertIn(hostile, found["metrics"]["curves"])
        text = (self.directory / "report.html").read_text()
        self.assertEqual((text.count("<script"), text.count("</script"), text.count("<!--")), (2, 2, 0))
        self.assertTrue(text.isascii())
        run.rename(os.fsdecode(os.fsencode(self.directory) + b"/caf\xe9"))
        self.assertEqual(self.report(b"caf\xe9".decode(errors="surrogateescape"))["runs"][0]["name"], "caf\\xE9")

    def test_it_asks_for_nothing(self):
        self.write_run("a", [line_of(1, 1)])
        self.page("a")
        text = (self.directory / "report.html").read_text()
        for reference in ("http:", "https:", "src=", "href", "url(", "@import", "fetch(", "import(", "innerHTML",
                          "insertAdjacentHTML", "document.write", "eval("):
            self.assertNotIn(reference, text)
        self.assertIn("default-src 'none'", text)

    def refuse(self, *arguments, words):
        ended = self.run_report(*arguments, status=2)
        self.assertEqual((ended.stdout, ended.stderr.count("\n")), ("", 1), ended.stderr)
        for word in ("axonn-report: ", *words):
            self.assertIn(word, ended.stderr)

    def test_what_cannot_be_read_or_written_is_one_sentence(self):
        self.write_run("a", [line_of(1, 1)])
        (self.directory / "empty").mkdir()
        self.refuse(words=["runs is required"])
        self.refuse("none", words=["none is no directory", "such as runs/a"])
        self.refuse("a/metrics.jsonl", words=["is no directory"])
        self.refuse("empty", words=["empty has no metrics.jsonl"])
        self.refuse("empty", "none", words=["none of 2 directories can be read", "empty has no metrics.jsonl"])
        self.refuse("a", "--out", "nowhere/page.html", words=["cannot write nowhere/page.html: No such file"])
        self.refuse("a", "--every", "0", words=["--every"])
        os.mkfifo(self.directory / "empty/metrics.jsonl")
        self.refuse("empty", words=["empty has no metrics.jsonl"])

    def test_one_of_several_that_cannot_be_read_is_a_note(self):
        self.write_run("a", [line_of(1, 1)])
        data = self.report("none", "a")
        self.assertEqual([run["name"] for run in data["runs"]], ["a"])
        self.assertTrue(data["notes"][0].startswith("none is no directory"), data["notes"])

    def test_a_page_goes_to_the_standard_output_too(self):
        self.write_run("a", [line_of(1, 1)])
        ended = self.run_report("a", "--out", "/dev/stdout")
        self.assertTrue(ended.stdout.startswith("<!DOCTYPE html>"))
        self.assertFalse(list(self.directory.glob("*.partial")))

    def wait_for(self, fits):
        page = self.directory / "report.html"
        for _ in range(3000):
            if page.exists() and fits(data := self.data_of(page)):
                return data
            time.sleep(0.01)
        self.fail("the page was not written")

    def data_of(self, page):
        return Page(page.read_text()).data

    def test_it_is_renewed_while_a_run_goes_on(self):
        run = self.write_run("a", [line_of(1, 1)], state="running")
        with subprocess.Popen([PROGRAM, "a", "--watch", "--every", "1"], cwd=self.directory) as watching:
            data = self.wait_for(lambda data: True)
            self.assertGreaterEqual(data["renewed_every"], 1)
            with (run / "metrics.jsonl").open("a") as out:
                out.write(json.dumps(line_of(2, 1)) + "\n")
            self.wait_for(lambda data: data["runs"][0]["steps"] == 2)
            (run / "status.json").write_text('{"state":"done"}')
            self.assertEqual(watching.wait(timeout=60), 0)
        self.assertIsNone(self.data_of(self.directory / "report.html")["renewed_every"])

    def test_a_signal_ends_it_with_a_last_page(self):
        self.write_run("a", [line_of(1, 1)], state="running")
        with subprocess.Popen([PROGRAM, "a", "--watch", "--every", "3600"], cwd=self.directory) as watching:
            self.wait_for(lambda data: True)
            watching.send_signal(signal.SIGINT)
            self.assertEqual(watching.wait(timeout=60), 0)
        self.assertIsNone(self.data_of(self.directory / "report.html")["renewed_every"])

    def test_help_and_version(self):
        self.assertIn("--watch", self.run_report("--help").stdout)
        self.assertRegex(self.run_report("--version").stdout, r"^\d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
