"""Caches that grow, rotary tables, generation loops."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.capture.case import case, maker, t


class Cache:
    def __init__(self):
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        self._seen = 0

    def update(self, key, value, layer):
        if layer == 0:
            self._seen += key.shape[-2]
        if len(self.keys) <= layer:
            self.keys.append(key)
            self.values.append(value)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], key], dim=-2)
            self.values[layer] = torch.cat([self.values[layer], value], dim=-2)
        return self.keys[layer], self.values[layer]

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, layer):
        return self.keys[layer], self.values[layer]

    def __iter__(self):
        for layer in range(len(self)):
            yield self.keys[layer], self.values[layer]

    @property
    def length(self):
        return self._seen


class StaticCache(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, size, 4))
        self.position = 0

    def update(self, key):
        end = self.position + key.shape[-2]
        self.keys[:, :, self.position : end] = key
        self.position = end
        return self.keys[:, :, :end]


def rotate_half(x):
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-b, a), dim=-1)


class Attention(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8, bias=False) for _ in range(4))

    def forward(self, x, cos, sin, cache=None):
        batch, length, _ = x.shape
        q, k, v = (part(x).view(batch, length, 2, 4).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if cache is not None:
            k, v = cache.update(k, v, self.layer)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        return self.o(out.transpose(1, 2).reshape(batch, length, -1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(Attention(i) for i in range(2))
        self.register_buffer("inverse", 1.0 / (100.0 ** (torch.arange(0, 4, 2) / 4)), persistent=False)

    def forward(self, ids, cache=None):
        x = self.embed(ids)
        past = cache.length if cache is not None else 0
        positions = torch.arange(past, past + ids.shape[1])
        angles = torch.cat([positions[:, None] * self.inverse] * 2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            x = x + layer(F.rms_norm(x, (8,)), cos, sin, cache)
        return x @ self.embed.weight.T, cache


def model():
    torch.manual_seed(5)
    return Model().eval()


def ids(*shape):
    return (torch.arange(math.prod(shape)) * 3 % 11).reshape(shape)


@maker(lambda: (ids(1, 4),), lambda: (ids(2, 6),), lambda: (ids(2, 6), Cache()))
def decoder():
    return model()


def generated(f, prompt, steps):
    cache, token, out = Cache(), prompt, []
    with torch.no_grad():
        for _ in range(steps):
            logits, cache = f(token, cache)
            token = logits[:, -1].argmax(-1, keepdim=True)
            out.append(token)
    return torch.cat(out, 1), cache.length, len(cache), cache.keys[0].shape


@maker(lambda: (ids(1, 3), 6), lambda: (ids(2, 5), 4), drive=generated)
def generation_with_a_growing_cache():
    return model()


@maker(lambda: (ids(1, 3), 5), lambda: (ids(1, 4), 3))
def whole_generation_compiled():
    net = model()

    @torch.no_grad()
    def generate(prompt, steps):
        cache = Cache()
        token, out = prompt, []
        for _ in range(steps):
            logits, cache = net(token, cache)
            token = logits[:, -1].argmax(-1, keepdim=True)
            out.append(token)
            if token.max().item() == 10:
                break
        return torch.cat(out, dim=1), list(cache)

    return generate


@maker(lambda: (t(1, 2, 1, 4),))
def static_cache():
    cache = StaticCache(8)
    return lambda key: (cache.update(key), cache.position)


@maker(lambda: (3,), lambda: (7,), lambda: (4,))
def rotary_table_that_grows():
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.longest = 0

        def forward(self, length):
            if length > self.longest:
                self.longest = length
                self.register_buffer("cos", torch.arange(length).float().cos(), persistent=False)
            return self.cos[:length]

    return Table()


@case(lambda: ([t(2)], t(2)), lambda: ([t(2), t(2), t(2)], t(2)))
def list_that_grows(cache, x):
    cache.append(x)
    total = torch.stack(cache).sum(0)
    if len(cache) > 3:
        cache.pop(0)
    return total, cache


@maker(lambda: (t(2),))
def window_of_results():
    window: list[torch.Tensor] = []

    def f(x):
        window.append(x * (len(window) + 1))
        del window[:-3]
        return sum(window), len(window)

    return f


@maker(lambda: (ids(1, 2), 3), lambda: (ids(1, 3), 2))
def beam_search():
    net = model()

    def f(prompt, width):
        beams = [(0.0, prompt)]
        for _ in range(2):
            grown = []
            for score, tokens in beams:
                logits, _ = net(tokens)
                chances, best = F.log_softmax(logits[0, -1], -1).topk(width)
                for chance, token in zip(chances.tolist(), best.tolist(), strict=True):
                    grown.append((score + chance, torch.cat([tokens, torch.tensor([[token]])], 1)))
            beams = sorted(grown, key=lambda beam: -beam[0])[:width]
        return [tokens for _, tokens in beams], round(beams[0][0], 3)

    return f


@maker(lambda: (t(4, 3),))
def mixture_of_experts():
    torch.manual_seed(2)
    gate = nn.Linear(3, 2)
    experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def f(x):
        chosen = gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(experts):
            at = torch.where(chosen == i)[0]
            if at.numel() > 0:
                out.index_add_(0, at, expert(x[at]))
        return out, chosen

    return f


@maker(lambda: (t(2, 3),))
def mixture_of_experts_with_masks():
    torch.manual_seed(2)
    gate = nn.Linear(3, 2)
    experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
    return lambda x: sum(gate(x).softmax(-1)[:, i : i + 1] * expert(x) for i, expert in enumerate(experts))
