"""PyTorch's own logs of a compile, which ``torch._logging.set_logs(graph_breaks=True)`` or ``TORCH_LOGS`` turns on."""

from __future__ import annotations

import functools
import logging

from torch._logging._internal import getArtifactLogger

__all__ = ["write"]


@functools.cache
def _logger(artifact: str) -> logging.Logger:
    # A name below "torch", whose handler shows it.
    return getArtifactLogger("torch.vesta", artifact)


def write(artifact: str, text: str | None = None) -> bool:
    """Whether this log is on; writes ``text`` to it."""
    logger = _logger(artifact)
    if not logger.isEnabledFor(logging.DEBUG):
        return False
    if text is not None:
        logger.debug("%s", text)
    return True
