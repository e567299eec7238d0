# examples/serving/litserve_app.py: an archive behind LitServe, several requests to a call
"""MODEL=model.holo HOLOGRAM_NUM_THREADS=1 python litserve_app.py"""

import os

import hologram
import litserve
import numpy as np
from fastapi import HTTPException
from hologram.serving import json_values


class Api(litserve.LitAPI):
    def setup(self, device):
        self.method = hologram.load(os.environ["MODEL"]).methods["forward"]

    def decode_request(self, request):
        return self._told(json_values.read, request)

    def predict(self, batch):  # of requests with one row size: their rows become one call
        sizes = [len(arrays[0]) for arrays in batch]
        results = self.method.flat([np.concatenate(parts) for parts in zip(*batch)])
        return list(zip(*(np.split(a, np.cumsum(sizes)[:-1]) for a in results)))

    def encode_response(self, results):
        return self._told(json_values.written, results)

    def _told(self, function, values):
        try:
            return function(self.method, values)
        except ValueError as error:
            raise HTTPException(422, str(error)) from error


if __name__ == "__main__":
    api = Api(max_batch_size=8, batch_timeout=0.002)
    litserve.LitServer(api, accelerator="cpu", workers_per_device=2).run(port=8000, generate_client_file=False)
