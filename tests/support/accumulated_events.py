"""The curves, images and texts of a run as TensorBoard's own EventAccumulator reads them; scripts/setup
--interop installs it."""
import json
import pathlib
import subprocess

PYTHON = next((pathlib.Path(__file__).parents[2] / ".deps").glob("tensorboard-*/bin/python"), None)
READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "images": 0, "tensors": 0})
found.Reload()
tags = found.Tags()
print(json.dumps({
    "scalars": {tag: [[event.step, event.value] for event in found.Scalars(tag)] for tag in tags["scalars"]},
    "images": {tag: [[event.step, event.width, event.height, len(event.encoded_image_string)]
                     for event in found.Images(tag)] for tag in tags["images"]},
    "texts": {tag: [[event.step, event.tensor_proto.string_val[0].decode()] for event in found.Tensors(tag)]
              for tag in tags["tensors"]},
    "plugins": {tag: found.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]},
}))
"""


def accumulated(run):
    ended = subprocess.run([PYTHON, "-c", READ, run / "tb"], capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)
