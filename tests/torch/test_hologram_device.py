# tests/torch/test_hologram_device.py: device="hologram" of PyTorch
"""A process has one device for extensions, for good, so each of these runs in a process of its own: device_checks.py in one."""

import json

import device_checks
import forks
import lazy_checks
import opinfo
import pytest

CHECKS = [name for checks in (device_checks, lazy_checks) for name in vars(checks) if name.startswith("check_")]


@pytest.fixture(scope="module")
def found():
    done = forks.run("import device_checks, json; print(json.dumps(device_checks.run()))", env=environment())
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def environment():
    import os
    import sys

    return dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), HOLOGRAM_LOG="error")


@pytest.mark.parametrize("name", CHECKS)
def test_on_the_device(found, name):
    assert found[name] is None, found[name]


def test_gradients_need_the_device_before_the_first_backward():
    done = forks.run(
        "import torch, hologram_torch\n" "torch.ones(1, requires_grad=True).backward()\n" "hologram_torch.device.use()\n"
        "print((torch.ones(2, device='hologram') + 1).tolist())", env=environment() | {"HOLOGRAM_LOG": "warning"},
    )  # fmt: skip
    assert done.stdout.strip() == "[2.0, 2.0]" and "has no gradients" in done.stderr, done.stderr[-2000:]


def test_a_backend_without_the_hosts_memory_is_refused():
    import hologram_torch

    with pytest.raises(ValueError, match="device.use: backend: one of cpu, interp is expected, got 'null'"):
        hologram_torch.device.use("null")


@pytest.mark.parametrize("how", [{"mode": "inference"}, {"mode": "training", "lazy": True}, {"errors": True}, {"outs": True}], ids=str)
def test_operators_of_the_database(how):
    """Beside eager's on the host, calls that it refuses and those with out= too; whole by hand: opinfo.py --device hologram."""
    results = opinfo.run(device="hologram", sampled=20, jobs=1, **how)
    print(opinfo.summary(results))
    bad = {name: r["message"] for name, r in results.items() if r["status"] in opinfo.BAD and "dense tensors alone" not in r["message"]}
    assert not bad
    assert sum(r["status"] in opinfo.PASSED for r in results.values()) >= (10 if "errors" in how else 7 if "outs" in how else 19)
