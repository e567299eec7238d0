#!/usr/bin/env python3
# bench/conformance/onnx_nodes.py: the cases of onnx.backend.test, in worker processes
"""Runs ONNX's own cases through hologram.from_onnx and compares with the outputs that come with them.

    python bench/conformance/onnx_nodes.py                    # all cases
    python bench/conformance/onnx_nodes.py 'test_resize*'     # some; what went wrong is shown
    python bench/conformance/onnx_nodes.py --expect           # rewrite onnx_expected.txt: read the diff before committing it
    python bench/conformance/onnx_nodes.py --table            # passed of all, by operator, as docs/onnx.md has them

Status of a case: native (right, by graphs alone), numpy (right, NumPy computed a part), refused (NotImplementedError), wrong.
"""

import argparse
import collections
import fnmatch
import multiprocessing
import os
import random
import sys
import warnings
from pathlib import Path

import numpy as np

EXPECTED = Path(__file__).with_name("onnx_expected.txt")
PASSED = ("native", "numpy")
RANK = ("wrong", "refused", "numpy", "native")


def cases():
    """By name: (model, [(inputs, outputs)], rtol, atol); models of several operators are named kind/name."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {c.name: (c.model, c.data_sets, c.rtol, c.atol) for c in collect_testcases(None)} | model_cases()


def model_cases():
    """As cases(), of whole models, whose files come with the package; read when they are run."""
    import onnx.backend.test
    from onnx.backend.test.loader import load_model_tests

    found = {}
    for kind in ("simple", "pytorch-operator", "pytorch-converted"):
        for c in load_model_tests(kind=kind):
            found[f"{kind}/{c.name}"] = (Path(c.model_dir), None, c.rtol, c.atol)
    for path in (Path(onnx.backend.test.__file__).parent / "data/light").glob("*.onnx"):
        found[f"light/{path.stem}"] = (path, None, 1e-3, 1e-7)
    return found


def _read(folder):
    """(model, [(inputs, outputs)]) of a folder, or of a network without weights, whose input ONNX's own runner makes so."""
    import onnx

    if folder.suffix == ".onnx":
        model = onnx.load(folder)
        given = {t.name for t in model.graph.initializer}
        (image,) = [v for v in model.graph.input if v.name not in given]
        shape = [d.dim_value for d in image.type.tensor_type.shape.dim]
        x = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
        result = onnx.load_tensor(folder.with_name(f"{folder.stem}_output_0.pb"))
        return model, [([x], [result])]
    model = onnx.load(folder / "model.onnx")
    kinds = [[v.type for v in values] for values in (model.graph.input, model.graph.output)]
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        pair = []
        for name, types in zip(("input", "output"), kinds):
            files = sorted(data.glob(f"{name}_*.pb"), key=lambda f: int(f.stem.rpartition("_")[2]))
            pair.append([_parse(file.read_bytes(), kind) for file, kind in zip(files, types)])
        sets.append(tuple(pair))
    return model, sets


def _parse(data, kind):
    import onnx

    holder = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(kind.WhichOneof("value"), onnx.TensorProto)
    value = holder()
    value.ParseFromString(data)
    return value


def value_of(x):
    """NumPy's value of what a case holds."""
    import onnx

    if isinstance(x, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(x)
    if isinstance(x, onnx.OptionalProto):
        return onnx.numpy_helper.to_optional(x)
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def check(want, got, rtol, atol):
    """AssertionError unless the result is as the case says, dtypes and shapes too."""
    if isinstance(want, (list, tuple)):
        assert isinstance(got, list) and len(want) == len(got), f"a sequence of {len(want)}, got {got!r}"
        for w, g in zip(want, got):
            check(w, g, rtol, atol)
        return
    if want is None:
        assert got is None, f"nothing, got {got!r}"
        return
    want = np.asarray(want)
    assert want.dtype == got.dtype, f"dtype {got.dtype}, expected {want.dtype}"
    assert want.shape == got.shape, f"shape {got.shape}, expected {want.shape}"
    if want.dtype == object:  # strings
        assert want.tolist() == got.tolist(), f"{got.tolist()}, expected {want.tolist()}"
        return
    if want.dtype.kind not in "biufc":  # ml_dtypes'
        want, got = want.astype(np.float32), got.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def run(case):
    """(status, what is wrong) of a case."""
    import hologram

    model, sets, rtol, atol = case
    drawn = not isinstance(model, Path) and any(n.op_type in ("Bernoulli", "RandomUniformLike") for n in model.graph.node)
    try:
        if isinstance(model, Path):
            model, sets = _read(model)
        function = hologram.from_onnx(model.SerializeToString())
        for inputs, outputs in sets:
            results = function.flat([value_of(x) for x in inputs])
            assert len(results) == len(outputs), f"{len(results)} results, expected {len(outputs)}"
            for want, got in zip(outputs, results):
                want = value_of(want)
                if drawn:  # the standard names no generator: 0s and 1s of this type
                    assert set(np.unique(got)) <= {0, 1}
                    want = got.astype(want.dtype).reshape(want.shape)
                check(want, got, rtol, atol)
    except NotImplementedError as error:
        return "refused", str(error)
    except Exception as error:  # whatever goes wrong is this case's
        return "wrong", f"{type(error).__name__}: {error}".strip()
    return ("numpy" if function.stats()["fallback_ops"] else "native"), ""


_cases = None


def _run_named(name):
    warnings.simplefilter("ignore")
    return name, run(_cases[name])


def run_all(names=None, jobs=None):
    """By name: (status, what is wrong), in so many processes."""
    global _cases
    _cases = _cases or cases()
    names = list(_cases) if names is None else [n for n in names if n in _cases]  # other versions of onnx have others
    with multiprocessing.get_context("fork").Pool(jobs or min(os.cpu_count(), 2)) as pool:
        return dict(pool.imap_unordered(_run_named, names, chunksize=8))


def read_expected():
    lines = EXPECTED.read_text(encoding="utf-8").splitlines()
    return {name: status for status, name in (line.split()[:2] for line in lines if line and not line.startswith("#"))}


def regressions(found, expected):
    """What is worse than the file says. A case that it does not know must not be wrong."""
    worse = []
    for name, (status, message) in sorted(found.items()):
        before = expected.get(name, "refused")
        if RANK.index(status) < RANK.index(before):
            worse.append(f"{name}: {status}, was {before}: {message[:300]}")
    return worse


def sample(names, seed, count):
    return random.Random(seed).sample(sorted(names), min(count, len(names)))


def write_expected(found):
    import onnx

    lines = [f"# bench/conformance/onnx_expected.txt: what onnx_nodes.py found with onnx {onnx.__version__}, written by --expect"]
    for name, (status, message) in sorted(found.items()):
        reason = message.partition(": ")[2][:90].split("\n")[0].strip() if status not in PASSED else ""
        lines.append(f"{status:<8} {name} {reason}".rstrip())
    EXPECTED.write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(found):
    """By operator: passed natively, passed, of so many; those that pass whole are one line."""
    rows = collections.defaultdict(list)
    for name, (status, _) in found.items():
        if "/" in name:
            continue
        ops = {node.op_type for node in _cases[name][0].graph.node}
        rows[next(iter(ops)) if len(ops) == 1 else "several operators"].append(status)
    whole = sorted(op for op, statuses in rows.items() if all(s in PASSED for s in statuses))
    print(f"whole: {', '.join(whole)}")
    for op, statuses in sorted(rows.items()):
        if op not in whole:
            print(f"| {op} | {sum(s in PASSED for s in statuses)} of {len(statuses)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--expect", action="store_true")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    global _cases
    _cases = cases()
    names = [n for n in _cases if not args.patterns or any(fnmatch.fnmatch(n, p) for p in args.patterns)]
    found = run_all(names, args.jobs)
    for name, (status, message) in sorted(found.items()):
        if status not in PASSED and not args.table:
            print(f"{status:<8} {name} {message[:200]!r}")
    print(dict(collections.Counter(status for status, _ in found.values())), "of", len(found))
    if args.table:
        table(found)
    if args.expect:
        write_expected(found)
        return 0
    worse = regressions(found, read_expected()) if EXPECTED.exists() else []
    print("\n".join(worse))
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
