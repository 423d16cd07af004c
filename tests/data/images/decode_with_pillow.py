"""Writes decoded.json: small PNG and JPEG files, and their pixels as Pillow decodes them: exif_transpose(),
transparency blended with white, RGB. Pillow cuts 16 bits to 8, so those pixels are numpy's, v / 257 rounded.

Once, with `pip install pillow numpy`: python tests/data/images/decode_with_pillow.py. Made with Pillow 13.0."""
import io
import json
import pathlib
import struct
import zlib

import numpy
from PIL import Image, ImageOps

WIDTH, HEIGHT = 5, 3
random = numpy.random.default_rng(7)
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # per pixel, by the PNG's colour type


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(samples, bits, colour, before=b"", after=b""):
    """`samples`: height x width x samples of a pixel. `before` and `after`: chunks around the pixels."""
    height, width, _ = samples.shape
    rows = b""
    for row in samples:
        if bits == 16:
            line = row.astype(">u2").tobytes()
        else:
            line = numpy.packbits(((row.reshape(-1, 1) >> numpy.arange(bits - 1, -1, -1)) & 1).astype(bool)).tobytes()
        rows += b"\0" + line
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + chunk(b"IDAT", zlib.compress(rows)) + after +
            chunk(b"IEND", b""))


def tiff(order, value, kind=3, count=1):
    """An EXIF block: ImageWidth, then the orientation, of which `kind` is the type."""
    small = {"II": "<", "MM": ">"}[order]
    held = struct.pack(small + {1: "B3x", 3: "H2x", 4: "I"}[kind], value)
    return (order.encode() + struct.pack(small + "HIH", 42, 8, 2) + struct.pack(small + "HHII", 0x100, 4, 1, WIDTH) +
            struct.pack(small + "HHI", 0x112, kind, count) + held + struct.pack(small + "I", 0))


def jpeg(image, exif=None):
    out = io.BytesIO()
    image.save(out, "JPEG", quality=95)
    data = out.getvalue()
    if exif is None:
        return data
    body = b"Exif\0\0" + exif
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + data[2:]


def of_pillow(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return numpy.asarray(image.convert("RGB"))


def of_numpy(samples, colour):
    values = numpy.rint(samples / 257)
    if colour in (0, 4):
        values = numpy.concatenate([values[..., :1]] * 3 + [values[..., 1:]], axis=2)
    if values.shape[2] == 4:
        alpha = values[..., 3:] / 255
        values = numpy.rint(values[..., :3] * alpha + 255 * (1 - alpha))
    return values.astype(numpy.uint8)


cases = []


def add(name, data, pixels=None, within=0):
    pixels = of_pillow(data) if pixels is None else pixels
    cases.append({"name": name, "file": data.hex(), "width": pixels.shape[1], "height": pixels.shape[0],
                  "pixels": pixels.tobytes().hex(), "within": within})


def random_samples(bits, colour, most=None):
    return random.integers(0, most or 1 << bits, (HEIGHT, WIDTH, SAMPLES[colour]))


coloured = random_samples(8, 2)
large = Image.fromarray(numpy.kron(random_samples(8, 2)[:1, :2], numpy.ones((16, 8, 1))).astype(numpy.uint8))
for order in ("II", "MM"):
    for orientation in range(1, 9):
        exif = tiff(order, orientation)
        add(f"png-{order}-{orientation}", png(coloured, 8, 2, before=chunk(b"eXIf", exif)))
        add(f"jpeg-{order}-{orientation}", jpeg(large, exif), within=2)
for name, exif in {"0": tiff("II", 0), "9": tiff("MM", 9), "long": tiff("MM", 6, kind=4), "byte": tiff("II", 6, kind=1),
                   "two": tiff("II", 6, count=2)}.items():
    add(f"png-exif-{name}", png(coloured, 8, 2, before=chunk(b"eXIf", exif)))
add("png-exif-after-pixels", png(coloured, 8, 2, after=chunk(b"eXIf", tiff("MM", 8))))

palette = chunk(b"PLTE", random.integers(0, 256, 48).astype(numpy.uint8).tobytes())
for bits in (1, 2, 4, 8):
    add(f"png-grey-{bits}", png(random_samples(bits, 0), bits, 0))
    some = chunk(b"PLTE", palette[8:8 + 3 * min(16, 1 << bits)])
    add(f"png-palette-{bits}", png(random_samples(bits, 3, most=min(16, 1 << bits)), bits, 3, before=some))
add("png-rgb", png(coloured, 8, 2))
add("png-grey-alpha", png(random_samples(8, 4), 8, 4), within=1)
add("png-rgba", png(random_samples(8, 6), 8, 6), within=1)
alphas = chunk(b"tRNS", bytes(range(0, 240, 16)))
add("png-palette-alpha", png(random_samples(8, 3, most=16), 8, 3, before=palette + alphas), within=1)
transparent = chunk(b"tRNS", struct.pack(">3H", *map(int, coloured[1, 2])))
add("png-rgb-one-transparent", png(coloured, 8, 2, before=transparent))
for name, colour in {"grey": 0, "rgb": 2, "grey-alpha": 4, "rgba": 6}.items():
    samples = random_samples(16, colour)
    add(f"png-16-{name}", png(samples, 16, colour), of_numpy(samples, colour), within=1 if colour >= 4 else 0)
add("jpeg-grey", jpeg(large.convert("L")), within=2)
add("jpeg-rgb", jpeg(large), within=2)

lines = ",\n".join(json.dumps(case) for case in cases)
pathlib.Path(__file__).with_name("decoded.json").write_text(f"[\n{lines}\n]\n")
