"""Reads GGUF files, version 3, by the format's description: keys with values, and tensors as bytes."""
import struct

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
WIDTHS = {0: 4, 1: 2, 30: 2}  # bytes per number: fp32, fp16, bf16


class GgufFile:
    def __init__(self, path):
        self.bytes, self.at = path.read_bytes(), 0
        assert self.take(4) == b"GGUF"
        assert self.number("I") == 3
        tensors, values = self.number("Q"), self.number("Q")
        self.values, self.types = {}, {}
        for _ in range(values):
            key = self.text()
            assert key not in self.values, key
            kind = self.number("I")
            self.types[key] = kind
            self.values[key] = self.value(kind)
        described = [self.tensor() for _ in range(tensors)]
        data = -(-self.at // 32) * 32
        assert not any(self.bytes[self.at:data])
        self.tensors, end = {}, 0  # (type, shape with the outermost dim first, bytes)
        for name, shape, kind, begin in described:
            assert begin == -(-end // 32) * 32, name
            size = WIDTHS[kind]
            for dim in shape:
                size *= dim
            end = begin + size
            self.tensors[name] = (kind, shape, self.bytes[data + begin:data + end])
        assert len(self.tensors) == tensors and len(self.bytes) == data + -(-end // 32) * 32

    def take(self, count):
        self.at += count
        assert self.at <= len(self.bytes)
        return self.bytes[self.at - count:self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self):
        return self.take(self.number("Q")).decode()

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind != LIST:
            return self.number(NUMBERS[kind])
        each, count = self.number("I"), self.number("Q")
        return [self.value(each) for _ in range(count)]

    def tensor(self):
        name = self.text()
        shape = tuple(self.number("Q") for _ in range(self.number("I")))[::-1]
        return name, shape, self.number("I"), self.number("Q")
