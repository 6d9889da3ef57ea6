"""Variants of a training, each given the same time, by their error on held-out pairs.

    python -m benchmarks.learning bunny --seconds 80
    python -m benchmarks.learning shapes --seconds 240

One seed each, and the machine's speed decides on the steps: differences of a few degrees say little.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from bitr.evaluation.experiment import fit_steps
from bitr.settings import from_file
from bitr.training import TrainConfig, train
from bitr.training.config import config_file

STACK = (
    "model.extractor=paper",
    "model.num_layers=2",
    "model.num_keypoints=32",
    "model.radial_functions=[4, 3]",
)
VARIANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "bunny": {
        "as it is": (),
        "attention and Elu on neighbourhoods, twice, as in the paper": STACK,
        "poses compared, as in the paper": ("loss.compare=pose",),
        "five wide blocks": ("model.depth=5",),
        "64 channels": ("model.width=64",),
        "32 key points": ("model.num_keypoints=32",),
        "Adam for all weights": ("optimizer.name=adam",),
        "rate 2e-3": ("optimizer.rate=2e-3",),
        "rate 8e-3": ("optimizer.rate=8e-3",),
        "no average of the weights": ("optimizer.average=0.0",),
    },
    "shapes": {
        "cuts": (),
        "cuts and fractures": ("data.name=shapes:apart",),
        "cuts, fractures and crops": ("data.name=shapes",),
        "cuts, neither stretched nor mirrored": ("data.stretch=0.0", "data.mirror=false"),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("config", choices=VARIANTS, help="training config that comes with bitr")
    parser.add_argument("--seconds", type=float, default=80.0, help="of timing and training")
    options = parser.parse_args()
    print("| variant | settings | steps | mean Δr, held out | median |\n| --- | --- | --- | --- | --- |")
    for name, settings in VARIANTS[options.config].items():
        config = from_file(TrainConfig, config_file(options.config), settings)
        config = fit_steps(config, options.seconds)
        config = replace(config, run=replace(config.run, validate_every=config.run.steps))
        with tempfile.TemporaryDirectory() as folder:
            result = train(config, Path(folder))
        val, shown = result["val"], ", ".join(f"`{setting}`" for setting in settings)
        row = (name, shown, result["steps"], f"{val['rotation_deg']:.1f}°", f"{val['median_deg']:.1f}°")
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
