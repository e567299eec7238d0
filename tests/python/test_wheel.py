# tests/python/test_wheel.py: the wheel of this build, installed into fresh environments of every Python at hand
#
# HOLOGRAM_WHEEL=all also runs the tests of the SDK, of archives and of hologram_ffi in each of them, and torch.compile with the
# oldest and the newest PyTorch that is supported in environments of their own (5 GB each, removed afterwards).
# HOLOGRAM_WHEEL=aarch64 builds the library for AArch64 and runs those of the SDK under emulation with that wheel.
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy
import pytest

import hologram._core

ROOT = Path(__file__).resolve().parents[2]
MODULE = Path(hologram._core.__file__).resolve()
BUILD = MODULE.parents[2]
LIMIT = 19.5e6  # bytes
WHOLE = os.environ.get("HOLOGRAM_WHEEL") == "all"
CROSS = os.environ.get("HOLOGRAM_WHEEL") == "aarch64"
SYSROOT = ROOT / "build/sysroot-aarch64"

pytestmark = pytest.mark.skipif(
    not (BUILD / "CMakeCache.txt").is_file() or ".abi3." not in MODULE.name or "HOLOGRAM_SANITIZE:STRING=\n" not in
    (BUILD / "CMakeCache.txt").read_text(), reason="needs a build tree without sanitizers, with Python 3.11 or newer")


def run(*command, **options):
    """The output of a command; fails with both of its streams."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def pip(python, *arguments):
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "-q", *arguments)


def pythons():
    """Version to interpreter, of each CPython from 3.11 on that is found; not the one that runs the tests."""
    folders = [Path(p) for p in os.get_exec_path()] + sorted(Path.home().glob(".pyenv/versions/*/bin")) + [Path("/usr/local/bin")]
    found = {}
    for minor in range(11, 20):
        for folder in folders:
            path = folder / f"python3.{minor}"
            if minor == sys.version_info.minor or minor in found or not path.is_file():
                continue
            asked = subprocess.run([path, "-c", "import sys, venv; print(sys.implementation.name)"], capture_output=True, text=True)
            if asked.stdout == "cpython\n":
                found[minor] = path
    return {f"3.{minor}": path for minor, path in found.items()}


def environment(folder, python, **variables):
    """A fresh virtual environment; its interpreter, and variables without what points at this source tree."""
    run(python, "-m", "venv", "--without-pip", folder)
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH")}
    return folder / "bin" / "python", clean | {"HOLOGRAM_CACHE_DIR": str(folder / "cache")} | variables


def site_packages(python):
    return Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(ROOT / "tools/wheel.sh", BUILD, folder, env=os.environ | {"VENV": sys.prefix})
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment of this Python with the wheel; NumPy and PyTorch are those of the tests."""
    python, variables = environment(tmp_path_factory.mktemp("env") / "env", sys.executable)
    pip(python, "--no-deps", "--no-index", wheel)
    (site_packages(python) / "others.pth").write_text(f"{Path(numpy.__file__).parents[1]}\n")
    return python, variables


SMOKE = """
import sys
import numpy as np
import hologram, hologram_ffi
assert 'torch' not in sys.modules and sys.prefix in hologram._core.__file__, hologram._core.__file__
x = np.linspace(-2, 2, 1000, dtype=np.float32)
with hologram.Executor() as executor:
    a, b, c = executor.from_numpy(x), executor.from_numpy(x), executor.allocate(len(x))
    hologram.ops.vector_add(executor, a, b, c)
    assert (c.to_numpy() == x + x).all()
    assert memoryview(c).nbytes == x.nbytes
try:
    hologram.Executor('abacus')
    raise SystemExit('no error')
except ValueError as error:  # thrown in the library, caught in the module
    assert 'abacus' in str(error)
f = hologram.jit(lambda x: np.tanh(x * 2).sum())
assert abs(f(x[100:]) - np.tanh(x[100:] * 2).sum()) < 1e-2
loaded = hologram.load(sys.argv[1])
assert (loaded(np.array([[1, 2], [3, 4]], np.float32)) == [[0, 3], [0, 7]]).all()
print(hologram.__version__)
"""


def smoke(python, variables):
    assert run(python, "-I", "-c", SMOKE, ROOT / "examples/model.holo", env=variables).startswith(hologram.version())
    assert hologram.version() in run(python.parent / "hologram", "info", env=variables)


def check_contents(wheel, machine):
    names = zipfile.ZipFile(wheel).namelist()
    tag = rf"manylinux_2_\d+_{machine}"
    assert re.fullmatch(rf"hologram_compute-[\d.]+-cp311-abi3-{tag}(\.{tag})*\.whl", wheel.name)
    assert min(map(int, re.findall(r"manylinux_2_(\d+)", wheel.name))) <= 28  # auditwheel has looked
    assert wheel.stat().st_size <= LIMIT
    libraries = ["hologram/_core.abi3.so", *(f"hologram/lib/libhologram{part}.so.0" for part in ("", "_compiler", "_rt"))]
    assert sorted(n for n in names if re.search(r"\.so(\.|$)", n)) == libraries
    sources = {f"{p.relative_to(ROOT / 'python')}" for p in (ROOT / "python").rglob("*.py*")
               if "__pycache__" not in p.parts and p.suffix in (".py", ".pyi")}
    assert sources <= set(names)
    module = json.loads((ROOT / "js/package.json").read_text())["files"]
    assert {f"hologram/js/{n}" for n in [*module, "package.json"] if not n.endswith(".wasm")} <= set(names)
    assert {"hologram/include/hologram/hologram.h", "hologram/include/hologram/hologram.hpp", "hologram/py.typed"} <= set(names)


def test_contents(wheel):
    check_contents(wheel, platform.machine())


def test_stable_interface(wheel, tmp_path):
    pytest.importorskip("abi3audit")
    module = zipfile.ZipFile(wheel).extract("hologram/_core.abi3.so", tmp_path)
    run(sys.executable, "-m", "abi3audit", "--strict", "--assume-minimum-abi3", "3.11", module)
    # The auditor reads the imports: another version's macro is found.
    assert subprocess.run([sys.executable, "-m", "abi3audit", "--strict", "--assume-minimum-abi3", "3.5", module],
                          capture_output=True).returncode != 0


COMPILED = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval()
x = torch.randn(4, 8)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(model, backend='hologram')(x), model(x))
import hologram_torch
stats = hologram_torch.stats()
print(stats['graphs'], stats['fallback_ops'], torch.__version__)
"""


def test_with_pytorch(installed):
    torch = pytest.importorskip("torch")
    python, variables = installed
    smoke(python, variables)
    assert run(python, "-I", "-c", COMPILED, env=variables).strip() == f"1 {{}} {torch.__version__}"


@pytest.mark.skipif(not WHOLE, reason="HOLOGRAM_WHEEL=all: downloads PyTorch")
@pytest.mark.parametrize("torch_version", ["2.10", "2.15"])
@pytest.mark.parametrize("version", [f"3.{sys.version_info.minor}", *pythons()])
def test_pytorch_in_fresh_environments(version, torch_version, wheel, tmp_path):
    python, variables = environment(tmp_path / "env", pythons().get(version, sys.executable))
    try:
        pip(python, "--only-binary", ":all:", wheel, f"torch=={torch_version}.*")  # its dependencies too, as a user has them
        smoke(python, variables)
        assert run(python, "-I", "-c", COMPILED, env=variables).startswith(f"1 {{}} {torch_version}.")
    finally:
        shutil.rmtree(tmp_path / "env")


def test_c_library(installed, tmp_path):
    """C programs are built with the headers, the library and the CMake package in the wheel."""
    python, variables = installed
    prefix = run(python, "-I", "-c", "import hologram; print(hologram.__path__[0])", env=variables).strip()
    run("cmake", "-S", ROOT / "examples", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug")
    programs = ["example_vector_add", "example_run_archive", "example_run_archive_rt", "example_dlopen"]
    run("cmake", "--build", tmp_path, "--target", *programs)
    run("ctest", "--test-dir", tmp_path, "-R", "|".join(f"^{p}$" for p in programs))
    program = tmp_path / "by_hand"
    run("cc", "-std=c99", f"-I{prefix}/include", ROOT / "examples/vector_add.c", "-o", program, f"-L{prefix}/lib",
        "-l:libhologram.so.0", f"-Wl,-rpath,{prefix}/lib")
    assert run(program, env=variables) == "0 3 6 9 12 15 18 21 24 27\n"


def test_readme_from_pytorch_to_c(installed, tmp_path):
    """README's five commands; the first two are what `installed` did."""
    pytest.importorskip("torch")
    python, variables = installed
    (block,) = (b for b in re.findall(r"^```console\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S) if "make wheel" in b)
    steps = re.split(r"^\$ ", block, flags=re.M)[1:]
    assert len(steps) == 5
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    own = variables | {"HOLOGRAM_TRUSTED": str(tmp_path / "trusted"), "PATH": f"{python.parent}:{os.environ['PATH']}"}
    for step in steps[2:]:
        command, expected = re.fullmatch(r"(.*?(?:&&\n[^\n]*)*)\n(.*)", step, re.S).groups()
        assert run("bash", "-c", command, cwd=tmp_path, env=own) == expected
    maps = run("readelf", "-dW", tmp_path / "run_archive")
    assert "libhologram_rt.so.0" in maps and "libhologram.so" not in maps


@pytest.mark.parametrize("version", pythons())
def test_other_pythons(version, wheel, tmp_path):
    python, variables = environment(tmp_path / "env", pythons()[version])
    try:
        pip(python, "--only-binary", ":all:", "numpy>=1.25", "nanobind-backend", *(["pytest", "hypothesis", "ml_dtypes"] if WHOLE else []))
    except AssertionError as error:
        pytest.skip(f"no NumPy for Python {version}: {str(error)[-200:]}")
    pip(python, "--no-deps", "--no-index", wheel)
    smoke(python, variables)
    if WHOLE:
        tests = [ROOT / "tests/python" / f"test_{name}.py" for name in ("sdk", "archive", "ffi")]
        run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, env=variables, cwd=tmp_path)


def test_source_distribution(tmp_path, wheel):
    """A wheel made from the source distribution has what the one of this tree has, and its build configures."""
    pytest.importorskip("build")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", tmp_path, ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    tree = tmp_path / archive.name.removesuffix(".tar.gz")
    run(tree / "tools/wheel.sh", BUILD, tmp_path, env=os.environ | {"VENV": sys.prefix})
    (made,) = tmp_path.glob("*.whl")
    module = "hologram/js/hologram_rt.wasm"  # which `make wheel` builds
    assert set(zipfile.ZipFile(made).namelist()) - {module} == set(zipfile.ZipFile(wheel).namelist()) - {module}
    run("cmake", "-S", tree, "-B", tmp_path / "build", "-G", "Ninja", "-DSKBUILD=2", f"-DPython_EXECUTABLE={sys.executable}",
        "-DCMAKE_BUILD_TYPE=Release")


# --- for AArch64, by a cross compiler and under emulation

on_request = pytest.mark.skipif(not CROSS, reason="HOLOGRAM_WHEEL=aarch64 asks for it: the library is built once more")

@pytest.fixture(scope="module")
def wheel_aarch64(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aarch64")
    assert (ROOT / "build/release/hologram_kernelgen").is_file(), "make build makes the generator of the kernels that come with the library"
    variables = os.environ | {"VENV": sys.prefix}
    run(ROOT / "tools/build.sh", "aarch64", "_core", "hologram", "hologram_rt", "test_portable", env=variables)
    run(ROOT / "tools/wheel.sh", ROOT / "build/aarch64", folder, "aarch64", env=variables)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def emulated(wheel_aarch64, tmp_path_factory):
    """An environment of Debian's Python for arm64 with that wheel, on a processor of the first version of the instruction set."""
    folder = tmp_path_factory.mktemp("emulated")
    (interpreter,) = (p for p in SYSROOT.glob("usr/bin/python3.*") if re.fullmatch(r"python3\.\d+", p.name))
    (folder / "lib" / interpreter.name / "site-packages").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\n")
    (folder / "bin").mkdir()
    python = folder / "bin/python"
    # Programs that it starts by its own name are run by qemu too.
    python.write_text(f'#!/bin/sh\nexec qemu-aarch64 -L {SYSROOT} -cpu cortex-a53 -0 "$0" {interpreter} "$@"\n')
    python.chmod(0o755)
    pip(python, "--only-binary", ":all:", "numpy>=1.25", "nanobind-backend", "pytest", "hypothesis", "ml_dtypes")
    pip(python, "--no-deps", "--no-index", wheel_aarch64)
    return python, os.environ | {"HOLOGRAM_CACHE_DIR": str(folder / "cache")}


@on_request
def test_aarch64_contents(wheel_aarch64, tmp_path):
    check_contents(wheel_aarch64, "aarch64")
    libraries = [n for n in zipfile.ZipFile(wheel_aarch64).namelist() if ".so" in n]
    zipfile.ZipFile(wheel_aarch64).extractall(tmp_path, libraries)
    exports = {"_core.abi3.so": ["PyInit__core"], "libhologram.so.0": ["hologram_*", "_Z*N*8hologram*"],
               "libhologram_compiler.so.0": ["hologram_compiler_contents"], "libhologram_rt.so.0": ["hologram_*"]}
    for library in (tmp_path / name for name in libraries):
        assert "AArch64" in run("readelf", "-h", library)
        run(sys.executable, ROOT / "tools/check_module.py", "--portable", "--with", "libhologram.so.0", library, *exports[library.name])


@on_request
def test_aarch64_shims(wheel_aarch64):
    """tests/portable, whose functions are those that the libraries in the wheel hold."""
    run("qemu-aarch64", "-L", SYSROOT, ROOT / "build/aarch64/tests/test_portable")


@on_request
def test_aarch64_smoke(emulated):
    python, variables = emulated
    assert run(python, "-I", "-c", SMOKE, ROOT / "examples/model.holo", env=variables).startswith(hologram.version())
    assert json.loads(run(python, "-I", "-m", "hologram", "info", "--json", env=variables))["cpu"]["isa"] == "neon"


LOADED = """
import sys
import numpy as np
import hologram
given, trusted, untrusted = np.load(sys.argv[2]), hologram.load(sys.argv[1], trust=True), hologram.load(sys.argv[1], trust=False)
np.testing.assert_array_equal(trusted(given), untrusted(given))
np.testing.assert_allclose(trusted(given), np.load(sys.argv[3]), rtol=1e-5, atol=1e-6)
print(*(m.methods["forward"]._made.function().precompiled for m in (trusted, untrusted)))
"""


@on_request
def test_aarch64_machine_code_of_archives(emulated, tmp_path):
    """Made on this machine: the bits of what is compiled there. A C program takes it with libhologram_rt alone."""
    torch, hologram_torch = pytest.importorskip("torch"), pytest.importorskip("hologram_torch")
    python, variables = emulated
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.GELU(), torch.nn.Flatten(1),
                                torch.nn.Linear(16 * 49, 40), torch.nn.LayerNorm(40), torch.nn.Softmax(1)).eval()
    x = torch.randn(4, 3, 9, 9)
    hologram_torch.export(model, (x,), tmp_path / "m.holo", isas=["neon"])
    hologram.load(tmp_path / "m.holo").verify_code()
    numpy.save(tmp_path / "x.npy", x.numpy())
    numpy.save(tmp_path / "y.npy", model(x).detach().numpy())
    files = [tmp_path / name for name in ("m.holo", "x.npy", "y.npy")]
    assert run(python, "-I", "-c", LOADED, *files, env=variables) == "True False\n"
    hologram.load(ROOT / "examples/model.holo").write_with_targets(tmp_path / "c.holo", ["neon"])
    package = site_packages(python) / "hologram"
    run("aarch64-linux-gnu-gcc", "-std=c99", f"-I{package}/include", ROOT / "examples/run_archive.c", "-o", tmp_path / "program",
        f"-L{package}/lib", "-l:libhologram_rt.so.0", f"-Wl,-rpath,{package}/lib")
    # Whom the program trusts is the user's list's business.
    own = variables | {"HOLOGRAM_TRUSTED": str(tmp_path / "trusted")}
    run(python, "-I", "-m", "hologram", "archive", "trust", tmp_path / "c.holo", env=own)
    assert run("qemu-aarch64", "-L", SYSROOT, tmp_path / "program", tmp_path / "c.holo", env=own) == "0 3\n0 7\n"


@on_request
@pytest.mark.parametrize("name", ["sdk", "archive", "ffi"])
def test_aarch64_tests_of_the_sdk(emulated, name, tmp_path):
    python, variables = emulated
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", ROOT / f"tests/python/test_{name}.py", env=variables, cwd=tmp_path)
