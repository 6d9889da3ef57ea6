"""``python -m bitr.data.sim --n 40`` prints how often true and wrong poses succeed in simulation."""

import argparse

from bitr.data.sim.check import table
from bitr.data.splits import SPLITS

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m bitr.data.sim", description="success rates of known poses"
    )
    parser.add_argument("--n", type=int, default=40, help="scenes of each kind")
    parser.add_argument("--split", choices=SPLITS, default="train")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    table(chosen.n, chosen.split, chosen.seed)
