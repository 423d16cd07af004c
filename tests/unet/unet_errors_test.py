"""Errors of `unet`: images that are missing, broken or of another size, networks that do not fit
the grid, and invalid sampling options."""
import unittest

from program_runs import needs_mpi
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


class NetworkErrors(UnetTest):
    def test_channels_that_the_groups_do_not_divide(self):
        self.refuse("train", "--out", "run", *TRAINING, "--groups", "3", words=["groups", "3"])

    @needs_mpi
    def test_channels_that_an_axis_does_not_divide(self):
        self.refuse("train", "--out", "run", *TRAINING, "--base", "12", "--heads", "3", "--grid", "1x1x1x1",
                    "--grid", "8x1x1x1", ranks=8, words=["channels must divide by x", "8x1x1x1"])

    def test_a_image_that_cannot_be_halved(self):
        self.refuse("train", "--out", "run", *TRAINING, "--image", "9", words=["9"])


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
