"""Writes into the folder given the files that torch_archive_test.cpp reads: good ones by torch.save, bad ones by hand."""
import collections
import os
import sys
import zipfile

import torch

os.chdir(sys.argv[1])


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(4, 3)
        self.head = torch.nn.Linear(3, 4, bias=False)
        self.embed.weight = self.head.weight


def values(dtype):
    return (torch.arange(6) - 2).to(dtype).view(2, 3)


DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
torch.save({name: values(getattr(torch, name)) for name in DTYPES}, "dtypes.bin")
with torch.no_grad():
    model = Tied()
    model.head.weight.copy_(torch.arange(12.).view(4, 3))
    torch.save(model.state_dict(), "state_dict.bin")
base = torch.arange(24.).view(4, 6)
torch.save(collections.OrderedDict(
    transposed=base.t(), columns=base[1:, 2:4], scalar=base[2, 3], last=base[3], empty=torch.zeros(0, 5),
    parameter=torch.nn.Parameter(torch.ones(2)), many=torch.arange(70000)), "strides.bin")
torch.save({f"layer.{i}": torch.full((3,), float(i)) for i in range(400)}, "many.bin")  # long memo instructions
torch.save({"a": torch.zeros(2)}, "old_format.bin", _use_new_zipfile_serialization=False)
torch.save([torch.zeros(2)], "list.bin")
torch.save({"model": {"a": torch.zeros(2)}}, "nested.bin")
torch.save({"a": torch.zeros(2), "epoch": 3}, "number.bin")
torch.save({"a": torch.zeros(2)}, "protocol4.bin", pickle_protocol=4)
torch.save({"a": torch.zeros(1).expand(1000)}, "expanded.bin")
torch.save({"a": torch.nn.Linear(1, 1)}, "module.bin")


class Evil:
    def __reduce__(self):
        return os.system, ("touch executed",)


torch.save({"a": Evil()}, "system.bin")

GOOD = zipfile.ZipFile("dtypes.bin")
RECORDS = {name: GOOD.read(name) for name in GOOD.namelist()}


def write(name, compression=zipfile.ZIP_STORED, replace=(), drop=()):
    """dtypes.bin with some records replaced or dropped."""
    with zipfile.ZipFile(name, "w", compression) as archive:
        for record, data in {**RECORDS, **dict(replace)}.items():
            if record not in drop:
                archive.writestr(record, data)


def pickled(old, new):
    """Its pickle with one change."""
    data = RECORDS["dtypes/data.pkl"]
    assert data.count(old) >= 1, old
    return {"dtypes/data.pkl": data.replace(old, new, 1)}.items()


write("rewritten.bin")
write("compressed.bin", compression=zipfile.ZIP_DEFLATED)
write("short_storage.bin", replace={"dtypes/data/0": RECORDS["dtypes/data/0"][:-4]}.items())
write("long_storage.bin", replace={"dtypes/data/0": RECORDS["dtypes/data/0"] + b"\0" * 4}.items())
write("no_storage.bin", drop=("dtypes/data/0",))
write("no_pickle.bin", drop=("dtypes/data.pkl",))
write("big_endian.bin", replace={"dtypes/byteorder": b"big"}.items())
write("little_endian.bin", replace={"dtypes/byteorder": b"little"}.items())
write("cut_pickle.bin", replace={"dtypes/data.pkl": RECORDS["dtypes/data.pkl"][:-30]}.items())
SHAPE, STRIDES = b"K\x02K\x03\x86", b"K\x03K\x01\x86"  # (2, 3) and (3, 1)
write("beyond.bin", replace=pickled(SHAPE, b"K\x02K\x04\x86"))
write("far_stride.bin", replace=pickled(STRIDES, b"\x8a\x08" + b"\xff" * 7 + b"\x7f" + b"K\x01\x86"))
write("negative_stride.bin", replace=pickled(STRIDES, b"J\xff\xff\xff\xffK\x01\x86"))
write("huge_shape.bin", replace=pickled(SHAPE, b"\x8a\x08" + b"\0" * 7 + b"\x40" + b"K\x04\x86"))
write("missing_stride.bin", replace=pickled(STRIDES, b"K\x03\x85"))
write("twice.bin", replace=pickled(b"X\x07\0\0\0float64", b"X\x07\0\0\0float32"))
for name, data in {"underflow": b"\x80\x02R.", "no_mark": b"\x80\x02t.", "no_memo": b"\x80\x02h\x07.", "self": b"\x80\x02}q\0X\1\0\0\0ah\0s.",
                   "long_string": b"\x80\x02}X\xff\xff\xff\x7fa.", "empty": b"", "deep": b"\x80\x02)" + b"\x85" * 1000000 + b".",
                   "two_values": b"\x80\x02}}.", "eval": b"\x80\x02c__builtin__\neval\nX\1\0\0\0" + b"1\x85R."}.items():
    write(f"pickle_{name}.bin", replace={"dtypes/data.pkl": data}.items())
whole = open("dtypes.bin", "rb").read()
for size in (0, 1, 21, 22, 100, len(whole) // 2, len(whole) - 23, len(whole) - 1):
    open(f"cut_{size if size < 200 else 'late_' + str(len(whole) - size)}.bin", "wb").write(whole[:size])
assert not os.path.exists("executed")
