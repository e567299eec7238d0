# examples/serving/fastapi_app.py: an archive behind HTTP: {"argument": nested list} → {"result0": nested list}
"""MODEL=model.holo HOLOGRAM_NUM_THREADS=1 uvicorn --workers 4 fastapi_app:app"""

import os

import hologram
import json_values
from fastapi import Depends, FastAPI, HTTPException, Request

method = hologram.load(os.environ["MODEL"]).methods[os.environ.get("METHOD", "forward")]
app = FastAPI()


async def body(request: Request):
    return await request.body()


@app.post("/predict")
def predict(text: bytes = Depends(body)):  # no coroutine: FastAPI calls it on one of its threads, and calls run beside each other
    try:
        return json_values.written(method, method.flat(json_values.read(method, text)))
    except (TypeError, ValueError, IndexError) as error:
        raise HTTPException(422, f"{type(error).__name__}: {error}") from error
