# tests/torch/test_sharing.py: results share memory exactly where eager's do
import pytest
import same_memory
import torch

from harness import BACKEND, backend_stats, compile_fresh


@torch.library.custom_op("hologram_test::next", mutates_args=())
def following(x: torch.Tensor) -> torch.Tensor:
    return x + 1


following.register_fake(torch.empty_like)
following.register_autograd(lambda ctx, grad: grad, setup_context=lambda ctx, inputs, output: None)

def complexes(a):
    z = torch.complex(a, a)
    return (z, z[0], z.real, z.imag, torch.view_as_real(z), z.conj(), z * 1, z.real * 1, z.clone(), torch.view_as_real(z).clone(),
            z.conj().imag, z.expand(2, 4, 4).conj().real)  # fmt: skip


RESULTS = {
    "copies": lambda a: (
        a, a.clone(), a.contiguous(), a.mT.contiguous(), a.to(torch.float32, copy=True), torch.empty_like(a).copy_(a), torch.cat([a]),
        torch.nn.functional.pad(a, (0, 0)), a * 1, a / 1, a - 0, a + 0,
    ),
    "whole numbers": lambda a: ((i := a.to(torch.int64)), i.clone(), i * 1, i + 0, i - 0, i // 1, i | 0, i.contiguous()),
    "a copy alone": lambda a: a.mT.contiguous(), "saved as it lies": lambda a: torch.cholesky_solve(a, a),
    "image": lambda a: ((i := a.view(2, 2, 2, 2).contiguous(memory_format=torch.channels_last)), torch.channel_shuffle(i, 1),
                        torch.channel_shuffle(a.view(2, 2, 2, 2), 2), torch.nn.functional.interpolate(i, scale_factor=1)),
    "itself": lambda a: (a, a, a.detach(), a.view(a.shape), a.data),
    "again": lambda a: ((b := a.mT), b, a.detach()[1:], a.expand(2, 4, 4), b[0]),
    "unsafe": lambda a: (*a.unsafe_chunk(2), *torch.unsafe_split_with_sizes(a, [1, 3], 1), a),
    "parts": lambda a: (a[0], a[:2], a[1:][1:], a[:, 1:3].mT),
    "whole and parts": lambda a: (a, a[:2], a.mT, a.view(-1), a.unsqueeze(0), a.expand(2, 4, 4), a.diagonal(), a.unfold(0, 2, 1)),
    "several": lambda a: (*a.split(2), *(a + 1).chunk(2, dim=1), *(a + 2).unbind()),
    "strided": lambda a: (a.as_strided((2, 2), (1, 4), 3), a), "written": lambda a: (a[0].add_(1), a),
    "a written half": lambda a: ((h := a[a.shape[0] // 2 :]), a.mul_(2))[0],
    "bits of a half": lambda a: a.view(torch.int32).tensor_split(2)[1],
    "signs": lambda a: (a, (n := torch._neg_view(a)), n, n[1:], torch._neg_view(n), a[2:]), "a sign": torch._neg_view,
    "past a part": lambda a: a[:, 1:].as_strided((2, 3), (1, 2), 3) * 1, "written signs": lambda a: (torch._neg_view(a).add_(1), a)[0],
    "dtypes": lambda a: (a.view(torch.int32)[1:], a.view(torch.int16), a, a[:1].expand(4, 4).view(torch.int16)),
    "broken": lambda a: ((b := (a + 1).mT), torch._dynamo.graph_break() or b.expand(2, 4, 4)), "complex": complexes,
}  # fmt: skip
SOURCES = {"ours": torch.sin, "PyTorch's": torch.linalg.matrix_exp, "a user's": following, "an argument": lambda x: x}
CASES = [(made, how, gradients) for made in SOURCES for how in RESULTS for gradients in (False, True)
         if not (gradients and (how == "written" or made == "a user's"))]  # eager refuses to write into what it has saved


def argument(gradients):
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(1)) + 4 * torch.eye(4)
    return [x.requires_grad_(gradients) * 1]


@pytest.mark.parametrize("made,how,gradients", CASES, ids=[f"{m} {h}{' gradients' * g}" for m, h, g in CASES])
def test_memory_is_shared_as_in_eager(made, how, gradients):
    function = lambda x: RESULTS[how](SOURCES[made](x))
    for dynamic in (False, True):
        compiled = compile_fresh(function, dynamic=dynamic)
        eager, actual, found = same_memory.compare(function, compiled, lambda: argument(gradients), dynamic=dynamic)
        assert backend_stats()["failed_graphs"] == 0
        assert not found
        for a, e in zip(*map(torch.utils._pytree.tree_leaves, (actual, eager)), strict=True):
            if e.dtype not in (torch.int16, torch.int32):  # the bits of floats, whose last ones may differ
                torch.testing.assert_close(a, e)


@pytest.mark.parametrize("function, make", [
    (lambda x: x.add_(1) * 2, lambda: (torch.arange(4) * (2 + 1j)).conj().imag),  # with a turned sign
    (lambda x: (setattr(x, "data", torch.zeros(3)), x)[1], lambda: torch.ones(4, 4)),  # with data of another size
])  # fmt: skip
def test_arguments_are_written_as_they_are(function, make):
    eager, actual, found = same_memory.compare(function, compile_fresh(function), lambda: [make()])
    assert not found and all(map(torch.equal, actual, eager))


def test_detached_results_take_no_part_in_what_follows():
    """They are no views for autograd of a result that wants gradients later."""
    whole, part, apart = compile_fresh(lambda x: ((a := x.sin()), a.detach(), a.unsafe_chunk(2)[1]))(torch.randn(4))
    whole.requires_grad_()
    assert not part.requires_grad and not apart.requires_grad
    part.zero_()
    assert whole._version == 1 and not whole.any()
    apart.zero_()
    assert whole._version == 1


@pytest.mark.filterwarnings("ignore:An output with one or more elements")
def test_results_are_resized_as_in_eager():
    """By what follows the graph, which Dynamo ends there, and by the caller."""
    function = lambda x: ((v := x * 2), w := x + 1, w[2:], torch.abs(torch.cat([x, x]), out=v))
    (a, b, c, _), (v, w, part, _) = function(x := torch.randn(6)), compile_fresh(function)(x)
    for t, u in ((a, b), (v, w)):
        t.untyped_storage().resize_(0)
        u.resize_(9)[6:] = 0
    assert torch.equal(w, b) and torch.equal(part, c) and v.shape == a.shape == (12,)
    part.fill_(5)
    assert w.tolist()[2:6] == [5] * 4


@pytest.mark.skipif(BACKEND != "hologram", reason="of hologram_torch")
def test_what_decompositions_give_is_no_operand():
    from hologram_torch.capture import decomp

    x = torch.ones(4)
    for operands in ((x,), ((), {"x": x}), ([x],)):
        assert not decomp._apart([x[1:]], operands)[0]._is_view() and decomp._apart((x,), operands)[0] is not x


@pytest.mark.skipif(BACKEND != "hologram", reason="of hologram_torch.freeze")
@pytest.mark.parametrize("how", ["copies", "whole and parts"])
def test_frozen_models(how):
    import hologram_torch

    class Model(torch.nn.Module):
        def forward(self, x):
            return RESULTS[how](torch.linalg.matrix_exp(x.sin()))

    with torch.no_grad():
        assert not same_memory.compare(Model(), hologram_torch.freeze(Model(), (x := torch.eye(4) * 3,)), lambda: [x])[2]
