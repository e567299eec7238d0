# examples/serving/ray_app.py: an archive as a deployment of Ray Serve, a core to each replica
"""MODEL=model.holo serve run ray_app:app"""

import os

import hologram
import numpy as np
from ray import serve


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 1, "runtime_env": {"env_vars": {"HOLOGRAM_NUM_THREADS": "1"}}})
class Predictor:
    def __init__(self, path):
        self.method = hologram.load(path).methods["forward"]

    def predict(self, body):
        arrays = [np.asarray(body[i["name"]], i["dtype"]) for i in self.method.inputs]
        return {r["name"]: a.tolist() for r, a in zip(self.method.results, self.method.flat(arrays))}

    async def __call__(self, request):
        return self.predict(await request.json())


app = Predictor.bind(os.path.abspath(os.environ["MODEL"]))
