# tests/torch/test_docs.py: the examples of README and docs run as they stand
import os
import pathlib
import re

import forks
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def examples():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for n, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)):
            yield pytest.param(code, id=f"{page.name}-{n}")


@pytest.mark.parametrize("code", list(examples()))
def test_example_runs(code, tmp_path):
    env = dict(os.environ, HOLOGRAM_STRICT="1", HOLOGRAM_CACHE_DIR=str(tmp_path / "cache"))
    done = forks.run(code, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr[-2000:]


def test_pages_link_to_files_that_exist():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


# Rows of README's comparison, and tests that fail where the column of Hologram is not true.
SHOWN = {
    "state": ["python/test_version.py test_version_is_the_one_in_cmake"],
    "reads": [
        "torch/test_zoo.py test_inference",
        "python/test_onnx.py test_as_many_cases_pass_as_the_file_says",
        "python/test_jit.py test_agrees_with_numpy"],
    "compiles without a C++ compiler": ["torch/test_docs.py test_no_program_is_called_to_compile"],
    "training": ["torch/test_zoo.py test_training_step", "torch/test_training.py test_the_loss_falls_as_in_eager"],
    "other sizes without compiling again": [
        "torch/test_zoo.py test_sizes_change_without_recompiling",
        "python/test_onnx.py test_sizes_that_the_model_names_change_without_compiling",
        "python/test_jit.py test_one_kernel_and_one_graph_for_all_sizes"],
    "runs without Python": [
        "torch/test_rt.py test_is_small_and_holds_no_compiler",
        "torch/test_rt.py test_a_c_program_needs_nothing_else",
        "torch/test_web.py test_search_in_a_browser"],
    "a file for every processor": ["torch/test_precompiled.py test_every_instruction_set_of_this_machine"],
    "the same bits on all of them": [
        "conformance/graphs_test.cpp HaveTheInterpretersBitsOnEveryInstructionSet",
        "torch/test_web.py test_node_gives_the_bits_of_this_machine"],
    "int8, int4": [
        "torch/test_quantize.py test_a_model_computes_the_same_in_eager_compiled_and_frozen",
        "python/test_onnx_quantized.py test_float_models_get_weights_of_few_bits"],
    "generation": ["torch/test_generation.py test_greedy_tokens_are_eagers", "torch/test_generation.py test_an_archive_generates_alone"],
    "shows where time goes": [
        "torch/test_page.py test_a_browser_shows_it_without_an_error",
        "torch/test_page.py test_compiled_frozen_archived_and_jitted_calls_are_profiled"],
    "GPUs": ["torch/test_cuda_models.py test_models_of_the_zoo_run_nothing_on_the_host", "torch/test_webgpu.py test_models_of_the_zoo"],
    "systems": ["torch/test_web.py test_search_in_a_browser"],
    "a server": ["python/test_serve.py test_the_command", "python/test_serve.py test_a_restart_loses_nothing"],
}  # fmt: skip


def test_each_row_of_the_comparison_is_shown_by_tests():
    table = (ROOT / "README.md").read_text().partition("| | Hologram | Inductor |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| ([^|]*[^| ]) \|", table, re.M)[1:] == list(SHOWN)
    for row, tests in SHOWN.items():
        for file, name in map(str.split, tests):
            assert re.search(rf"(def|,) {name}[()]", (ROOT / "tests" / file).read_text()), f"{row}: no test {name} in tests/{file}"


def test_no_program_is_called_to_compile(tmp_path):
    code = """
import subprocess, sys
import hologram_torch, torch
def refuse(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        raise AssertionError(f"{event} of {arguments}")
sys.addaudithook(refuse)
x = torch.randn(5, 8)
assert torch.allclose(torch.compile(lambda x: torch.softmax(x @ x.T, -1), backend="hologram")(x), torch.softmax(x @ x.T, -1), atol=1e-5)
assert hologram_torch.stats()["kernel_cache_misses"] > 0
"""
    env = dict(os.environ, HOLOGRAM_STRICT="1", HOLOGRAM_CACHE_DIR=str(tmp_path), PATH="")
    done = forks.run(code, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
