"""Before vesta is imported: tests compile what they are to compile, whatever an earlier run has left in a cache."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("VESTA_CACHE_DIR", "")
# On a busy machine a call waits for its compile, however long it takes.
os.environ.setdefault("VESTA_DEADLINE_MS", "-1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what is marked `kernels` in a build that generates no code for this CPU."""
    marked = [item for item in items if item.get_closest_marker("kernels")]
    if not marked:
        return
    from tests.build import generates_code

    if not generates_code():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="this build has no code generator for this CPU"))


# Files whose programs record gradients, but for those of torch.compile, cond and flex_attention.
TRAINING = """
capture/test_owners.py
capture/test_semantics.py
numerics/test_gradients.py
programs/test_aliases.py
programs/test_autograd_functions.py
programs/test_backward_kernels.py
programs/test_gradient_breaks.py
programs/test_layers.py
programs/test_in_place.py
programs/test_second_gradients.py
programs/test_separate_losses.py
programs/test_training_graphs.py
programs/test_training_steps.py
programs/test_threads.py
programs/test_view_relations.py
"""


@pytest.fixture(autouse=True)
def _no_compiler_of_torchs_trains(request: pytest.FixtureRequest) -> Iterator[None]:
    """Gradients are Vesta's own: in these files AOTAutograd, Dynamo and make_fx raise, and no test may call them."""
    if f"{request.path.parent.name}/{request.path.name}" not in TRAINING.split():
        yield
        return
    from tests.torch_compilers import forbidden

    with forbidden() as called:
        yield
    assert not called, f"PyTorch's own compilers were called: {called}"


@pytest.fixture(autouse=True, scope="module")
def _imports_are_not_collected() -> Iterator[None]:
    """The collector leaves alone what a file's tests found: a million objects of torch, of which none is garbage."""
    gc.collect()
    gc.freeze()
    yield
