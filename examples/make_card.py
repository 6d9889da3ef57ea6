"""Puts the weights of a finished training into the package, with a card that says what they are.

    python -m examples.make_card runs/mug-hanging mug-hanging reproduced/manipulation/result.json \
        --command "bitr reproduce manipulation --budget 16m" --limits "five unseen mugs; simulation"

The card has the data and its terms, the hash of the split, the config, the seed, the time of training, and
the figures of the tables of that data set on its test split. A confidence comes after it, by bitr calibrate.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from bitr.data import info

WEIGHTS = Path(__file__).parents[1] / "src" / "bitr" / "weights"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="folder of the training")
    parser.add_argument("name", help="of the weights")
    parser.add_argument("figures", type=Path, nargs="+", help="result.json of bitr reproduce")
    parser.add_argument("--command", required=True, help="that the figures come from")
    parser.add_argument("--limits", required=True, help="what the weights cannot do, in words")
    options = parser.parse_args()
    result = json.loads((options.run / "result.json").read_text())
    data = info(result["config"]["data"]["name"])
    card = {
        "data": data.title,
        "terms": data.licence,
        "joints": list(data.joints),
        "split_sha256": result["split_sha256"],
        "minutes": round(result["seconds"] / 60, 1),
        "threads": result["threads"] * result["processes"],
        "seed": result["config"]["run"]["seed"],
        "steps": result["steps"],
        "validation": result["val"],
        "figures": [figure for path in options.figures for figure in figures(path, data.name)],
        "command": options.command,
        "limits": options.limits,
        "config": result["config"],
    }
    shutil.copyfile(options.run / "model.safetensors", WEIGHTS / f"{options.name}.safetensors")
    (WEIGHTS / f"{options.name}.json").write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n")


def figures(path: Path, data: str) -> list[dict[str, Any]]:
    """The rows of our own in the tables of that data set, those with an option after it among them."""
    result = json.loads(path.read_text())
    return [
        {
            "data": table["title"],
            "method": row["name"],
            "pairs": row["pooled"]["pairs"],
            "samplings": result["samplings"],
            "mean_deg": round(row["pooled"]["rotation_error_deg"]["mean"], 2),
            "std_deg": round(row["pooled"]["rotation_error_deg"]["std"], 2),
            "median_deg": round(row["pooled"]["rotation_error_deg"]["median"], 2),
            "displacement": row["pooled"]["displacement"]["mean"],
            **(row["shares"] or {}),
        }
        for table in result["tables"]
        if table["title"].partition(":")[0].partition(",")[0] == data.partition(":")[0]
        for row in table["rows"]
        if row["name"].startswith("BITR")
    ]


if __name__ == "__main__":
    main()
