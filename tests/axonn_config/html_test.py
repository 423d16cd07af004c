"""The page of --html has the numbers of --json, and no text in it becomes HTML."""
import unittest

from page_files import Page
from planner_runs import PlannerTest

JOB = ("--model", "gpt5b", "--machine", "dgx-a100")
NETWORK = "[model]\nlayers = 4\nhidden = 256\nheads = 4\nsequence = 128\nvocab = 512\n"


class Html(PlannerTest):
    def page(self, *arguments, status=0):
        ended = self.run_program(*arguments, "--html", "page.html", status=status)
        return Page((self.directory / "page.html").read_text()), ended

    def both(self, *arguments):
        found = self.plan(*arguments, "--html", "page.html")
        return Page((self.directory / "page.html").read_text()).data, found

    def test_a_ranking_has_the_numbers_of_json(self):
        data, found = self.both("--gpus", "64", *JOB, "--top", "5")
        self.assertEqual(data["ranking"], found)
        self.assertEqual(len(data["details"]), 5)
        self.assertEqual((data["gpus"], data["problem"]), (64, ""))
        for layout, details in zip(found["layouts"], data["details"]):
            explained = self.plan("explain", "x".join(map(str, layout["grid"])), *JOB)
            self.assertEqual(details["terms"], {key: explained[key] for key in ("rings", "one_pass")})
        self.assertEqual(data["sensitivity"],
                         self.plan("--gpus", "64", *JOB, "--top", "5", "--sensitivity")["sensitivity"])
        around = ",".join(str(4 << i) for i in range(9))
        self.assertEqual(data["scaling"], self.plan("--gpus", around, *JOB))

    def test_several_counts_have_the_numbers_of_json(self):
        data, found = self.both("--gpus", "4..512", "--model", "gpt20b", "--machine", "dgx-a100")
        self.assertEqual(data["scaling"], found)
        self.assertIsNone(data["ranking"])
        self.assertIn("reason", found["counts"][0])
        best = [one["layout"]["grid"] for one in found["counts"] if "layout" in one]
        self.assertEqual(len(data["details"]), len(best))
        explained = self.plan("explain", "x".join(map(str, best[-1])), "--model", "gpt20b", "--machine", "dgx-a100")
        self.assertEqual(data["details"][-1]["terms"]["one_pass"], explained["one_pass"])

    def test_a_step_is_the_sum_of_its_parts(self):
        for layout in self.both("--gpus", "64", *JOB)[0]["ranking"]["layouts"]:
            computed = layout["forward_seconds"] + layout["backward_seconds"] + layout["optimizer_seconds"]
            self.assertAlmostEqual(computed, layout["compute_seconds"])
            self.assertAlmostEqual(computed + sum(layout["exposed_seconds"].values()), layout["seconds"])

    def test_counts_around_are_those_of_whole_pipelines(self):
        data, _ = self.both("--gpus", "64", "--model", "gpt20b", "--machine", "dgx-a100", "--what-if", "pipeline=8")
        self.assertEqual([one["gpus"] for one in data["scaling"]["counts"]], [8 << i for i in range(8)])
        self.assertEqual(data["gpus"], 64)

    def test_a_page_without_layouts_says_why(self):
        page, ended = self.page("--gpus", "8", "--model", "gpt80b", status=1)
        self.assertEqual(f"axonn-config: {page.data['problem']}\n", ended.stderr)
        self.assertEqual((page.data["details"], page.data["sensitivity"]), ([], None))
        self.assertGreater(len(page.data["ranking"]["rejected"]), 5)

    def test_texts_stay_texts(self):
        plain = self.page("--gpus", "8", *JOB)[0]
        folder = self.directory / "<!--<"
        folder.mkdir()
        name = "script><script>alert(1)<b onclick='x'>&lt;\"`${1}{{data}}\\u003c.toml"
        (folder / name).write_text(NETWORK)
        page, _ = self.page("--gpus", "8", "--model", f"<!--</{name}")
        self.assertEqual(page.tags, plain.tags)
        self.assertEqual(page.data["ranking"]["model"], f"<!--</{name}")
        self.assertIn("alert(1)", page.data["flags"])
        text = (self.directory / "page.html").read_text()
        self.assertEqual((text.count("<script"), text.count("</script"), text.count("<!--")), (2, 2, 0))
        self.assertTrue(text.isascii())
        strange = self.write("\u2028caf\u00e9\ud83d\ude00.toml".encode("utf-16", "surrogatepass").decode("utf-16"),
                             NETWORK)
        self.assertEqual(self.page("--gpus", "8", "--model", strange)[0].data["ranking"]["model"], strange)

    def test_it_asks_for_nothing(self):
        text = (self.page("--gpus", "8", *JOB), (self.directory / "page.html").read_text())[1]
        for reference in ("http:", "https:", "src=", "href", "url(", "@import", "fetch(", "import(", "innerHTML",
                          "insertAdjacentHTML", "document.write", "eval("):
            self.assertNotIn(reference, text)
        self.assertIn("default-src 'none'", text)

    def test_a_page_that_cannot_be_written_is_one_sentence(self):
        ended = self.run_program("--gpus", "8", *JOB, "--html", "nowhere/page.html", status=2)
        self.assertIn("cannot write nowhere/page.html: No such file or directory", ended.stderr)


if __name__ == "__main__":
    unittest.main()
