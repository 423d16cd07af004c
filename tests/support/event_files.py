"""TensorBoard's event files as a test reads them: records with their checksums, the few fields of their
messages, and the rule by which a start of a run replaces what earlier ones wrote."""
import dataclasses
import struct

VERSION, SUMMARY, SESSION_LOG = 3, 5, 7  # fields of an event


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The whole records of a file; the last one of a killed run may be torn."""
    at = 0
    while at + 12 <= len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at:at + 8]), f"a wrong checksum of a length at {at}"
        if at + 16 + length > len(data):
            return
        record = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length) == (masked(record),), f"a wrong checksum at {at}"
        yield record
        at += 16 + length


def varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return number, at


def fields(message):
    """(number of the field, its value) of each field of a message."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(message, at)
        elif kind == 2:
            length, at = varint(message, at)
            value, at = message[at:at + length], at + length
        else:
            size, form = {1: (8, "<d"), 5: (4, "<f")}[kind]
            (value,), at = struct.unpack(form, message[at:at + size]), at + size
        yield key >> 3, value


@dataclasses.dataclass
class Event:
    time: float
    step: int
    version: str = ""
    start: bool = False
    values: dict = dataclasses.field(default_factory=dict)  # by tag: a number, a text, or the fields of an image


def value_of(message):
    found = dict(fields(message))
    tag = found[1].decode()
    if 2 in found:
        return tag, found[2]
    if 4 in found:
        return tag, dict(fields(found[4]))
    tensor, metadata = dict(fields(found[8])), dict(fields(found[9]))
    assert tensor[1] == 7 and dict(fields(metadata[1]))[1] == b"text", (tensor, metadata)
    return tag, tensor[8].decode()


def event_of(record):
    found = dict(fields(record))
    event = Event(found[1], found[2], found.get(VERSION, b"").decode(), found.get(SESSION_LOG) == b"\x08\x01")
    for field, value in fields(found.get(SUMMARY, b"")):
        assert field == 1
        tag, content = value_of(value)
        assert tag not in event.values, tag
        event.values[tag] = content
    return event


def event_files(run):
    return sorted((run / "tb").iterdir())


def curves(run):
    """The values by tag and step, as TensorBoard shows them. A step that comes twice is a failure."""
    shown = {}
    for file in event_files(run):
        events = [event_of(record) for record in records(file.read_bytes())]
        assert events[0].version == "brain.Event:2" and events[1].start, events[:2]
        for event in events:
            if event.start:
                shown = {tag: {step: value for step, value in values.items() if step < event.step}
                         for tag, values in shown.items()}
            for tag, value in event.values.items():
                assert event.step not in shown.setdefault(tag, {}), f"{tag} has step {event.step} twice"
                shown[tag][event.step] = value
    return shown
