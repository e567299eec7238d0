# tests/torch/test_halves.py: operators on bfloat16 and float16 round where eager does
import pytest
import torch
from harness import BACKEND

HALVES = (torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_division_to_whole_numbers(dtype, mode):
    torch.manual_seed(0)
    x, y = (torch.randn(20000) * 20).to(dtype), torch.randn(20000).to(dtype)
    compiled = torch.compile(lambda x, y: torch.div(x, y, rounding_mode=mode), backend=BACKEND)
    for by in (y, 0.37):
        torch.testing.assert_close(compiled(x, by), torch.div(x, by, rounding_mode=mode), rtol=0, atol=0)


def test_the_next_number():
    x = torch.tensor([1.0, -1.0, 0.0, -0.0, 2.0, 3.0]).bfloat16()
    y = torch.tensor([0.0, 0.0, 5.0, -5.0, 2.0, 7.0]).bfloat16()
    compiled = torch.compile(torch.nextafter, backend=BACKEND)
    torch.testing.assert_close(compiled(x, y), torch.nextafter(x, y), rtol=0, atol=0)
