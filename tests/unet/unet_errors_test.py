"""Errors of `unet`: images that are missing, broken or of another size, networks that do not fit
the grid, and invalid sampling options."""
import random
import struct
import unittest
import zlib

from program_runs import needs_mpi, refusal_seconds
from unet_runs import TRAINING, UnetTest

CIFAR_RECORD = 3073


class ImageErrors(UnetTest):
    def refuse_data(self, data, *words):
        self.refuse("train", "--out", "run", *TRAINING, "--data", data, words=words)

    def test_no_directory(self):
        self.refuse_data("nowhere", "--data must be shapes or a directory", "'nowhere'")

    def test_an_empty_folder(self):
        (self.directory / "empty").mkdir()
        self.refuse_data("empty", "empty")

    def test_a_folder_of_cut_images(self):
        folder = self.directory / "cut"
        folder.mkdir()
        (folder / "one.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
        self.refuse_data("cut", "one.png")

    def test_a_cifar_file_of_the_wrong_length(self):
        folder = self.directory / "cifar"
        folder.mkdir()
        (folder / "data_batch_1.bin").write_bytes(bytes(2 * CIFAR_RECORD - 1))
        self.refuse_data("cifar", "data_batch_1.bin has 6145 bytes", "3073")

    def test_images_of_another_size(self):
        folder = self.directory / "cifar"
        folder.mkdir()
        for name in ("data_batch_1.bin", "test_batch.bin"):
            (folder / name).write_bytes(bytes(2 * CIFAR_RECORD))
        self.refuse_data("cifar", "the network takes images of 8 x 8", "32 x 32")


def png(side, seed, damage=False):
    """Noise, so that a damaged byte is in its pixels."""
    values = random.Random(seed)
    rows = b"".join(b"\0" + values.randbytes(3 * side) for _ in range(side))

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    pixels = chunk(b"IDAT", zlib.compress(rows))
    if damage:
        pixels = pixels[:50] + bytes(40) + pixels[90:]
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + pixels + chunk(b"IEND", b"")


class FolderErrors(UnetTest):
    def folder(self, name, damaged=None, classes=("cat",)):
        for kind in classes:
            folder = self.directory / name / kind
            folder.mkdir(parents=True)
            for i in range(6):
                (folder / f"{i}.png").write_bytes(png(8, i, damage=damaged == i))
        return name

    def test_an_image_with_a_hole_ends_all_ranks(self):
        """Both ends of the file are good, so that the run begins."""
        self.folder("images", damaged=3)
        ended = self.unet("train", "--out", "run", *TRAINING, "--steps", "50", "--validation-fraction", "0", "--data",
                          "images", "--grid", "1x1x1x2", ranks=2, launcher="ranks")
        self.assertEqual(ended.status, 1, ended.text)
        self.assertIn("images/cat/3.png is a corrupt PNG", ended.err)
        self.assertIn("copy the file again and resume the run", ended.err)
        self.assertIn("images: read 6 files", ended.err)

    def test_validation_on_no_images_is_said(self):
        ended = self.unet("train", "--out", "run", *TRAINING, "--steps", "1", "--validate-every", "1",
                          "--validation-images", "0")
        self.assertEqual(ended.status, 0, ended.text)
        self.assertIn("no validation: --validation-images is below 1", ended.text)
        self.assertNotIn("nan", ended.text)

    def refuse_unlike(self, *words):
        ended = self.run_program(lambda rank: ["train", "--out", "run", *TRAINING, "--validation-fraction", "0",
                                               "--grid", "1x1x1x2", "--data", f"host-{rank}"],
                                 ranks=2, launcher="tcp", seconds=refusal_seconds())
        self.assert_refused(ended, *words)

    def test_other_images_of_the_same_lengths_on_a_rank(self):
        for rank in range(2):
            self.folder(f"host-{rank}", damaged=rank + 1)
        (self.directory / "host-1" / "notes.txt").write_text("of this host")
        self.refuse_unlike("rank 1 has read other data than rank 0", "the hash of both ends of each file is",
                           "(there: left out 1: not .png, .jpg or .jpeg notes.txt; on rank 0: left out nothing)")

    def test_other_classes_on_a_rank(self):
        """A line break in a name does not move the facts that follow."""
        for rank, other in enumerate(("dog", "dot")):
            self.folder(f"host-{rank}", classes=("two\nlines", other))
        self.refuse_unlike("rank 1 has read other data than rank 0",
                           r"the list of classes is dot/two\x0Alines there and dog/two\x0Alines on rank 0")

    def test_images_that_only_some_ranks_can_read(self):
        self.folder("host-0")
        named = ["rank 1 cannot read what rank 0 on host ", ": rank 1 on host "]
        self.refuse_unlike(*named, "--data must be shapes or a directory of images that can be read, got 'host-1'")
        (self.directory / "host-1").mkdir()
        self.refuse_unlike(*named, "host-1")


class NetworkErrors(UnetTest):
    def test_channels_that_the_groups_do_not_divide(self):
        self.refuse("train", "--out", "run", *TRAINING, "--groups", "3", words=["groups", "3"])

    @needs_mpi
    def test_channels_that_an_axis_does_not_divide(self):
        self.refuse("train", "--out", "run", *TRAINING, "--base", "12", "--heads", "3", "--grid", "1x1x1x1",
                    "--grid", "8x1x1x1", ranks=8, words=["channels must divide by x", "8x1x1x1"])

    def test_a_image_that_cannot_be_halved(self):
        self.refuse("train", "--out", "run", *TRAINING, "--image", "9", words=["9"])


    def test_rows_of_norms_that_need_whole_images(self):
        self.refuse("train", "--out", "run", *TRAINING, "--norm-rows", "on",
                    words=["norm_rows divides the rows of a decoder's stream", "choose off"])

    @needs_mpi
    def test_sequences_that_are_whole_images(self):
        self.refuse("train", "--out", "run", *TRAINING, "--grid", "1x1x2x1", "--context", "2",
                    words=["context divides the sequences of a decoder", "choose context = 1, got 2"], ranks=2)


class SamplingErrors(UnetTest):
    def test_no_checkpoint(self):
        self.refuse("sample", words=["--checkpoint"])
        self.refuse("sample", "--checkpoint", "nowhere", words=["nowhere"])

    def test_guidance_without_classes(self):
        self.train("run", "--steps", "1")
        self.refuse("sample", "--checkpoint", "run", "--guidance", "3", words=["guidance needs a network with classes"])
        self.refuse("sample", "--checkpoint", "run", "--class", "2", words=["0 classes", "class 2"])

    def test_a_sheet_in_no_directory(self):
        self.train("run", "--steps", "1")
        self.refuse("sample", "--checkpoint", "run", "--count", "2", "--sampling-steps", "2",
                    "--out", "nowhere/sheet.png", words=["nowhere"])


if __name__ == "__main__":
    unittest.main()
