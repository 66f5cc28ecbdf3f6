"""The optimizers of the settings for a model of PyTorch: its own where it has them, else with Keras's formulas here."""

from __future__ import annotations

import fnmatch
import math
from typing import Any, Callable, Iterable, Mapping, Sequence

import torch

from hpclaunch.training.optimization.optimizer_constants import ADAMS_SIZE, ADAMW_EPSILON, NEWTON_SCHULZ, ROUNDS
from hpclaunch.training.optimization.optimizers import LARC_TRUST


class _Updates(torch.optim.Optimizer):
    """An optimizer that updates one parameter after another; a subclass gives `_update`."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient. closure: as for any optimizer of torch.optim."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for one in group["params"]:
                if one.grad is not None:
                    self._update(one, one.grad, group, self.state[one])
        return loss

    def _update(self, weight: Any, gradient: Any, group: Mapping[str, Any], state: dict[str, Any]) -> None:
        raise NotImplementedError


def _adam(weight: Any, gradient: Any, group: Mapping[str, Any], state: dict[str, Any]) -> Any:
    """Adam's direction, with the gradient's shape; this updates its averages."""
    first, second = group["betas"]
    if not state:
        state.update(step=0, average=torch.zeros_like(weight), squares=torch.zeros_like(weight))
    state["step"] += 1
    state["average"].mul_(first).add_(gradient, alpha=1 - first)
    state["squares"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
    average = state["average"] / (1 - first ** state["step"])
    squares = state["squares"] / (1 - second ** state["step"])
    return average / (squares.sqrt() + group["eps"])


class Lars(_Updates):
    """Layer-wise adaptive rate scaling (You, Gitman, Ginsburg 2017, arXiv 1708.03888, algorithm 1); see lars.Lars.

    local = trust |w| / (|g| + decay |w|);  v = momentum v + rate local (g + decay w);  w = w - v.
    With `clip` it is LARC: rate local never exceeds rate. A group with layerwise=False, and a parameter that is zero or
    has a zero gradient, are updated as by SGD with momentum.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
        clip: bool = False,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust, "clip": clip}
        super().__init__(params, {**defaults, "layerwise": True})

    def _update(self, weight: Any, gradient: Any, group: Mapping[str, Any], state: dict[str, Any]) -> None:
        if not state:
            state["velocity"] = torch.zeros_like(weight)
        rate, decay = group["lr"], group["weight_decay"]
        if group["layerwise"]:
            length, slope = weight.norm(), gradient.norm()
            ratio = group["trust"] * length / (slope + decay * length)
            local = ratio.clamp(max=rate) if group["clip"] else rate * ratio
            rate = torch.where((length > 0) & (slope > 0), local, torch.full_like(local, rate))
            gradient = gradient + decay * weight
        weight.sub_(state["velocity"].mul_(group["momentum"]).add_(rate * gradient))


class Lamb(_Updates):
    """LAMB (You et al. 2019, arXiv 1904.00962, algorithm 2); see lamb.Lamb.

    w = w - rate |w| / |u + decay w| (u + decay w), with Adam's direction u. The scale is 1 where a norm is zero, and in
    a group with layerwise=False, which has no decay either.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "layerwise": True}
        super().__init__(params, defaults)

    def _update(self, weight: Any, gradient: Any, group: Mapping[str, Any], state: dict[str, Any]) -> None:
        step = _adam(weight, gradient, group, state)
        if not group["layerwise"]:
            weight.sub_(group["lr"] * step)
            return
        step = step + group["weight_decay"] * weight
        length, size = weight.norm(), step.norm()
        trust = torch.where((length > 0) & (size > 0), length / size, torch.ones_like(length))
        weight.sub_(group["lr"] * trust * step)


class Muon(_Updates):
    """Muon (Jordan et al. 2024), with AdamW in the groups that have matrix=False; see muon.Muon.

    m = momentum m + g;  u = g + momentum m;  w = w - rate (0.2 sqrt(max(rows, columns)) orthogonal(u) + decay w)
    A weight [out, in, ...] is a matrix of `out` rows. torch.optim.Muon, of PyTorch 2.9, takes no convolutions.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.001,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = ADAMW_EPSILON,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "betas": betas, "eps": eps}
        super().__init__(params, {**defaults, "matrix": True})

    def _update(self, weight: Any, gradient: Any, group: Mapping[str, Any], state: dict[str, Any]) -> None:
        if group["matrix"]:
            if not state:
                state["velocity"] = torch.zeros_like(weight)
            velocity = state["velocity"].mul_(group["momentum"]).add_(gradient)
            step = _orthogonal_step(gradient + group["momentum"] * velocity)
        else:
            step = _adam(weight, gradient, group, state)
        weight.sub_(group["lr"] * (step + group["weight_decay"] * weight))


def _orthogonal_step(direction: Any) -> Any:
    """The direction of a matrix with all singular values near 1, in the size of a step of Adam."""
    matrix = direction.reshape(direction.shape[0], -1)
    rows, columns = matrix.shape
    whole = orthogonal(matrix if rows <= columns else matrix.T)
    size = ADAMS_SIZE * max(rows, columns) ** 0.5
    return (size * (whole if rows <= columns else whole.T)).reshape(direction.shape)


def orthogonal(matrix: Any) -> Any:
    """A matrix with the same singular vectors whose singular values are between 0.7 and 1.2; rows <= columns.

    Five rounds of X = a X + (b A + c A A) X with A = X X^T, which starts from X / |X| (Newton-Schulz).
    """
    a, b, c = NEWTON_SCHULZ
    length = matrix.norm()
    found = torch.where(length > 0, matrix / length, torch.zeros_like(matrix))
    for _ in range(ROUNDS):
        square = found @ found.T
        found = a * found + (b * square + c * square @ square) @ found
    return found


def make(asked: Any, model: Any) -> Any:
    """The optimizer of the settings over all parameters of `model`.

    asked: has optimizer (one of optimizers.NAMES), learning_rate, weight_decay, momentum, exclude_vectors and the
    muon_ settings. Raises ValueError for a pattern of muon_exclude that matches no weight, and for an optimizer that
    has no row here.
    """
    rate, decay, momentum = asked.learning_rate, asked.weight_decay, asked.momentum
    if asked.optimizer == "muon":
        return Muon(_muon_groups(asked, model), rate, asked.muon_momentum, decay)
    weights, groups = model.parameters(), _divide(model, asked.exclude_vectors)
    makers: dict[str, Callable[[], Any]] = {
        "adam": lambda: torch.optim.Adam(weights, rate),
        "adamw": lambda: torch.optim.AdamW(groups, rate, eps=ADAMW_EPSILON, weight_decay=decay),
        "lamb": lambda: Lamb(groups, rate, weight_decay=decay),
        "larc": lambda: Lars(groups, rate, momentum, decay, trust=LARC_TRUST, clip=True),
        "lars": lambda: Lars(groups, rate, momentum, decay),
        "sgd": lambda: torch.optim.SGD(weights, rate, momentum=momentum),
    }
    if asked.optimizer not in makers:
        raise ValueError("PyTorch has no {} here; use one of {}".format(asked.optimizer, ", ".join([*makers, "muon"])))
    return makers[asked.optimizer]()


def _divide(model: Any, exclude_vectors: bool) -> list[dict[str, Any]]:
    """Groups of the parameters: all, or without biases and normalization, which have no decay and no layer's rate."""
    if not exclude_vectors:
        return [{"params": list(model.parameters())}]
    matrices = [one for one in model.parameters() if one.dim() > 1]
    vectors = [one for one in model.parameters() if one.dim() <= 1]
    groups: list[dict[str, Any]] = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0, "layerwise": False}]
    return [group for group in groups if group["params"]]


def _muon_groups(asked: Any, model: Any) -> list[dict[str, Any]]:
    named = dict(model.named_parameters())
    taken = muons_names(model, [text for text in asked.muon_exclude.split(",") if text], asked.muon_weights == "hidden")
    others = [name for name in named if name not in taken]
    groups: list[dict[str, Any]] = [
        {"params": [named[name] for name in taken]},
        {"params": [named[name] for name in others if named[name].dim() > 1], "matrix": False},
        {"params": [named[name] for name in others if named[name].dim() <= 1], "matrix": False, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def muons_names(model: Any, exclude: Sequence[str] = (), only_hidden: bool = True) -> list[str]:
    """The names of the parameters that Muon takes; the others are AdamW's (hidden_weights.mark).

    Left out are the weights of convolutions with groups, which are no matrices, and those that match a pattern of
    `exclude`. only_hidden: also embeddings, and the first and the last weight with two dimensions in the order in which
    the model has them. Raises ValueError for a pattern that matches none.
    """
    modules = dict(model.named_modules())
    # A weight that two modules share has the name of the first.
    matrices = {name: modules[name.rpartition(".")[0]] for name, one in model.named_parameters() if one.dim() > 1}
    matched = {pattern: fnmatch.filter(matrices, pattern) for pattern in exclude}
    unknown = [pattern for pattern, names in matched.items() if not names]
    if unknown:
        raise ValueError(
            "no weight with two dimensions is called {}; there are {}".format(
                ", ".join(unknown), ", ".join(sorted(matrices))
            )
        )
    left_out = {name for names in matched.values() for name in names}
    left_out |= {name for name, module in matrices.items() if getattr(module, "groups", 1) > 1}
    if only_hidden and matrices:
        left_out |= {name for name, module in matrices.items() if "embedding" in type(module).__name__.lower()}
        left_out |= {next(iter(matrices)), list(matrices)[-1]}
    return [name for name in matrices if name not in left_out]


def in_words(taken: int) -> str:
    """What a run with Muon says of the number of matrices that it takes."""
    if not taken:
        return "Muon takes no weight of this model: all are updated by AdamW."
    return "Muon takes {} of the model; AdamW takes all other weights.".format(
        "one matrix" if taken == 1 else "{} matrices".format(taken)
    )


def unlike(asked: Any, optimizer: Any) -> str:
    """Why a program's own optimizer is not what the settings ask for, in words; empty if it is, or nothing was chosen.

    An optimizer is taken for what its class is called, and for the options of its groups. What it excludes from its
    decay, or gives to Muon, cannot be seen there.
    """
    name = type(optimizer).__name__
    if _asks(asked, "optimizer") and name.lower() not in (asked.optimizer, "fused" + asked.optimizer):
        return "the setting optimizer is {}, but the program gives {}".format(asked.optimizer, name)
    for option in ("momentum", "weight_decay"):
        given = [group[option] for group in optimizer.param_groups if option in group]
        value = getattr(asked, option, 0.0)
        if _asks(asked, option) and not any(math.isclose(one, value) for one in given):
            return "the setting {} is {:g}, but {} of the program has {}".format(
                option, value, name, ", ".join("{:g}".format(one) for one in given) or "none"
            )
    return ""


def _asks(asked: Any, name: str) -> bool:
    """Whether a setting of the library was chosen, not one of the program's own that has its name."""
    return bool(asked.is_chosen(name) and not asked.is_own(name))
