"""Recordings of a made-up sensor; byte order, sync and checksum differ by instance."""

import binascii
import json
import math
import struct

from rlvr_envs.tasks.making import folder, pick, text, whole
from rlvr_envs.tasks.task import FileSpec, Recipe

WORDS = ["ok", "door open", "état: 3", "温度", "", "🙂", "low battery", "x" * 200]


def _varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _zigzag(value):
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


class Writer:
    """Writes frames, good and bad, with noise between them."""

    def __init__(self, rng, form):
        self.rng, self.form = rng, form
        self.out = bytearray()

    def pack(self, code, *values):
        return struct.pack((">" if self.form["endian"] == "big" else "<") + code, *values)

    def bits(self, flags):
        data = bytearray((len(flags) + 7) // 8)
        for index, flag in enumerate(flags):
            place = index % 8 if self.form["bit_order"] == "least" else 7 - index % 8
            data[index // 8] |= flag << place
        return bytes(data)

    def payload(self, kind):
        rng = self.rng
        if kind == 1:
            return _zigzag(whole(rng, -900, 900))
        if kind == 2:
            word = pick(rng, WORDS).encode()
            return _varint(len(word)) + word
        if kind == 3:
            flags = [bool(whole(rng, 0, 1)) for _ in range(whole(rng, 0, 19))]
            return _varint(len(flags)) + self.bits(flags)
        return self.pack("d", pick(rng, [whole(rng, -10**6, 10**6) / 64, math.inf, math.nan, 0.0, -1e300]))

    def frame(self, body, *, damage=False):
        head = self.pack("H", len(body))
        crc = binascii.crc_hqx(head + body, self.form["crc_init"]) ^ (whole(self.rng, 1, 0xFFFF) if damage else 0)
        return bytes.fromhex(self.form["sync"]) + head + body + self.pack("H", crc)

    def good(self):
        kind, device = whole(self.rng, 1, 4), pick(self.rng, [1, 2, 7, 200])
        passed = pick(self.rng, [0, whole(self.rng, 1, 90), whole(self.rng, 100, 10**6), 2**40])
        self.out += self.frame(bytes([kind, device]) + _varint(passed) + self.payload(kind))

    def bad(self):
        rng, head = self.rng, bytes([pick(self.rng, [1, 2, 3, 4]), 1]) + _varint(5)
        bodies = [
            bytes([9, 1]) + _varint(5), head[:1], bytes([2, 1]) + b"\x05\x02\xff\xff", bytes([3, 1]) + b"\x05\x03\xff",
            bytes([4, 1]) + b"\x05" + bytes(7), bytes([1, 1]) + b"\x05" + b"\x80" * 11 + b"\x01", bytes([2, 1]) + b"\x05\x09abc",
            bytes([1, 1]) + b"\x05\x02\x00", b"", bytes([1, 1]) + b"\x05" + b"\xff" * 9 + b"\x02",
        ]
        made = self.frame(pick(rng, bodies), damage=whole(rng, 0, 3) == 0)
        return pick(rng, [made, self.frame(head + b"\x00", damage=True), made[: whole(rng, 2, max(2, len(made) - 1))]])

    def noise(self):
        data = pick(self.rng, [bytes(whole(self.rng, 0, 255) for _ in range(whole(self.rng, 1, 9))), bytes.fromhex(self.form["sync"])[:1] * 3, self.bad()])
        self.out += data

    def wrapped(self):
        """The head of a damaged frame, with a good one behind it."""
        self.out += bytes.fromhex(self.form["sync"]) + self.pack("H", pick(self.rng, [whole(self.rng, 30, 900), 60_000]))
        self.good()


class Reader:
    """Reads a body; whatever does not fit is a ValueError."""

    def __init__(self, body, form):
        self.body, self.form, self.at = body, form, 0

    def take(self, count):
        if self.at + count > len(self.body):
            raise ValueError("too short")
        self.at += count
        return self.body[self.at - count : self.at]

    def varint(self):
        value = 0
        for place in range(10):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if value >> 64:
                    raise ValueError("too large")
                return value
        raise ValueError("too long")

    def value(self, kind):
        if kind == 1:
            number = self.varint()
            return (number >> 1) ^ -(number & 1)
        if kind == 2:
            return self.take(self.varint()).decode()
        if kind == 3:
            return self.flags()
        if kind == 4:
            (number,) = struct.unpack((">" if self.form["endian"] == "big" else "<") + "d", self.take(8))
            return number if math.isfinite(number) else None
        raise ValueError("unknown kind")

    def flags(self):
        count = self.varint()
        data = self.take((count + 7) // 8)
        places = range(8) if self.form["bit_order"] == "least" else range(7, -1, -1)
        bits = [bool(byte >> place & 1) for byte in data for place in places]
        if any(bits[count:]):
            raise ValueError("unused bits")
        return bits[:count]


def _parse(data, at, form):
    sync, head = data[at : at + 2], data[at + 2 : at + 4]
    size = int.from_bytes(head, form["endian"])
    body, check = data[at + 4 : at + 4 + size], data[at + 4 + size : at + 6 + size]
    if sync != bytes.fromhex(form["sync"]) or len(head) + len(body) + len(check) != size + 4:
        raise ValueError("no frame")
    if binascii.crc_hqx(head + body, form["crc_init"]) != int.from_bytes(check, form["endian"]):
        raise ValueError("checksum")
    reader = Reader(body, form)
    kind, device = reader.take(1)[0], reader.take(1)[0]
    passed, value = reader.varint(), reader.value(kind)
    if reader.at != size:
        raise ValueError("left over")
    return size + 6, kind, device, passed, value


def _decode(data, form):
    """What has to be printed for a recording."""
    rows, times, heat, at, skipped = [], {}, {}, 0, 0
    while at < len(data):
        try:
            size, kind, device, passed, value = _parse(data, at, form)
        except ValueError:
            at, skipped = at + 1, skipped + 1
            continue
        times[device] = times.get(device, 0) + passed
        if kind == 1:
            value = heat[device] = heat.get(device, 0) + value
        rows.append({"offset": at, "device": device, "kind": kind, "time": times[device], "value": value})
        at += size
    return [*rows, {"frames": len(rows), "skipped": skipped, "devices": sorted(times)}]


def _recording(rng, form, frames, damaged):
    writer = Writer(rng, form)
    for _ in range(frames):
        chance = whole(rng, 0, 9)
        if damaged and chance < 2:
            writer.noise()
        elif damaged and chance == 2:
            writer.wrapped()
        else:
            writer.good()
    if damaged:
        writer.out += writer.frame(bytes([2, 1]) + _varint(5) + _varint(40) + b"a" * 40)[:-3]
    data = bytes(writer.out)
    return data, _decode(data, form)


def generate(rng, number):
    form = {
        "endian": pick(rng, ["big", "little"]), "bit_order": pick(rng, ["least", "most"]),
        "sync": pick(rng, ["a55a", "f00d", "7e81"]), "crc_init": pick(rng, [0xFFFF, 0x0000, 0x1D0F]),
    }
    data, rows = _recording(rng, form, 60, True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    sync_hex = f"{form['sync'][:2]} {form['sync'][2:]}"
    public = {"endian": form["endian"], "bit_order": form["bit_order"], "sync": form["sync"], "sync_hex": sync_hex, "crc_init": f"0x{form['crc_init']:04X}"}
    return Recipe(
        files=(folder("/app"), FileSpec("/data/sample.bin", data), text("/data/sample.jsonl", lines, user=0)),
        values=public,
        hidden={"form": form},
    )


def hidden(rng, recipe):
    cases = [{"hex": "", "rows": [{"frames": 0, "skipped": 0, "devices": []}]}]
    for frames, damaged in ((1, False), (40, False), (30, True), (300, True), (2500, True)):
        data, rows = _recording(rng, recipe.hidden["form"], frames, damaged)
        cases.append({"hex": data.hex(), "rows": rows})
    return {"cases": cases}
