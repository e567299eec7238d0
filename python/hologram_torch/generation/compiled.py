# hologram_torch/generation/compiled.py: the steps of generation by torch.compile, with NumPy arrays in and out
import types
from collections.abc import Sequence

import torch

from .. import backend
from .steps import Steps


class Compiled:
    """Steps of a model, as hologram.generation.tokens takes them. As a context: tokens of one prompt are made in it."""

    def __init__(self, model, batch, length, options):
        self.steps = Steps(model, batch, length)
        self.batch, self.length = batch, length
        self._prefill, self._decode, self._sample = (_Step(getattr(self.steps, name), options) for name in ("prefill", "decode", "sample"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._decode.forget()
        self._sample.forget()

    @torch.no_grad()
    def prefill(self, ids, starts):
        self._decode.forget()
        ids, starts = torch.from_numpy(ids), torch.from_numpy(starts)
        if ids.shape[1] == 1:
            ids, starts = ids.repeat(1, 2), starts + 1
        ids = ids.clone(memory_format=torch.contiguous_format)
        torch._dynamo.mark_dynamic(ids, 1, min=2, max=self.length)
        return _Arrays(self._prefill(ids, starts))

    def decode(self, ids):
        if torch.is_grad_enabled():
            with torch.no_grad():
                return self.decode(ids)
        return _Arrays(self._decode.again(torch.from_numpy(ids)))

    @torch.no_grad()
    def sample(self, logits, temperature, top_k, top_p, uniform):
        numbers = (torch.tensor(n) for n in (temperature, top_k, top_p))
        return self._sample.again(torch.from_numpy(logits), *numbers, torch.from_numpy(uniform)).numpy()


class _Arrays(Sequence):
    """Results as NumPy arrays, made when they are asked for: greedy steps take the tokens alone."""

    def __init__(self, results):
        self._results = results

    def __len__(self):
        return len(self._results)

    def __getitem__(self, number):
        return self._results[number].numpy(force=True)


class _Step:
    """A method by torch.compile: one graph, whose results are the method's own."""

    def __init__(self, method, options):
        self._compiled = torch.compile(_own_code(method), backend=self._backend, fullgraph=True, dynamic=False, options=options)
        self._seen = self._graph = None

    def __call__(self, *inputs):
        return self._compiled(*inputs)

    def again(self, *inputs):
        """A call that takes everything but these tensors, whose sizes stay the same, as the call before did. Dynamo's guards of
        a model read all of its modules, which the weights have driven out of the caches: 0.3 ms a step of GPT-2 and more."""
        if self._graph is not None:
            return self._graph(inputs)
        self._seen = None
        results = self._compiled(*inputs)
        if self._seen is not None:
            self._graph = _rebound(*self._seen, inputs, results)
        self._seen = None
        return results

    def forget(self):
        """The next call looks at the model again."""
        self._graph = None

    def _backend(self, module, examples, **choices):
        graph = backend.hologram(module, examples, **choices)

        def run(*arguments):
            results = graph(*arguments)
            self._seen = graph, arguments, results
            return results

        return torch._dynamo.disable(run)


def _rebound(graph, arguments, made, inputs, results):
    """A function of other inputs in place of those that a graph was called with, where it made just the results: else Dynamo's code
    has something to do behind it, as where a module replaces one of its tensors."""
    alone = isinstance(results, torch.Tensor)
    wanted = (results,) if alone else tuple(results)
    places = [[i for i, argument in enumerate(arguments) if argument is x] for x in inputs]
    if [*map(id, wanted)] != [*map(id, made)] or any(len(found) != 1 for found in places):
        return None
    graph, arguments = getattr(graph, "_torchdynamo_orig_callable", graph), list(arguments)

    def call(inputs):
        for (place,), x in zip(places, inputs):
            arguments[place] = x
        made = graph(*arguments)
        return made[0] if alone else tuple(made)

    return call


def _own_code(method):
    """The method with a code object of its own: Dynamo counts recompilations by code, and each model is one."""
    function = method.__func__
    own = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__, closure=function.__closure__)
    return types.MethodType(own, method.__self__)
