"""A ResNet for small images (He et al., 2016, section 4.2) in PyTorch, for bench/peers.py --wrapped:
bench/wrapped_networks.cpp is the same of torch::nn modules. BatchNorm is in training."""
import torch
from torch import nn
from torch.nn import functional as F

program = "resnet"
CLASSES = 10


def convolution(inputs, outputs, size, stride):
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first, self.first_norm = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.second, self.second_norm = convolution(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
        self.shortcut = convolution(inputs, outputs, 1, stride) if inputs != outputs else nn.Identity()

    def forward(self, x):
        return F.relu(self.second_norm(self.second(F.relu(self.first_norm(self.first(x))))) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.stem, self.stem_norm = convolution(3, job.base, 3, 1), nn.BatchNorm2d(job.base)
        widths = [job.base] + [multiplier * job.base for multiplier in job.multipliers for _ in range(job.blocks)]
        self.blocks = nn.Sequential(*(Block(a, b, 1 if a == b else 2) for a, b in zip(widths, widths[1:])))
        self.head = nn.Linear(widths[-1], CLASSES)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.05)
        nn.init.zeros_(self.head.bias)

    def forward(self, images, labels):
        x = self.blocks(F.relu(self.stem_norm(self.stem(images)))).mean((2, 3))
        return F.cross_entropy(self.head(x).float(), labels)


def make(job):
    return ResNet(job)


def parts(model):
    """The units that fully_shard gathers."""
    return model.blocks


def batches(job, rank, ranks):
    generator = torch.Generator().manual_seed(job.seed)
    while True:
        images = torch.randn(job.batch, 3, job.image, job.image, generator=generator)
        yield images.chunk(ranks)[rank], torch.randint(CLASSES, (job.batch,), generator=generator).chunk(ranks)[rank]


def flags(job):
    return ["--image", job.image, "--base", job.base, "--blocks", job.blocks, "--batch", job.batch,
            "--multipliers", *job.multipliers]
