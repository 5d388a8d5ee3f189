"""Safetensors files without the package of that name. A file is untrusted: its header is checked before it is used."""
from __future__ import annotations

import json
import os
import pathlib
import struct
import tempfile
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

import torch

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
           "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
           "BOOL": torch.bool}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_LONGEST_HEADER = 100_000_000
Path = Union[str, "os.PathLike[str]"]


def _size(dtype: torch.dtype) -> int:
    return torch.empty((), dtype=dtype).element_size()


def _unique_keys(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice in the header")
    return result


def _is_count(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x >= 0


def _check_entry(name: str, entry: Any, data_size: int) -> None:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name}: the entry must have dtype, shape and data_offsets")
    if entry["dtype"] not in _DTYPES:
        raise ValueError(f"{name}: dtype {entry['dtype']} is not supported")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or not all(map(_is_count, shape)):
        raise ValueError(f"{name}: shape {shape} is not a list of sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise ValueError(f"{name}: data_offsets {offsets} are not two offsets")
    bytes_needed = _size(_DTYPES[entry["dtype"]])
    for size in shape:
        bytes_needed *= size
    begin, end = offsets
    if end - begin != bytes_needed or end > data_size:
        raise ValueError(f"{name}: {bytes_needed} bytes expected, data_offsets are {offsets} of {data_size}")


def load_file(path: Path) -> Dict[str, torch.Tensor]:
    """All tensors of a file by name. Raises ValueError that names the file and the tensor at fault."""
    path = pathlib.Path(path)
    data = bytearray(path.read_bytes())
    try:
        if len(data) < 8:
            raise ValueError(f"only {len(data)} bytes")
        (length,) = struct.unpack("<Q", data[:8])
        if length > min(len(data) - 8, _LONGEST_HEADER):
            raise ValueError(f"the header should have {length} bytes, the file has {len(data)}")
        header = json.loads(data[8:8 + length].decode("utf-8"), object_pairs_hook=_unique_keys)
        if not isinstance(header, dict):
            raise ValueError("the header is not a JSON object")
        header.pop("__metadata__", None)
        end_of_previous = 0
        for name, entry in header.items():
            _check_entry(name, entry, len(data) - 8 - length)
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            if entry["data_offsets"][0] != end_of_previous:
                raise ValueError(f"{name}: the data overlaps or leaves a gap")
            end_of_previous = entry["data_offsets"][1]
    except ValueError as error:
        raise ValueError(f"{path}: not a valid safetensors file: {error}") from None
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        dtype = _DTYPES[entry["dtype"]]
        if begin == end:
            tensors[name] = torch.empty(entry["shape"], dtype=dtype)
            continue
        count = (end - begin) // _size(dtype)
        # A copy: offsets need not be aligned, and tensors should not keep the whole file alive.
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=dtype, count=count)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def save_file(tensors: Mapping[str, torch.Tensor], path: Path, metadata: Optional[Dict[str, str]] = None) -> None:
    """Writes tensors, widest dtype first and then by name; the file appears under its name when it is complete."""
    path = pathlib.Path(path)
    header: Dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    offset = 0
    for name in order:
        x = tensors[name]
        if x.dtype not in _NAMES:
            raise ValueError(f"{path}: {name} has dtype {x.dtype}, which safetensors files do not hold")
        size = x.numel() * x.element_size()
        header[name] = {"dtype": _NAMES[x.dtype], "shape": list(x.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for name in order:
                x = tensors[name].detach().cpu().contiguous().reshape(-1)
                file.write(x.view(torch.uint8).numpy().tobytes() if x.numel() else b"")
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
