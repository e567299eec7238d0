# examples/serving/fastapi_app.py: the application of `hologram serve`, with a route of one's own
"""MODEL=model.holo HOLOGRAM_NUM_THREADS=1 uvicorn --workers 4 fastapi_app:app"""

import os

from hologram.serving import application

app = application(os.environ["MODEL"])  # a FastAPI: /predict, /health, /metrics and the others


@app.get("/")
async def about():
    return {"model": os.path.basename(os.environ["MODEL"])}
