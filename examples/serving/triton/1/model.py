# examples/serving/triton/1/model.py: an archive in Triton's Python backend; model.holo lies beside this file
import os

import hologram
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        folder = os.path.join(args["model_repository"], args["model_version"])
        self.method = hologram.load(os.path.join(folder, "model.holo")).methods["forward"]

    def execute(self, requests):
        return [self._one(request) for request in requests]

    def _one(self, request):
        try:
            given = [pb.get_input_tensor_by_name(request, i["name"]).as_numpy() for i in self.method.inputs]
            results = self.method.flat([np.ascontiguousarray(a) for a in given])
        except (AttributeError, TypeError, ValueError, IndexError) as error:
            return pb.InferenceResponse(output_tensors=[], error=pb.TritonError(str(error)))
        return pb.InferenceResponse([pb.Tensor(r["name"], a) for r, a in zip(self.method.results, results)])
