"""Measures the confidence over the answers of several evaluations together.

bitr evaluate default shapes:cut --limit 100 --samplings 1 -o results/cut    # and other data sets
python -m benchmarks.mixture results/*/evaluation.json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from bitr.evaluation.calibrate import measure_trust


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    found = [json.loads(path.read_text(encoding="utf-8")) for path in parser.parse_args().files]
    scores = [score for each in found for score in each["rows"][0]["samplings"][0]["scores"]]
    confidence = np.array([score["confidence"] for score in scores])
    right = np.array([bool(score["right"]) for score in scores])
    print(
        json.dumps(
            {"answers": len(scores), "right": float(right.mean())} | asdict(measure_trust(confidence, right))
        )
    )


if __name__ == "__main__":
    main()
