"""Calibration: fitting the verifier on pairs whose answer is known, and checking it on others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata

from bitr.assembly.align import gaps
from bitr.assembly.assemble import Settings, judge
from bitr.assembly.finish import METHODS
from bitr.assembly.network import Network
from bitr.assembly.verify import NAMES, RUNNER_UP, Verifier
from bitr.data import AssemblyPair, dataset, is_name
from bitr.errors import counted, require
from bitr.evaluation.metrics import is_right

FOLDS = 5
LEAST = 50  # minimum number of pairs to fit on
HIDDEN, ENSEMBLE = 16, 5  # hidden units of a network, and the number of networks whose mean is taken
STEPS, RATE, DECAY, BASE_DECAY = 250, 0.03, 1e-2, 0.05
"""Steps, rate and decay of a fit; what is added to a base decays faster."""
RANGE = (0.005, 0.995)  # quantiles of each feature that count as the ends of its range
JOINT = 0.05  # share of the right answers from which on a method belongs to the weights' kinds of joint
BINS = 10  # bins of a reliability diagram
SURE, LOW = 0.9, 0.2  # confidences above which an answer is taken to be right, and below which it is not


@dataclass(frozen=True, eq=False)
class Reliability:
    """Bins of equally many answers, from the least to the most confident."""

    confidence: Float64[np.ndarray, " k"]  # mean confidence of each bin
    right: Float64[np.ndarray, " k"]  # share of right answers in each bin
    count: Int64[np.ndarray, " k"]

    @property
    def expected_error(self) -> float:
        r"""The expected calibration error :math:`\sum_k \frac{n_k}{n} |p_k - a_k|`; 0 is perfect."""
        return float(np.average(np.abs(self.confidence - self.right), weights=self.count))


def reliability(
    confidence: Float64[np.ndarray, " n"], right: Bool[np.ndarray, " n"], bins: int = BINS
) -> Reliability:
    """Share of right answers against confidence, in bins of equally many answers, up to one."""
    require(len(confidence) >= bins, f"{len(confidence)} answers are too few for {bins} bins")
    parts = np.array_split(np.argsort(confidence, kind="stable"), bins)
    return Reliability(
        np.array([confidence[part].mean() for part in parts]),
        np.array([right[part].mean() for part in parts]),
        np.array([len(part) for part in parts]),
    )


def auroc(confidence: Float64[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> float | None:
    """Probability that a right answer ranks above a wrong one; None where all are right or all are wrong."""
    k = np.count_nonzero(right)
    if k in (0, len(right)):
        return None
    ranks = rankdata(confidence)[right].sum() - k * (k + 1) / 2
    return float(ranks / (k * (len(right) - k)))


@dataclass(frozen=True)
class Trust:
    """Quality of the confidences."""

    mean: float
    error: float | None  # expected calibration error; None for fewer answers than bins
    auroc: float | None
    wrong_above: float | None  # share of wrong answers among those with a confidence above ``SURE``
    below: float  # share of answers with a confidence below ``LOW``


def measure_trust(confidence: Float64[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> Trust:
    sure = confidence > SURE
    return Trust(
        mean=float(confidence.mean()),
        error=reliability(confidence, right).expected_error if len(right) >= BINS else None,
        auroc=auroc(confidence, right),
        wrong_above=float((~right)[sure].mean()) if sure.any() else None,
        below=float((confidence < LOW).mean()),
    )


@dataclass(frozen=True)
class Origin:
    """The pairs that a verifier was fitted on."""

    data: str
    split: str
    seed: int
    pairs: int


@dataclass(frozen=True, eq=False)
class Rows:
    """All candidates of one pair: their evidence, and which of them are right."""

    evidence: Float64[np.ndarray, "g f"]
    right: Bool[np.ndarray, " g"]
    poses: Float64[np.ndarray, "g 4 4"]
    methods: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Check:
    """Confidences on pairs outside the fit, beside the right answers."""

    confidence: Float64[np.ndarray, " n"]
    right: Bool[np.ndarray, " n"]
    possible: Bool[np.ndarray, " n"]  # true where some candidate of the pair is right

    @property
    def reliability(self) -> Reliability:
        return reliability(self.confidence, self.right)

    def to_dict(self) -> dict[str, Any]:
        found, bins = measure_trust(self.confidence, self.right), self.reliability
        return {
            "pairs": len(self.right),
            "share_right": float(self.right.mean()),
            "share_possible": float(self.possible.mean()),
            "mean_confidence": found.mean,
            "expected_calibration_error": found.error,
            "auroc": found.auroc,
            f"above_{SURE:g}": int((self.confidence > SURE).sum()),
            f"wrong_above_{SURE:g}": found.wrong_above,
            "bins": {"confidence": bins.confidence.tolist(), "share_right": bins.right.tolist()},
        }


def pairs_of(origin: Origin, root: Path | None) -> list[Sequence[AssemblyPair]]:
    """Pairs of a data set, sampled anew as often as needed; the user's own files are each used once."""
    found = [dataset(origin.data, origin.split, root, origin.seed)[: origin.pairs]]
    while (count := sum(map(len, found))) < origin.pairs and is_name(origin.data):
        again = dataset(origin.data, origin.split, root, origin.seed + len(found))
        found.append(again[: origin.pairs - count])
    return found


def collect(
    network: Network,
    samplings: Iterable[Sequence[AssemblyPair]],
    progress: Callable[[int, int], None] = lambda done, total: None,
    label: Callable[[AssemblyPair], AssemblyPair] = lambda pair: pair,
) -> list[Rows]:
    """The candidates of every pair, as ``bitr assemble`` finds them; ``label`` may add right answers."""
    samplings = list(samplings)
    total, rows = sum(map(len, samplings)), []
    for pair in chain.from_iterable(samplings):
        judged = judge(pair.source, pair.reference, network, Settings())
        known = label(pair)
        right = np.array([is_right(known, pose) for pose in judged.poses()])
        rows.append(Rows(judged.evidence, right, judged.candidates.poses, judged.candidates.methods))
        progress(len(rows), total)
    return rows


def calibrate(
    origin: Origin,
    rows: Sequence[Rows],
    seed: int = 0,
    objects: Sequence[str] | None = None,
    base: Verifier | None = None,
) -> tuple[Verifier, Check]:
    """The verifier, fitted on all pairs, and confidences that were each fitted on other pairs.

    ``objects`` names what each pair is of, if several are of one: these are checked together. With a ``base``
    only the difference from its scores is fitted, for which fewer pairs are enough.
    """
    require_enough(origin, len(rows))
    own = np.arange(len(rows)) if objects is None else np.unique(np.array(objects), return_inverse=True)[1]
    fold = (np.random.default_rng(seed).permutation(len(rows)) % FOLDS)[own]
    fitted = [
        _fit([rows[i] for i in np.flatnonzero(fold != k).tolist()], origin, seed, base) for k in range(FOLDS)
    ]
    best, other, right, possible = _answers([(fitted[k], each) for k, each in zip(fold, rows, strict=True)])
    held_back = np.zeros(len(rows))
    for k in range(FOLDS):
        map_ = _fit_map(best[fold != k], other[fold != k], right[fold != k])
        held_back[fold == k] = _confidence(map_, best[fold == k], other[fold == k])
    check = Check(held_back, right, possible)
    told = asdict(origin) | {key: value for key, value in check.to_dict().items() if key != "bins"}
    map_ = _fit_map(best, other, right)
    return replace(_fit(rows, origin, seed, base), calibration=map_, origin=told), check


def require_enough(origin: Origin, pairs: int) -> None:
    """Raise where there are too few pairs to fit on, before any work is done for them."""
    said = f"{origin.data}: {counted(pairs, 'pair')}, expected at least {LEAST} to fit on"
    require(pairs >= LEAST, said)


def check(verifier: Verifier, rows: Sequence[Rows]) -> Check:
    """The verifier on pairs that it was not fitted on."""
    best, other, right, possible = _answers([(verifier, each) for each in rows])
    return Check(_confidence(verifier.calibration, best, other), right, possible)


def joints_of(verifier: Verifier, rows: Sequence[Rows]) -> tuple[str, ...]:
    """The kinds of joint that the right answers are finished by; the model's own pose always counts."""
    firsts = [(each, int(np.argmax(verifier.scores(each.evidence)))) for each in rows]
    right = [each.methods[i] for each, i in firsts if each.right[i]]
    often = [name for name in METHODS if right.count(name) >= JOINT * max(len(right), 1)]
    return tuple(name for name in METHODS if name in often or name == "model")


def _answers(judged: Sequence[tuple[Verifier, Rows]]) -> tuple[np.ndarray, ...]:
    """Scores of each pair's best candidate and of the best that differs; is it right, and is any?"""
    found = []
    for verifier, rows in judged:
        scores = verifier.scores(rows.evidence)
        first = int(np.argmax(scores))
        far = gaps(rows.poses, rows.poses[first]) > 1
        other = max(scores[far].max(), RUNNER_UP) if far.any() else RUNNER_UP
        found.append((scores[first], other, rows.right[first], rows.right.any()))
    return tuple(np.array(column) for column in zip(*found, strict=True))


def _confidence(
    map_: Float64[np.ndarray, " 3"], best: Float64[np.ndarray, " n"], other: Float64[np.ndarray, " n"]
) -> Float64[np.ndarray, " n"]:
    return np.asarray(expit(map_[0] + map_[1] * best + map_[2] * (other - RUNNER_UP)))


def _fit_map(
    best: Float64[np.ndarray, " n"], other: Float64[np.ndarray, " n"], right: Bool[np.ndarray, " n"]
) -> Float64[np.ndarray, " 3"]:
    """Logistic regression of rightness on both scores, with Platt's targets."""
    k = np.count_nonzero(right)
    target = np.where(right, (k + 1) / (k + 2), 1 / (len(right) - k + 2))
    design = np.column_stack([np.ones(len(best)), best, other - RUNNER_UP])

    def loss(w: Float64[np.ndarray, " 3"]) -> tuple[float, Float64[np.ndarray, " 3"]]:
        score = design @ w
        value = float((np.logaddexp(0, score) - target * score).mean() + 1e-3 * w @ w)
        return value, design.T @ (expit(score) - target) / len(target) + 2e-3 * w

    return np.asarray(minimize(loss, np.array([0.0, 1.0, 0.0]), jac=True, method="BFGS").x)


def _fit(rows: Sequence[Rows], origin: Origin, seed: int, base: Verifier | None = None) -> Verifier:
    """The mean of several networks with one hidden layer each, which is one network with a wider layer.

    So is its sum with a ``base``.
    """
    evidence = np.concatenate([each.evidence for each in rows])
    low, high = np.quantile(evidence, RANGE, axis=0)
    if base is not None:  # what it gives no weight may be newer than it
        known = base.hidden.any(axis=1)
        low, high = np.where(known, base.low, low), np.where(known, base.high, high)
    scaled = 2 * (np.clip(evidence, low, high) - low) / np.maximum(high - low, 1e-9) - 1
    start = np.zeros(len(evidence)) if base is None else base.scores(evidence)
    decay = DECAY if base is None else BASE_DECAY
    found = [_fit_one(scaled, start, decay, rows, ENSEMBLE * seed + k) for k in range(ENSEMBLE)]
    hidden, bias, last = (np.concatenate([one[k] for one in found], axis=-1) for k in range(3))
    last, last_bias = last / ENSEMBLE, float(np.mean([one[3] for one in found]))
    if base is not None:
        hidden = np.concatenate([base.hidden, hidden], axis=1)
        bias, last = np.append(base.hidden_bias, bias), np.append(base.last, last)
        last_bias += base.last_bias
    return Verifier(low, high, hidden, bias, last, last_bias, np.array([0.0, 1.0, 0.0]), asdict(origin))


def _fit_one(
    scaled: Float64[np.ndarray, "n f"],
    start: Float64[np.ndarray, " n"],
    decay: float,
    rows: Sequence[Rows],
    seed: int,
) -> tuple[Float64[np.ndarray, "f h"], Float64[np.ndarray, " h"], Float64[np.ndarray, " h"], float]:
    """One network, added to scores; the loss: each candidate is right or wrong, a right one comes first in
    its pair, and the score of the first one says whether it is right."""
    x, given = torch.from_numpy(scaled).float(), torch.from_numpy(start).float()
    y = torch.from_numpy(np.concatenate([each.right for each in rows])).float()
    counts = [len(each.right) for each in rows]
    pair = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor(counts))
    share = 1 / torch.tensor(counts).float()[pair]
    solvable = torch.zeros(len(rows)).index_add(0, pair, y) > 0
    generator = torch.Generator().manual_seed(seed)
    hidden = (torch.randn(len(NAMES), HIDDEN, generator=generator) * 0.3).requires_grad_()
    bias = torch.zeros(HIDDEN).requires_grad_()
    last = (torch.randn(HIDDEN, generator=generator) * 0.3).requires_grad_()
    last_bias = torch.zeros(()).requires_grad_()
    decayed = {"params": [hidden, last], "weight_decay": decay / RATE}
    optimizer = torch.optim.AdamW([decayed, {"params": [bias, last_bias], "weight_decay": 0.0}], lr=RATE)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - step / STEPS)
        score = given + torch.tanh(x @ hidden + bias) @ last + last_bias
        each = torch.nn.functional.binary_cross_entropy_with_logits(score, y, reduction="none")
        loss = (each * share).sum() / len(rows)
        top = torch.full((len(rows),), -torch.inf).scatter_reduce(0, pair, score, "amax")
        is_top = (score >= top[pair]).float()
        top_is_right = (torch.zeros(len(rows)).index_add(0, pair, is_top * y) > 0).float()
        loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(top, top_is_right)
        odds = (score - top.detach()[pair]).exp()
        mass = torch.zeros(len(rows)).index_add(0, pair, odds)
        good = torch.zeros(len(rows)).index_add(0, pair, odds * y)
        if solvable.any():
            loss = loss + (mass / good.clamp_min(1e-9)).log()[solvable].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights, shift, out = (value.detach().double().numpy() for value in (hidden, bias, last))
    return weights, shift, out, float(last_bias.detach())
