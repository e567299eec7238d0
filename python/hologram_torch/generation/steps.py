# hologram_torch/generation/steps.py: a model and its static cache as a module whose methods are the steps of generation
import inspect

import torch


class Steps(torch.nn.Module):
    """prefill and decode write keys and values into the cache's own memory, at `position`, and give the logits of the last place,
    float32 [batch, vocabulary], and the most probable tokens, int64 [batch, 1].

    model: a causal language model of transformers, or a module whose forward(ids, positions int64 [n]) gives logits and which keeps
    its cache in buffers, as gpt-fast's models do. length: tokens that the cache holds."""

    def __init__(self, model, batch, length):
        super().__init__()
        self.model, self.batch, self.length = model, batch, length
        self.own_cache = not hasattr(getattr(model, "config", None), "get_text_config")
        pairs = []
        if not self.own_cache:
            from . import cache  # needs transformers

            taken = inspect.signature(model.forward).parameters
            self.cache_argument = "cache" if "cache" in taken else "past_key_values"  # as older versions call it
            pairs = cache.tensors(model, batch, length, self.cache_argument)
        for number, (keys, values) in enumerate(pairs):
            self.register_buffer(f"keys{number}", keys, persistent=False)
            self.register_buffer(f"values{number}", values, persistent=False)
        self.layers = len(pairs)
        device = next((t.device for t in model.parameters()), None)
        self.register_buffer("position", torch.zeros((), dtype=torch.int64, device=device), persistent=False)
        self.register_buffer("starts", torch.zeros(batch, dtype=torch.int64, device=device), persistent=False)
        self.train(model.training)

    def prefill(self, ids, starts):
        """ids: int64 [batch, n], from an empty cache; starts: int64 [batch], places on the left of each row to leave out."""
        self.starts.copy_(starts)
        return self._step(ids, torch.zeros_like(self.position))

    def decode(self, ids):
        """ids: int64 [batch, 1], behind all before."""
        return self._step(ids, self.position.clone())

    def _step(self, ids, position):
        count = ids.shape[1]
        places = torch.arange(count, device=ids.device) + position
        logits = self._own(ids, places) if self.own_cache else self._transformers(ids, places, position)
        self.position.copy_(position + count)
        logits = logits[:, -1].float()
        return logits, logits.argmax(-1, keepdim=True)

    def _own(self, ids, places):
        logits = self.model(ids, places)
        return getattr(logits, "logits", logits)

    def _transformers(self, ids, places, position):
        from . import cache

        pairs = [(getattr(self, f"keys{n}"), getattr(self, f"values{n}")) for n in range(self.layers)]
        seen = torch.arange(self.length, device=ids.device) >= self.starts[:, None]
        return self.model(
            input_ids=ids,
            attention_mask=seen.long(),
            position_ids=(places - self.starts[:, None]).clamp(min=0),
            use_cache=True,
            logits_to_keep=1,
            **{self.cache_argument: cache.over(pairs, position)},
        ).logits

    def sample(self, logits, temperature, top_k, top_p, uniform):
        """Tokens int64 [batch, 1] for numbers `uniform` in [0, 1), float32 [batch], of softmax(logits / temperature) among the top_k
        most probable (0: all), and of these among the fewest that come to top_p."""
        p = torch.softmax(logits / temperature, -1)
        count = torch.where(top_k > 0, top_k, logits.shape[-1])
        p = _above(p, torch.ones_like(p), count.to(torch.float32))
        p = _above(p, p, top_p * p.sum(-1, keepdim=True))
        total = p.cumsum(-1)
        found = (total > uniform[:, None] * total[:, -1:]) & (p > 0)
        first = found.to(torch.uint8).argmax(-1, keepdim=True)
        return torch.where(found.any(-1, keepdim=True), first, p.argmax(-1, keepdim=True))


def _above(p, weights, wanted):
    """p, with 0 in place of all below the largest value such that `weights` of what is not below it come to `wanted`.

    Found bit by bit, since floats that are not negative are ordered as their bits are: 30 passes, no sorting."""
    bits = p.view(torch.int32)
    limit = torch.zeros_like(bits[:, :1])
    step = limit + (1 << 29)  # 1.0 is below 1 << 30
    for _ in range(30):
        more = limit + step
        enough = torch.where(bits >= more, weights, 0.0).sum(-1, keepdim=True) >= wanted
        limit = torch.where(enough, more, limit)
        step = step >> 1
    return torch.where(bits >= limit, p, 0.0)
