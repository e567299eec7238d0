# examples/serving/ray_app.py: an archive as a deployment of Ray Serve, a core to each replica
"""MODEL=model.holo serve run ray_app:app"""

import os

import hologram
from hologram.serving import json_values
from ray import serve
from starlette.responses import JSONResponse


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 1, "runtime_env": {"env_vars": {"HOLOGRAM_NUM_THREADS": "1"}}})
class Predictor:
    def __init__(self, path):
        self.method = hologram.load(path).methods["forward"]

    def predict(self, body):
        return json_values.written(self.method, self.method.flat(json_values.read(self.method, body)))

    async def __call__(self, request):
        try:
            return self.predict(await request.body())
        except (TypeError, ValueError, IndexError) as error:
            return JSONResponse({"detail": str(error)}, 422)


app = Predictor.bind(os.path.abspath(os.environ["MODEL"]))
