"""Programs on hosts with shaped links (scripts/cluster, needs root)."""
import contextlib
import json
import pathlib
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent


def call(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


@contextlib.contextmanager
def hosts(nodes, rate):
    call(TOP / "scripts/cluster", "up", "--nodes", nodes, "--rate", rate)
    try:
        yield
    finally:
        call(TOP / "scripts/cluster", "down")


def on_hosts(ranks, *command):
    return call(TOP / "scripts/cluster", "run", "-n", ranks, "--", *command, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE)


def write_text(path):
    """Data for gpt."""
    path.write_text("".join(f"line {i} of a text, {i * i % 97} and {i * 7 % 31}\n" for i in range(5000)))


def program_metrics(program, ranks, scratch, steps, *flags, start=on_hosts):
    """Metrics of all steps of a run of gpt or unet that neither validates nor saves."""
    run = scratch / "run"
    start(ranks, program, "train", *flags, "--gemm", "mm", "--steps", steps, "--validation-fraction", 0,
             "--validate-every", 0, "--save-every", 0, "--no-save-last", "--out", run)
    metrics = [json.loads(line) for line in open(run / "metrics.jsonl")]
    call("rm", "-r", run)
    return metrics
