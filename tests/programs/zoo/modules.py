"""Models written with torch.nn alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.programs.zoo.entry import Inputs, entry, integers, normal


def module(
    name: str,
    make: Callable[[], nn.Module],
    inputs: Inputs,
    lengths: tuple[int, ...] = (16, 23),
    tests: tuple[str, ...] = (),
) -> None:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return make().eval()

    entry(name, build, inputs, lengths, tests)


def floats(*size: int | None) -> Inputs:
    """One argument `x`; None stands for the length."""
    return lambda seed, length: {"x": normal(seed, *(length if s is None else s for s in size))}


class Apply(nn.Module):
    """A function of `x` and of modules."""

    def __init__(self, function: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, **inputs: Any) -> Any:
        return self.function(self, **inputs)


# ---- recurrent -------------------------------------------------------------------------------------------------------
class Tagger(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 24)
        self.rnn = kind(24, 16, batch_first=True, **options)  # type: ignore[call-arg]
        self.out = nn.Linear(16 * (2 if options.get("bidirectional") else 1), 9)

    def forward(self, x: Tensor) -> Any:
        y, state = self.rnn(self.embed(x))
        return self.out(y).log_softmax(-1), state


def _words(seed: int, length: int) -> dict[str, Tensor]:
    return {"x": integers(seed, 50, 3, length)}


module("lstm", lambda: Tagger(nn.LSTM, num_layers=2), _words, tests=("inference", "training"))
module("lstm_both_ways", lambda: Tagger(nn.LSTM, bidirectional=True), _words)
module("gru", lambda: Tagger(nn.GRU, num_layers=2), _words)
module("rnn", lambda: Tagger(nn.RNN, nonlinearity="relu"), _words)


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(8, 12), nn.GRUCell(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        h = c = g = x.new_zeros(x.shape[0], 12)
        seen = []
        for t in range(x.shape[1]):
            h, c = self.lstm(x[:, t], (h, c))
            g = self.gru(h, g)
            seen.append(g)
        return torch.stack(seen, 1)


module("cells", Cells, floats(3, 7, 8), (7,), ("inference", "training"))


# ---- transformers ----------------------------------------------------------------------------------------------------
class Seq2Seq(nn.Module):
    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.body = nn.Transformer(32, 4, 2, 2, 64, dropout=0.0, batch_first=True, norm_first=norm_first)
        self.out = nn.Linear(32, 50)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1], dtype=self.out.weight.dtype)
        return self.out(
            self.body(self.embed(x), self.embed(y), tgt_mask=mask, src_key_padding_mask=x == 0, tgt_is_causal=True)
        )


def _pairs(seed: int, length: int) -> dict[str, Tensor]:
    return {"x": integers(seed, 50, 3, length), "y": integers(seed + 1, 50, 3, length // 2)}


module("transformer", lambda: Seq2Seq(False), _pairs, tests=("inference", "training"))
module("transformer_pre_norm", lambda: Seq2Seq(True), _pairs)
module(
    "encoder",
    lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 4, 64, 0.0, activation="gelu", batch_first=True), 2, enable_nested_tensor=False
    ),
    lambda seed, length: {"src": normal(seed, 3, length, 32)},
)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attention = nn.MultiheadAttention(32, 4, batch_first=True, add_bias_kv=True)
        self.cross = nn.MultiheadAttention(32, 4, kdim=16, vdim=16)

    def forward(self, x: Tensor, y: Tensor, padding: Tensor) -> Any:
        a, weights = self.self_attention(x, x, x, key_padding_mask=padding, average_attn_weights=False)
        b, _ = self.cross(a.transpose(0, 1), y.transpose(0, 1), y.transpose(0, 1), need_weights=False)
        return a, weights, b


def _attention_inputs(seed: int, length: int) -> dict[str, Tensor]:
    padding = torch.zeros(3, length, dtype=torch.bool)
    padding[1, length // 2 :] = True
    return {"x": normal(seed, 3, length, 32), "y": normal(seed + 1, 3, 5, 16), "padding": padding}


module("attention", Attention, _attention_inputs)


class Rotary(nn.Module):
    """A decoder with rotary positions as complex numbers, grouped keys, RMSNorm and SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.q, self.k, self.v = nn.Linear(32, 32, False), nn.Linear(32, 16, False), nn.Linear(32, 16, False)
        self.o = nn.Linear(32, 32, False)
        self.norm1, self.norm2 = nn.RMSNorm(32), nn.RMSNorm(32)
        self.gate, self.up, self.down = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 32)

    def turned(self, x: Tensor, angles: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        n = x.shape[1]
        angles = torch.outer(torch.arange(n), 100.0 ** (-torch.arange(0, 8, 2) / 8)).to(h.dtype)
        y = self.norm1(h)
        q = self.turned(self.q(y).view(-1, n, 4, 8).transpose(1, 2), angles)
        k = self.turned(self.k(y).view(-1, n, 2, 8).transpose(1, 2), angles)
        v = self.v(y).view(-1, n, 2, 8).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        h = h + self.o(a.transpose(1, 2).flatten(2))
        y = self.norm2(h)
        return (h + self.down(F.silu(self.gate(y)) * self.up(y))) @ self.embed.weight.T


module("rotary", Rotary, _words)


class Experts(nn.Module):
    """Top-2 experts, each applied to all tokens by einsum; and a balance loss."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4)
        self.w1, self.w2 = nn.Parameter(torch.randn(4, 16, 32) / 4), nn.Parameter(torch.randn(4, 32, 16) / 6)

    def forward(self, x: Tensor) -> Any:
        p = self.router(x).softmax(-1)
        best, index = p.topk(2)
        weight = torch.zeros_like(p).scatter(-1, index, best / best.sum(-1, keepdim=True))
        y = torch.einsum(
            "bse,beo->bso",
            F.gelu(torch.einsum("bsi,eio->bseo", x, self.w1)).mean(2),
            self.w2[:1].expand(x.shape[0], -1, -1),
        )
        z = torch.einsum("bseo,eoi,bse->bsi", F.gelu(torch.einsum("bsi,eio->bseo", x, self.w1)), self.w2, weight)
        return y + z, (p.mean((0, 1)) * F.one_hot(index, 4).to(p.dtype).mean((0, 1, 2))).sum() * 4


module("experts", Experts, floats(2, None, 16))


# ---- images ----------------------------------------------------------------------------------------------------------
class UNet(nn.Module):
    """Down and up again, with both ways of going up; `mode` of the interpolation."""

    def __init__(self, mode: str, channels: int = 8) -> None:
        super().__init__()
        c = channels

        def block(i: int, o: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))

        self.first, self.second, self.third = block(3, c), block(c, 2 * c), block(2 * c, 4 * c)
        self.down = nn.MaxPool2d(2)
        self.up1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, stride=2)
        self.up2 = nn.Upsample(scale_factor=2, mode=mode, align_corners=None if mode == "nearest" else True)
        self.join1, self.join2 = block(4 * c, 2 * c), block(3 * c, c)
        self.out = nn.Conv2d(c, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.first(x)
        b = self.second(self.down(a))
        c = self.third(self.down(b))
        y = self.join1(torch.cat([self.up1(c), b], 1))
        return self.out(self.join2(torch.cat([self.up2(y), a], 1)))


module("unet", lambda: UNet("bilinear"), floats(2, 3, 32, 32), (32,), ("inference", "training"))
module("unet_nearest", lambda: UNet("nearest"), floats(2, 3, None, None), (32, 48))
module("unet_bicubic", lambda: UNet("bicubic"), floats(2, 3, 32, 32), (32,))


class Denoiser(nn.Module):
    """A small diffusion network: time embedding, residual blocks with group norm, attention over pixels."""

    def __init__(self, c: int = 16) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 2 * c))
        self.first, self.out = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)
        self.norm1, self.norm2, self.norm3 = nn.GroupNorm(4, c), nn.GroupNorm(4, c), nn.GroupNorm(4, c)
        self.conv1, self.conv2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.qkv, self.project = nn.Conv1d(c, 3 * c, 1), nn.Conv1d(c, c, 1)
        self.down, self.up = nn.Conv2d(c, c, 3, stride=2, padding=1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h = self.first(x)
        c = h.shape[1]
        frequency = torch.exp(-math.log(1000.0) * torch.arange(c // 2, dtype=h.dtype) / (c // 2))
        angles = t[:, None].to(h.dtype) * frequency[None]
        scale, shift = self.time(torch.cat([angles.sin(), angles.cos()], -1))[:, :, None, None].chunk(2, 1)
        y = self.conv1(F.silu(self.norm1(h)))
        h = h + self.conv2(F.silu(self.norm2(y) * (1 + scale) + shift))
        low = self.down(h)
        b, _, height, width = low.shape
        q, k, v = self.qkv(self.norm3(low).reshape(b, c, -1)).chunk(3, 1)
        weights = (torch.bmm(q.transpose(1, 2), k) * c**-0.5).softmax(-1)
        low = low + self.project(torch.bmm(v, weights.transpose(1, 2))).reshape(b, c, height, width)
        return self.out(F.silu(h + self.up(F.interpolate(low, scale_factor=2.0, mode="nearest"))))


def _noisy(seed: int, length: int) -> dict[str, Tensor]:
    return {"x": normal(seed, 2, 3, length, length), "t": integers(seed, 1000, 2)}


module("denoiser", Denoiser, _noisy, (16, 24), ("inference", "dynamic", "training", "steps", "autocast", "bfloat16"))


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1), nn.InstanceNorm2d(16, affine=True),
            nn.ELU(), nn.Flatten(), nn.Linear(16 * 49, 12)
        )  # fmt: skip
        self.decode = nn.Sequential(
            nn.Linear(6, 16 * 49), nn.Unflatten(1, (16, 7, 7)), nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.PReLU(8),
            nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Sigmoid()
        )  # fmt: skip

    def forward(self, x: Tensor, noise: Tensor) -> Any:
        mean, log_variance = self.encode(x).chunk(2, 1)
        y = self.decode(mean + noise * (0.5 * log_variance).exp())
        loss = F.binary_cross_entropy(y, x.sigmoid(), reduction="sum") / x.shape[0]
        return y, loss - 0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()


module(
    "vae",
    VAE,
    lambda seed, length: {"x": normal(seed, length, 1, 28, 28), "noise": normal(seed + 1, length, 6)},
    (4, 6),
)


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sn = nn.utils.parametrizations.spectral_norm
        wn = nn.utils.parametrizations.weight_norm
        self.body = nn.Sequential(
            sn(nn.Conv2d(3, 8, 4, 2, 1)), nn.LeakyReLU(0.1), wn(nn.Conv2d(8, 16, 3, groups=4)), nn.Softplus(),
            nn.AdaptiveMaxPool2d(3), nn.LocalResponseNorm(4), nn.Flatten(), wn(nn.Linear(144, 5)), nn.Tanh()
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)  # type: ignore[no-any-return]


module("critic", Critic, floats(2, 3, 20, 20), (20,))


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.body = nn.Conv2d(3, 16, 5, padding=2, padding_mode="reflect"), nn.Conv2d(16, 12, 3, padding=1)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.shuffle(self.body(self.first(x).tanh()))
        return y + F.interpolate(x, scale_factor=2.0, mode="bicubic", align_corners=False).clamp(-1, 1)


module("super_resolution", SuperResolution, floats(2, 3, None, None), (12, 17))


class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Sequential(nn.Conv2d(1, 4, 5, stride=3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 6))
        self.conv = nn.Conv2d(1, 6, 3, dilation=2)

    def forward(self, x: Tensor) -> Tensor:
        theta = self.where(x).view(-1, 2, 3) * 0.1 + torch.eye(2, 3, dtype=x.dtype)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return F.avg_pool2d(self.conv(F.grid_sample(x, grid, align_corners=False)), 3, 2, ceil_mode=True)


module("spatial_transformer", SpatialTransformer, floats(2, 1, 28, 28), (28,))


class Video(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(3, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(8, 8, (1, 3, 3)),
            nn.AdaptiveAvgPool3d((2, 1, 1)), nn.Flatten(), nn.Linear(16, 4), nn.LogSoftmax(1)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)  # type: ignore[no-any-return]


module("video", Video, floats(2, 3, 4, 12, 12), (12,))


class Patches(nn.Module):
    """Unfold, mix, fold."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(27, 27)

    def forward(self, x: Tensor) -> Tensor:
        y = F.unfold(x, 3, padding=1, stride=2).transpose(1, 2)
        return F.fold(F.gelu(self.mix(y)).transpose(1, 2), x.shape[-2:], 3, padding=1, stride=2)


module("patches", Patches, floats(2, 3, 16, 16), (16,))


# ---- sound and signals -----------------------------------------------------------------------------------------------
class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 16, 1)
        self.gates = nn.ModuleList(nn.Conv1d(16, 32, 2, dilation=2**i) for i in range(4))
        self.skips = nn.ModuleList(nn.Conv1d(16, 16, 1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        total = torch.zeros_like(h)
        for i, (gate, skip) in enumerate(zip(self.gates, self.skips, strict=True)):
            a, b = gate(F.pad(h, (2**i, 0))).chunk(2, 1)
            y = skip(a.tanh() * b.sigmoid())
            h, total = h + y, total + y
        return total.relu()


module("wavenet", WaveNet, floats(2, 1, None), (40, 53), ("inference",))


class Fourier(nn.Module):
    """A Fourier neural operator layer: real FFT, complex weights on the low frequencies, back."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8, 5, 2) / 8)
        self.skip = nn.Conv1d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        f = torch.fft.rfft(x)
        low = torch.einsum("bif,iof->bof", f[..., :5], torch.view_as_complex(self.weight))
        return F.gelu(torch.fft.irfft(F.pad(low, (0, f.shape[-1] - 5)), n=x.shape[-1]) + self.skip(x))


module("fourier", Fourier, floats(2, 8, 32), (32,))


class Spectrogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.out = nn.Linear(17, 4)

    def forward(self, x: Tensor) -> Tensor:
        s = torch.stft(x, 32, 8, window=self.window, return_complex=True)
        return self.out((s.abs().square() + 1e-3).log().transpose(1, 2)).mean(1)


module("spectrogram", Spectrogram, floats(2, 160), (160,))


# ---- tables, graphs, points, fields ----------------------------------------------------------------------------------
class Recommender(nn.Module):
    """Embedding bags, an interaction of all pairs, two MLPs."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(40, 8, mode=mode) for mode in ("sum", "mean", "max"))
        self.bottom, self.top = nn.Linear(5, 8), nn.Linear(8 + 6, 1)

    def forward(self, dense: Tensor, sparse: Tensor, offsets: Tensor) -> Tensor:
        found = [F.relu(self.bottom(dense))] + [bag(sparse, offsets) for bag in self.bags]
        t = torch.stack(found, 1)
        pairs = t @ t.mT
        i, j = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.top(torch.cat([found[0], pairs[:, i, j]], 1)))


def _clicks(seed: int, length: int) -> dict[str, Tensor]:
    offsets = torch.arange(length) * 3
    return {"dense": normal(seed, length, 5), "sparse": integers(seed, 40, length * 3), "offsets": offsets}


module("recommender", Recommender, _clicks)


class GraphNet(nn.Module):
    """Messages along edges summed at their targets, with attention over each node's edges."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.score, self.update = nn.Linear(16, 8), nn.Linear(16, 1), nn.GRUCell(8, 8)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for _ in range(2):
            source, target = edges
            both = torch.cat([x[source], x[target]], -1)
            s = F.leaky_relu(self.score(both), 0.2).exp()
            total = torch.zeros(x.shape[0], 1, dtype=x.dtype).index_add_(0, target, s)
            m = self.message(both) * s / total[target].clamp(min=1e-6)
            received = torch.zeros_like(x).scatter_add_(0, target[:, None].expand_as(m), m)
            x = self.update(received, x)
        return x


def _graph(seed: int, length: int) -> dict[str, Tensor]:
    return {"x": normal(seed, length, 8), "edges": integers(seed, length, 2, 3 * length)}


module("graph_net", GraphNet, _graph, tests=("inference", "training"))


class Points(nn.Module):
    """Nearest neighbours by distance, a shared network, the largest over points."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16))

    def forward(self, x: Tensor) -> Tensor:
        near = torch.cdist(x, x).topk(4, largest=False).indices
        at = x.gather(1, near.flatten(1)[..., None].expand(-1, -1, 3)).unflatten(1, near.shape[1:])
        return self.net(torch.cat([at - x[:, :, None], x[:, :, None].expand_as(at)], -1)).amax((1, 2))


module("points", Points, floats(2, None, 3))


class Field(nn.Module):
    """A radiance field: encoded positions, a skip, and weights along rays from a cumulative product."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.out = nn.Linear(27, 32), nn.Linear(59, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Any:
        e = torch.cat([x] + [f(2.0**i * x) for i in range(4) for f in (torch.sin, torch.cos)], -1)
        y = self.out(torch.relu(self.b(torch.cat([torch.relu(self.a(e)), e], -1))))
        alpha = 1 - torch.exp(-F.relu(y[..., 3]) * 0.1)
        left = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        weights = alpha * left
        return (weights[..., None] * y[..., :3].sigmoid()).sum(1), (weights.cumsum(-1) * x[..., 2]).sum(-1)


module("field", Field, floats(None, 12, 3))


# ---- losses ----------------------------------------------------------------------------------------------------------
class Losses(nn.Module):
    """One number of each loss function."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(10, 7)
        self.bilinear = nn.Bilinear(7, 7, 3)

    def forward(self, x: Tensor, labels: Tensor, goal: Tensor) -> Any:
        y = self.net(x)
        z = goal.sigmoid()
        return {
            "cross entropy": F.cross_entropy(y, labels, label_smoothing=0.1, ignore_index=2),
            "weighted": F.cross_entropy(y, labels, weight=z[0].detach()),
            "soft": F.cross_entropy(y, z.softmax(-1)),
            "nll": F.nll_loss(y.log_softmax(-1), labels, reduction="none"),
            "bce": F.binary_cross_entropy_with_logits(y, z, pos_weight=z[1].detach()),
            "kl": F.kl_div(y.log_softmax(-1), z.softmax(-1), reduction="batchmean"),
            "huber": F.huber_loss(y, goal, delta=0.5),
            "smooth": F.smooth_l1_loss(y, goal, beta=0.3),
            "l1": F.l1_loss(y, goal),
            "mse": F.mse_loss(y, goal),
            "cosine": F.cosine_embedding_loss(y, goal, labels.sign() * 2 - 1, margin=0.1),
            "hinge": F.hinge_embedding_loss(y, z.round() * 2 - 1),
            "margin": F.multi_margin_loss(y, labels),
            "triplet": F.triplet_margin_loss(y, goal, z),
            "ranking": F.margin_ranking_loss(y[:, 0], goal[:, 0], labels.sign() * 2 - 1),
            "poisson": F.poisson_nll_loss(y.clamp(max=3), z),
            "gaussian": F.gaussian_nll_loss(y, goal, z + 0.1),
            "soft margin": F.soft_margin_loss(y, z.round() * 2 - 1),
            "bilinear": self.bilinear(y, goal),
            "similarity": F.cosine_similarity(y[:, None], goal[None], dim=-1),
            "distance": F.pairwise_distance(y, goal),
        }


def _targets(seed: int, length: int) -> dict[str, Tensor]:
    return {"x": normal(seed, length, 10), "labels": integers(seed, 7, length), "goal": normal(seed + 1, length, 7)}


module("losses", Losses, _targets, tests=("inference", "training"))


class Activations(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.functions = nn.ModuleList(
            [nn.ELU(), nn.SELU(), nn.CELU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Hardswish(),
             nn.Hardsigmoid(), nn.Hardtanh(), nn.Hardshrink(), nn.Softshrink(), nn.Tanhshrink(), nn.Softsign(),
             nn.Softplus(), nn.LogSigmoid(), nn.ReLU6(), nn.LeakyReLU(), nn.PReLU(), nn.Threshold(0.1, 2.0),
             nn.GLU(), nn.Softmin(-1), nn.Softmax(0), nn.LogSoftmax(1), nn.RReLU()]
        )  # fmt: skip
        self.norms = nn.ModuleList([nn.LayerNorm(10), nn.RMSNorm(10), nn.BatchNorm1d(10), nn.GroupNorm(2, 10)])

    def forward(self, x: Tensor) -> Any:
        return [norm(x) for norm in self.norms], [f(x * 2) for f in self.functions]


module("activations", Activations, floats(None, 10))
