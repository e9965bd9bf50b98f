"""A Triton kernel as a user writes one; in a file of its own, since Triton reads its source."""

import triton
import triton.language as tl


@triton.jit
def scale_and_add(x, y, out, n, factor, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) * factor + tl.load(y + at, mask=inside), mask=inside)
