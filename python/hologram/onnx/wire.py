# hologram/onnx/wire.py: the messages of ONNX files, read from protobuf's wire format
# mypy: ignore-errors
"""Messages have the names of the package `onnx`'s own, which may stand in their place: nothing here imports it, and what is large (the
bytes of tensors) is a view of the file until it is copied to where it stays. Fields that no code of this folder reads are passed over.
Format: https://protobuf.dev/programming-guides/encoding; numbers of fields: onnx.proto."""

import struct

import numpy as np


class Message:
    """Fields that are there are attributes of the instance, others have their default from the class."""

    fields = {}  # by number: (name, how it is read, whether it repeats)
    kept = False  # whether `raw` has the message's bytes, apart from the file's

    def HasField(self, name):  # noqa: N802  (as onnx's messages have it)
        return name in self.__dict__


def add(cls, field, number, kind, repeats=False):
    """One more field."""
    cls.fields[number] = (field, kind, repeats)
    setattr(cls, field, () if repeats else kind() if isinstance(kind, type) else {"str": "", "bytes": b""}.get(kind, 0))


def message(name, /, kept=False, **fields):
    """A class. fields: name=(number, kind), a kind in a list where the field repeats."""
    cls = type(name, (Message,), {"fields": {}, "kept": kept})
    for field, (number, kind) in fields.items():
        add(cls, field, number, *((kind[0], True) if isinstance(kind, list) else (kind,)))
    return cls


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _signed(value):
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


_FIXED = {"float": ("<f", 5), "double": ("<d", 1)}  # kinds: as they are read, and the wire type


def parse(cls, data, at, end, into=None):
    """The message in data[at:end]; into: one of which this is another part. ValueError, IndexError: no such message."""
    if cls.kept and into is None:
        data, at, end = bytes(data[at:end]), 0, end - at
    found = cls() if into is None else into
    if cls.kept:
        found.raw = data
    values, fields = found.__dict__, cls.fields
    while at < end:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = _varint(data, at - 1)
        if tag < 8:
            raise ValueError("a field without a number")
        wire, field = tag & 7, fields.get(tag >> 3)
        if wire == 2:
            size = data[at]
            at += 1
            if size > 127:
                size, at = _varint(data, at - 1)
            stop = at + size
            if stop > end:
                raise ValueError("a field beyond its message")
            if field is not None:
                _long(values, field, data, at, stop)
            at = stop
        elif wire == 0:
            value, at = (data[at], at + 1) if data[at] < 128 else _varint(data, at)
            if field is not None and field[1] == "int":
                _put(values, field, _signed(value) if value > 127 else value)
        elif wire in (1, 5):
            stop = at + (8 if wire == 1 else 4)
            if field is not None and field[1] in _FIXED and _FIXED[field[1]][1] == wire:
                _put(values, field, struct.unpack_from(_FIXED[field[1]][0], data, at)[0])
            at = stop
        else:
            raise ValueError(f"wire type {wire}")
    if at != end:
        raise ValueError("a field beyond its message")
    return found


def _put(values, field, value):
    name, _, repeats = field
    if not repeats:
        values[name] = value
    elif name in values:
        values[name].append(value)
    else:
        values[name] = [value]


def _long(values, field, data, at, stop):
    """A field with a length: text, bytes, a message, or packed numbers."""
    name, kind, repeats = field
    if kind == "str":
        _put(values, field, str(data[at:stop], "utf-8"))
    elif kind == "bytes":
        _put(values, field, data[at:stop])
    elif kind in _FIXED:
        if repeats:
            values.setdefault(name, []).extend(np.frombuffer(data[at:stop], _FIXED[kind][0]).tolist())
    elif kind != "int":
        _put(values, field, parse(kind, data, at, stop, None if repeats else values.get(name)))
    elif repeats:
        numbers = values.setdefault(name, [])
        while at < stop:
            value, at = (data[at], at + 1) if data[at] < 128 else _varint(data, at)
            numbers.append(_signed(value) if value > 127 else value)
        if at != stop:
            raise ValueError("a number beyond its field")


Entry = message("Entry", key=(1, "str"), value=(2, "str"))
OperatorSet = message("OperatorSet", domain=(1, "str"), version=(2, "int"))
Dimension = message("Dimension", dim_value=(1, "int"), dim_param=(2, "str"))
Shape = message("Shape", dim=(1, [Dimension]))
TensorType = message("TensorType", elem_type=(1, "int"), shape=(2, Shape))
Type = message("Type", tensor_type=(1, TensorType))
Element = message("Element", elem_type=(1, Type))  # of a sequence or an optional
add(Type, "sequence_type", 4, Element)
add(Type, "optional_type", 9, Element)
ValueInfo = message("ValueInfo", name=(1, "str"), type=(2, Type))
Tensor = message(
    "Tensor", dims=(1, ["int"]), data_type=(2, "int"), float_data=(4, ["float"]), int32_data=(5, ["int"]), string_data=(6, ["bytes"]),
    int64_data=(7, ["int"]), name=(8, "str"), raw_data=(9, "bytes"), double_data=(10, ["double"]), uint64_data=(11, ["int"]),
    external_data=(13, [Entry]), data_location=(14, "int"),
)  # fmt: skip
Sparse = message("Sparse")
Metadata = message("Metadata", metadata_props=(9, [Entry]))
Attribute = message(
    "Attribute", name=(1, "str"), f=(2, "float"), i=(3, "int"), s=(4, "bytes"), t=(5, Tensor), floats=(7, ["float"]), ints=(8, ["int"]),
    strings=(9, ["bytes"]), tensors=(10, [Tensor]), tp=(14, Type), type=(20, "int"), ref_attr_name=(21, "str"),
)  # fmt: skip
Node = message(
    "Node", kept=True, input=(1, ["str"]), output=(2, ["str"]), name=(3, "str"), op_type=(4, "str"), attribute=(5, [Attribute]),
    domain=(7, "str"), overload=(8, "str"),
)  # fmt: skip
Node.metadata_props = property(lambda self: parse(Metadata, self.raw, 0, len(self.raw)).metadata_props)
Graph = message(
    "Graph", node=(1, [Node]), name=(2, "str"), initializer=(5, [Tensor]), input=(11, [ValueInfo]), output=(12, [ValueInfo]),
    sparse_initializer=(15, [Sparse]),
)  # fmt: skip
add(Attribute, "g", 6, Graph)
Function = message(
    "Function", kept=True, name=(1, "str"), input=(4, ["str"]), output=(5, ["str"]), attribute=(6, ["str"]), node=(7, [Node]),
    opset_import=(9, [OperatorSet]), domain=(10, "str"), attribute_proto=(11, [Attribute]), overload=(13, "str"),
)  # fmt: skip
Model = message("Model", graph=(7, Graph), opset_import=(8, [OperatorSet]), functions=(25, [Function]))


def model(data):
    """The Model in bytes or in a view of a file. ValueError: there is none."""
    try:
        return parse(Model, data, 0, len(data))
    except (IndexError, struct.error):
        raise ValueError("it ends within a field") from None
    except RecursionError:
        raise ValueError("graphs within graphs without end") from None


# Kinds of attributes and of elements, by their numbers in onnx.proto.
FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS, TENSORS = range(1, 10)
TYPE_PROTO = 13
EXTERNAL = 1  # of Tensor.data_location
TYPES = (
    "UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64",
    "COMPLEX64", "COMPLEX128", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4", "INT4", "FLOAT4E2M1",
    "FLOAT8E8M0", "UINT2", "INT2",
)  # fmt: skip
