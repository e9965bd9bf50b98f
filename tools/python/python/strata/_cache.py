"""Compiled graphs as artifacts of PyTorch: `torch.compiler.save_cache_artifacts` and `load_cache_artifacts` carry them."""

import contextlib

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from . import strata_native as native


@CacheArtifactFactory.register
class StrataArtifact(CacheArtifact):
    """A compiled graph under its key in the cache."""

    def populate_cache(self):
        # A folder that cannot be written still leaves it in memory.
        with contextlib.suppress(native.StrataError):
            native.cache_put(self.key, self.content)

    @staticmethod
    def type():
        return "strata"


def record(key, folder):
    """Has a graph that was compiled or found go into the artifacts that are saved next."""
    content = native.cache_get(key, folder)
    if content is not None:
        CacheArtifactManager.record_artifact(StrataArtifact.type(), key, content)
