# examples/serving/fastapi_app.py: an archive behind HTTP: {"argument": nested list} → {"result0": nested list}
"""MODEL=model.holo HOLOGRAM_NUM_THREADS=1 uvicorn --workers 4 fastapi_app:app"""

import os

import hologram
import numpy as np
from fastapi import FastAPI, HTTPException

method = hologram.load(os.environ["MODEL"]).methods[os.environ.get("METHOD", "forward")]
app = FastAPI()


@app.post("/predict")
def predict(body: dict):  # no coroutine: FastAPI calls it on one of its threads, and calls run beside each other
    try:
        arrays = [np.asarray(body[i["name"]], i["dtype"]) for i in method.inputs]
        results = method.flat(arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise HTTPException(422, f"{type(error).__name__}: {error}") from error
    return {r["name"]: a.tolist() for r, a in zip(method.results, results)}
