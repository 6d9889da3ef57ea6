"""How far a forward pass is from what the machine can do: its products and its bytes at full rate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from bitr.evaluation.speed.machine import rates
from bitr.evaluation.speed.passes import CONFIGS, no_grad, pair
from bitr.evaluation.speed.timing import patience_for, take_turns
from bitr.model import BITR


@dataclass(frozen=True)
class LimitRow:
    """A forward pass beside the time its products take at the rate of a large product, and its bytes at the
    rate of a large copy.

    The first is a lower bound. The second is one only as far as nothing stays in the caches between two
    operations; much of it does, so the pass may take less.
    """

    config: str
    points: int
    forward_ms: float
    forward_gflop: float
    products_at_least_ms: float
    moved_mb: float
    bytes_at_least_ms: float

    COLUMNS: ClassVar = (
        "model",
        "points",
        "forward, ms",
        "GFLOP of products",
        "at least, ms",
        "MB read and written",
        "through memory at least, ms",
    )

    def cells(self) -> tuple[object, ...]:
        products = f"{self.forward_gflop:.2f}", f"{self.products_at_least_ms:.1f}"
        traffic = f"{self.moved_mb:.0f}", f"{self.bytes_at_least_ms:.1f}"
        return self.config, self.points, f"{self.forward_ms:.1f}", *products, *traffic


def limit_rows(quick: bool, n: int = 1024) -> Iterator[LimitRow]:
    patience = patience_for(quick)
    for name, make in CONFIGS.items():
        model, (x, y) = BITR(make()).eval(), pair(n, 1)
        forward = no_grad(partial(model, x, y))
        machine, (ours,) = rates(patience), take_turns([forward], patience)
        with FlopCounterMode(display=False) as counter:
            forward()
        with Traffic() as traffic:
            forward()
        gflop, gigabytes = counter.get_total_flops() / 1e9, traffic.moved / 1e9
        yield LimitRow(
            config=name,
            points=n,
            forward_ms=1e3 * ours.fastest,
            forward_gflop=gflop,
            products_at_least_ms=1e3 * gflop / machine.gflop_per_second,
            moved_mb=1e3 * gigabytes,
            bytes_at_least_ms=1e3 * gigabytes / machine.copy_gb_per_second,
        )


class Traffic(TorchDispatchMode):
    """Adds up the bytes that each operation reads and writes; views move nothing."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moved = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        result = func(*args, **given)
        target = given.pop("out", None)  # written, not read
        read, written = _tensors((args, given)), _tensors(result)
        if target is None and not func._schema.is_mutable:
            owned = {tensor.untyped_storage().data_ptr() for tensor in read}
            written = [tensor for tensor in written if tensor.untyped_storage().data_ptr() not in owned]
        if written and not func._schema.name.startswith("aten::empty"):
            self.moved += sum(_bytes(tensor) for tensor in [*read, *written])
        return result


def _tensors(tree: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _bytes(tensor: Tensor) -> int:
    """An expanded tensor is read as often as it is used, but from few bytes."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
