"""The experiments of the paper, with the figures that it reports."""

from __future__ import annotations

import difflib

from bitr.errors import InputError
from bitr.evaluation.report import Published
from bitr.evaluation.reproduce.ablation import ablation
from bitr.evaluation.reproduce.comparison import compare
from bitr.evaluation.reproduce.complete_matching import complete_matching
from bitr.evaluation.reproduce.experiment import Experiment
from bitr.evaluation.reproduce.manipulation import manipulation
from bitr.evaluation.reproduce.toy import toy

REGISTRATION = ("centroids", "bound", "icp", "gicp", "fpfh-ransac", "fgr", "kiss-matcher")
FULL, NO_SWAP, NO_SCALE = (Published(each) for each in ("17.1 (6.0)", "15.3 (7.0)", "15.0 (8.0)"))
FIGURE_ONLY = "The paper shows a figure without numbers."

ALL = (
    Experiment(
        name="toy",
        title="Proof of concept: the bunny in two parts",
        section="Sec. 6.2, App. D.2",
        run=toy,
        data=("bunny",),
        published={f"BITR, {test}": FULL for test in ("original", "swapped", "scaled", "moved")},
    ),
    Experiment(
        name="ablation",
        title="Ablation of the laws",
        section="App. D.3",
        run=ablation,
        data=("bunny",),
        published={
            **{f"BITR, {test}": FULL for test in ("original", "swapped", "scaled", "moved")},
            **{f"BITR without swap, {test}": NO_SWAP for test in ("original", "scaled", "moved")},
            "BITR without swap, swapped": Published("70.3 (20.0)"),
            **{f"BITR without scale, {test}": NO_SCALE for test in ("original", "swapped", "moved")},
            "BITR without scale, scaled": Published("125.4 (15.0)"),
        },
    ),
    Experiment(
        name="complete-matching",
        title="Complete matching by an untrained U-BITR",
        section="App. D.4",
        run=complete_matching,
        data=("bunny",),
        published={
            "X = Y": Published("0.0 (0.0)", "0.0 (0.0)"),
            "resampled": Published("20.7 (16.4)", "0.18 (0.16)"),
            "noisy 0.01": Published("5.0 (2.8)", "0.02 (0.008)"),
            "cropped 0.9": Published("99.1 (40.49)", "0.58 (0.4)"),
        },
    ),
    Experiment(
        name="airplane",
        title="Single shapes: airplanes, cropped more and more",
        section="Sec. 6.3.1, App. D.5",
        run=compare,
        data=("airplane",),
        keeps=(0.7, 0.5, 0.4, 0.3),
        refinements=("icp",),
        baselines=REGISTRATION,
        learned=("nsm", "lev"),
        notes=(
            f"{FIGURE_ONLY} It says that Δr of BITR is at most 20° where more than half is kept, and the "
            "lowest of all methods where half or less is. Its data: 715 airplanes of ShapeNet to train with, "
            "103 to test.",
        ),
    ),
    Experiment(
        name="inter-class",
        title="A car beside a motorbike",
        section="Sec. 6.3.2, App. D.6",
        run=compare,
        data=("car-motorbike",),
        keeps=(1.0, 0.7),
        baselines=("centroids", "icp"),
        learned=("nsm", "lev"),
        notes=(
            f"{FIGURE_ONLY} It says that BITR has a lower rotation error than LEV and a comparable "
            "translation error, and that NSM fails.",
        ),
    ),
    Experiment(
        name="fragments",
        title="Wine bottles in two fragments",
        section="Sec. 6.4",
        run=compare,
        data=("winebottle:all",),
        baselines=("centroids", "icp", "fpfh-ransac", "kiss-matcher"),
        learned=("dgl", "nsm", "lev"),
        published={
            "BITR": Published("8.4 (0.9)", "0.07 (0.008)"),
            "in the manner of DGL": Published("101.3", "0.09"),
            "in the manner of NSM": Published("101", "0.18"),
            "in the manner of LEV": Published("98.3", "0.17"),
        },
        notes=(
            "The paper's data: 331 pairs of wine bottles to train with, 41 to test. Here other bottles are "
            "among those to train with, never among those to test.",
        ),
    ),
    Experiment(
        name="indoor",
        title="Neighbouring scans of rooms",
        section="Sec. 6.5",
        run=compare,
        data=("indoor",),
        refinements=("icp", "ot"),
        baselines=REGISTRATION,
        learned=("omn",),
        published={
            "BITR": Published("26.7 (0.0)", "0.8 (0.0)"),
            "BITR + ICP": Published("11.1 (0.0)", "0.3 (0.0)"),
            "BITR + OT": Published("9.5 (0.0)", "0.3 (0.0)"),
            "ICP": Published("73.2 (5.7)", "2.4 (0.2)"),
            "in the manner of OMN": Published("129.02 (2.15)", "0.98 (0.06)"),
            "GEO": Published("9.2 (0.02)", "0.2 (0.08)"),
            "ROI": Published("9.0 (0.0)", "0.2 (0.0)"),
        },
        notes=(
            "The paper's data: 278 pairs of six scenes of 7Scenes to train with, 59 of the seventh to test.",
        ),
    ),
    Experiment(
        name="outdoor",
        title="Outdoor laser scans two frames apart",
        section="App. D.8",
        run=compare,
        data=("outdoor",),
        refinements=("icp",),
        baselines=REGISTRATION,
        learned=("omn",),
        published={
            "BITR": Published("10.6 (0.0)", "1.4 (0.0)"),
            "BITR + ICP": Published("0.7 (0.0)", "0.8 (0.0)"),
            "ICP": Published("73.2 (8.0)", "9.4 (1.0)"),
            "in the manner of OMN": Published("110.0 (5.0)", "2.0 (1.0)"),
            "GEO": Published("out of memory", "out of memory"),
            "ROI": Published("16.7 (0.0)", "1.5 (0.0)"),
        },
        notes=("The paper's data: 105 pairs of five scenes of ASL to train with, 48 to test.",),
    ),
    Experiment(
        name="manipulation",
        title="Mugs to hang and bowls to place",
        section="Sec. 6.6",
        run=manipulation,
        data=("mug-hanging", "bowl-placing"),
        baselines=("centroids",),
        notes=("The paper shows pictures and no figures, since more than one pose is right.",),
    ),
    Experiment(
        name="unseen",
        title="Objects that the weights which come with bitr have never seen",
        section="not in the paper",
        run=compare,
        data=("shapes:fracture", "shapes:cut", "shapes:crop", "shapes:meshes"),
        weights="default",
        most=20,
        refinements=("icp",),
        baselines=("icp", "fpfh-ransac", "kiss-matcher"),
        notes=("Generated objects of seeds that were not trained on; meshes that no generator made.",),
    ),
    Experiment(
        name="low-overlap",
        title="Scans of a room that overlap by 10 to 30%",
        section="not in the paper",
        run=compare,
        data=("indoor:low",),
        weights="default",
        most=100,
        baselines=("fpfh-ransac", "fgr", "kiss-matcher"),
        notes=("Pairs of fragments of RedKitchen, not only neighbours; weights that have seen no rooms.",),
    ),
)
EXPERIMENTS = {each.name: each for each in ALL}


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"{name}: no such experiment, expected all or one of {', '.join(EXPERIMENTS)}{hint}")
    return EXPERIMENTS[name]
