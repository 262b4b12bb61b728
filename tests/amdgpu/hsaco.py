# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads a code object of an AMD GPU: its kernels by their metadata (msgpack) and their descriptors.

`hsaco.py FILE` prints them.
"""

import json
import pathlib
import struct
import sys

# EF_AMDGPU_MACH of LLVM's "User Guide for AMDGPU Backend".
MACHINES = {0x3F: "gfx90a", 0x4C: "gfx942", 0x4F: "gfx950", 0x41: "gfx1100", 0x46: "gfx1101", 0x47: "gfx1102"}
MACHINES |= {0x44: "gfx1103", 0x43: "gfx1150", 0x4A: "gfx1151", 0x55: "gfx1152", 0x48: "gfx1200", 0x4E: "gfx1201"}
NOTE_METADATA = 32
DYNSYM, NOTE = 11, 7


class Msgpack:
    """A reader for the part of the format that metadata use."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, form):
        return struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]

    def text(self, n):
        return self.take(n).decode()

    def pairs(self, n):
        return {self.value(): self.value() for _ in range(n)}

    def value(self):
        tag = self.number("B")
        if tag < 0x80 or tag >= 0xE0:
            return tag if tag < 0x80 else tag - 256
        if tag < 0x90:
            return self.pairs(tag & 15)
        if tag < 0xA0:
            return [self.value() for _ in range(tag & 15)]
        if tag < 0xC0:
            return self.text(tag & 31)
        if tag in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[tag]
        forms = {0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q"}
        if tag in forms:
            return self.number(forms[tag])
        if tag in (0xD9, 0xDA, 0xDB):
            return self.text(self.number("BHI"[tag - 0xD9]))
        if tag in (0xDC, 0xDD):
            return [self.value() for _ in range(self.number("HI"[tag - 0xDC]))]
        if tag in (0xDE, 0xDF):
            return self.pairs(self.number("HI"[tag - 0xDE]))
        raise ValueError(f"msgpack tag {tag:#x}")


class Hsaco:
    def __init__(self, data):
        self.data = data
        if data[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", data, 18)[0] != 224:
            raise ValueError("no code object")
        self.flags = struct.unpack_from("<I", data, 48)[0]
        self.abi = data[8]
        self.gpu = MACHINES.get(self.flags & 0xFF)
        start, (size, count) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HH", data, 58)
        # name, type, flags, address, offset, size, link, info, align, entry size
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
        self.symbols = self.read_symbols()
        self.metadata = self.read_metadata()
        self.kernels = self.metadata["amdhsa.kernels"]

    def read_symbols(self):
        """Entries of the dynamic table: name -> (address, size)."""
        out = {}
        for s in (s for s in self.sections if s[1] == DYNSYM):
            names = self.sections[s[6]][4]
            for at in range(s[4], s[4] + s[5], 24):
                name, _, _, address, size = struct.unpack_from("<IBxHQQ", self.data, at)
                end = self.data.index(b"\0", names + name)
                out[self.data[names + name : end].decode()] = (address, size)
        return out

    def read_metadata(self):
        for s in (s for s in self.sections if s[1] == NOTE):
            at = s[4]
            while at < s[4] + s[5]:
                name, size, kind = struct.unpack_from("<III", self.data, at)
                text = at + 12 + (name + 3) // 4 * 4
                if kind == NOTE_METADATA:
                    return Msgpack(self.data[text : text + size]).value()
                at = text + (size + 3) // 4 * 4
        raise ValueError("no metadata")

    def bytes_at(self, address, n):
        for s in self.sections:
            if s[3] and s[3] <= address and address + n <= s[3] + s[5]:
                return self.data[s[4] + address - s[3] :][:n]
        raise ValueError(f"nothing at {address:#x}")

    def descriptor(self, kernel):
        """The 64 bytes that the command processor reads, as numbers."""
        address, size = self.symbols[kernel[".symbol"]]
        d = self.bytes_at(address, 64)
        shared, scratch, kernarg = struct.unpack_from("<III", d, 0)
        entry = struct.unpack_from("<q", d, 16)[0]
        rsrc3, rsrc1, rsrc2, properties = struct.unpack_from("<IIIH", d, 44)
        return {
            "size": size,
            "shared": shared,
            "scratch": scratch,
            "kernarg": kernarg,
            "entry": address + entry,
            "vgpr_blocks": rsrc1 & 63,
            "uses_scratch": rsrc2 & 1,
            "wave32": properties >> 10 & 1,
            "accumulators_at": 4 * ((rsrc3 & 63) + 1),
        }


if __name__ == "__main__":
    code = Hsaco(pathlib.Path(sys.argv[1]).read_bytes())
    print(code.gpu, "ABI", code.abi)
    for k in code.kernels:
        print(json.dumps(k, indent=1), code.descriptor(k))
