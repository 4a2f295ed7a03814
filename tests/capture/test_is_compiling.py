"""Who is told that it is being compiled. The program and its libraries are; torch's own modules, which would compute
something else then, are not."""

from __future__ import annotations

import sys
import types

import pytest
import torch
import torch._dynamo
from torch import nn

import vesta


def padded(left_aligned=True):
    mask = torch.zeros(3, 5, dtype=torch.bool)
    mask[0, 3:] = True
    mask[1, 4:] = True
    if not left_aligned:
        mask[2, 1] = True
    return mask


def encoder(layers=2, norm=False, **options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(16) if norm else None, **options).eval()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = encoder()

    def forward(self, x, mask):
        return self.encoder(x * 2, src_key_padding_mask=mask).sum(1) + 1


def assert_equal(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert found.stride() == expected.stride() and found.requires_grad == expected.requires_grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("left_aligned", [True, False])
@pytest.mark.parametrize("model", [encoder(), encoder(1, norm=True), encoder(mask_check=False)])
def test_a_padding_mask_in_inference(model, left_aligned, mode):
    x, mask = torch.randn(3, 5, 16), padded(left_aligned)
    compiled = vesta.compile(model)
    with mode():
        for _ in range(3):
            expected = model(x, src_key_padding_mask=mask)
            assert_equal(compiled(x, src_key_padding_mask=mask), expected)


@pytest.mark.filterwarnings("ignore")
def test_padded_rows_are_zeros_as_in_eager():
    compiled = vesta.compile(encoder())
    with torch.no_grad():
        for _ in range(2):
            found = compiled(torch.randn(3, 5, 16), src_key_padding_mask=padded())
            assert bool((found[0, 3:] == 0).all()) and bool((found[0, :3] != 0).any())


@pytest.mark.filterwarnings("ignore")
def test_a_padding_mask_in_a_program():
    model = Classifier().eval()
    compiled = vesta.compile(model)
    with torch.no_grad():
        for mask in (padded(), padded(False), torch.zeros(3, 5, dtype=torch.bool), padded()):
            x = torch.randn(3, 5, 16)
            assert_equal(compiled(x, mask), model(x, mask))


def test_a_padding_mask_in_training():
    def gradients(model):
        model.train()
        model(x, padded()).sum().backward()
        return [p.grad for p in model.parameters()]

    x = torch.randn(3, 5, 16)
    torch.manual_seed(3)
    plain = Classifier()
    for m in plain.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
        if isinstance(m, nn.MultiheadAttention):
            m.dropout = 0.0
    expected = gradients(plain)
    plain.zero_grad()
    for found, want in zip(gradients(vesta.compile(plain)), expected, strict=True):
        torch.testing.assert_close(found, want, rtol=1e-3, atol=1e-5)


ASKED = [torch.compiler.is_compiling, vesta.is_compiling, torch._dynamo.external_utils.is_compiling]


@pytest.mark.parametrize("asks", ASKED)
def test_a_program_is_told_so(asks):
    def program(x):
        return x + 1 if asks() else x - 1

    x = torch.zeros(2)
    assert vesta.compile(program, fullgraph=True)(x).tolist() == [1.0, 1.0]
    assert program(x).tolist() == [-1.0, -1.0]


def module_that_asks(name):
    module = types.ModuleType(name)
    source = "import torch\ndef f(x):\n    return x + 1 if torch.compiler.is_compiling() else x - 1\n"
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    sys.modules[name] = module
    return module


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("torch.nn.modules.made_up", False),
        ("torch.distributed.made_up", False),
        ("torch.made_up", False),
        ("torch.optim.made_up", False),
        ("torch.autograd.made_up", True),
        ("torch_made_up", True),
        ("transformers_made_up.torch.nn", True),
    ],
)
def test_by_the_module_that_asks(name, told):
    module = module_that_asks(name)
    try:
        function = module.f
        x = torch.zeros(1)
        assert vesta.compile(lambda x: function(x))(x).item() == (1 if told else -1)
        assert vesta.compile(function)(x).item() == (1 if told else -1)
    finally:
        del sys.modules[name]


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD])
def test_optimizers(kind):
    def train(step):
        p = torch.ones(3, requires_grad=True)
        optimizer = kind([p], lr=0.1)
        for _ in range(3):
            step(optimizer, p)
        return p

    def step(optimizer, p):
        p.grad = p.detach() * 2
        optimizer.step()

    torch.testing.assert_close(train(vesta.compile(step)), train(step))


def test_a_subclass_of_torchs_module_is_torchs_code():
    class Own(nn.TransformerEncoder):
        def forward(self, *args, **kwargs):
            return super().forward(*args, **kwargs) * (2 if torch.compiler.is_compiling() else 3)

    model = encoder()
    own = Own.__new__(Own)
    own.__dict__ = model.__dict__
    x = torch.randn(3, 5, 16)
    with torch.no_grad():
        found = vesta.compile(own)(x, src_key_padding_mask=padded())
        assert bool((found[0, 3:] == 0).all())
        # The graph breaks at nested tensors, so the program is told no, too.
        torch.testing.assert_close(found / 3, model(x, src_key_padding_mask=padded()), rtol=1e-4, atol=1e-5)
        assert not vesta.explain(own)(x).breaks
        torch.testing.assert_close(vesta.compile(own)(x) / 2, model(x), rtol=1e-4, atol=1e-5)


def test_the_answers_of_one_call_agree():
    def asks(x):
        return [torch.compiler.is_compiling() for _ in range(2)]

    def program(x, breaks):
        answers = asks(x)
        x = x + 1
        if breaks:
            print(end="")
        return answers + asks(x) + [torch.compiler.is_compiling()]

    compiled = vesta.compile(program)
    for _ in range(3):
        assert compiled(torch.ones(2), False) == [True] * 5
        assert compiled(torch.ones(2), True) == [False] * 5


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam])
def test_steps_of_optimizers(kind, foreach):
    """torch.optim asks in several functions, and some of them run eager after a graph break."""

    def step(compile):
        torch.manual_seed(0)
        parameters = [nn.Parameter(torch.randn(3, 3)) for _ in range(8)]
        optimizer = kind(parameters, foreach=foreach)
        step = compile(optimizer.step)
        for k in range(4):
            for p in parameters:
                p.grad = torch.full_like(p, k + 1.0)
            step()
        return parameters

    for found, expected in zip(step(vesta.compile), step(lambda f: f), strict=True):
        torch.testing.assert_close(found, expected)
