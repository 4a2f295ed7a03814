"""Random operators: the stream of numbers is eager's."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F

from tests.capture.case import case, maker, t


@case(lambda: (t(3),), lambda: (t(5),))
def stream(x):
    a = torch.rand(3)
    b = torch.randn_like(x)
    return (
        x + b,
        a,
        torch.randint(0, 10, (4,)),
        torch.randperm(5),
        torch.rand(x.shape[0]),
        torch.bernoulli(torch.full((5,), 0.5)),
    )


@case(lambda: (t(3),))
def numbers_that_nobody_reads(x):
    torch.rand(2)
    y = x.clone()
    y.uniform_(0, 1)
    y.zero_()
    return y, torch.rand(2)


@case(lambda: (t(3),))
def seeded_inside(x):
    torch.manual_seed(3)
    return x + torch.rand(3), torch.initial_seed()


@case(lambda: (t(3),))
def state_saved_and_restored(x):
    state = torch.get_rng_state()
    a = torch.rand(3)
    torch.set_rng_state(state)
    return x + a, torch.rand(3)


@maker(lambda: (t(3),))
def generator_of_a_closure():
    generator = torch.Generator().manual_seed(9)

    def f(x):
        return x + torch.randn(3, generator=generator), torch.rand(2, generator=generator)

    return f


@case(lambda: (t(3), torch.Generator().manual_seed(1)), lambda: (t(3), None))
def generator_as_argument(x, generator):
    return x * torch.rand(3, generator=generator), generator.initial_seed() if generator else None


@case(lambda: (t(3),))
def generator_made_inside(x):
    generator = torch.Generator()
    generator.manual_seed(5)
    return x + torch.rand(3, generator=generator), torch.rand(2)


@case(lambda: (t(50),))
def in_place_random(x):
    return x.clone().uniform_(), x.clone().normal_(1, 2), x.bernoulli_(0.5), torch.empty(3).exponential_()


@case(lambda: (t(40), 0.5), lambda: (t(40), 0.1))
def dropouts(x, p):
    return (
        F.dropout(x, p),
        F.dropout(F.dropout(x, p) + 1, p),
        F.alpha_dropout(x, p, training=True),
        F.dropout(x, p, training=False),
    )


@case(lambda: (t(3),))
def random_module(x):
    return x * random.random(), random.randint(0, 5), random.choice("abc"), random.sample(range(9), 3)


@case(lambda: (t(3),))
def random_branch(x):
    if random.random() < 0.5:
        return x + 1
    if torch.rand(()) < 0.5:
        return x + 2
    return x + 3


@case(lambda: (torch.softmax(t(4), 0),))
def sampling(p):
    return (
        torch.multinomial(p, 2),
        torch.distributions.Categorical(p).sample(),
        torch.normal(p, 1.0),
        F.gumbel_softmax(p),
    )


@case(lambda: (t(3),))
def random_between_breaks(x):
    a = torch.rand(3)
    print("middle")
    b = torch.rand(3)
    return x + a * b
