"""Best, median and worst pair of an experiment in one picture, for the documents.

python -m examples.cases reproduced/toy docs/pictures/cases-bunny.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

CASES = ("best", "median", "worst")
WIDTH = 640
"""Of each of the three, in pixels."""
COLORS = 128
"""So that a picture takes some tens of kB."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="of the experiment, as bitr reproduce writes it")
    parser.add_argument("out", type=Path, help="PNG file")
    parser.add_argument("--table", default="", help="beginning of the files' names, where there are several")
    options = parser.parse_args()
    pictures = [
        Image.open(options.folder / f"{options.table}{case}_pair.png").convert("RGB") for case in CASES
    ]
    small = [each.resize((WIDTH, round(WIDTH * each.height / each.width))) for each in pictures]
    whole = Image.new("RGB", (WIDTH, sum(each.height for each in small)), "white")
    for i, each in enumerate(small):
        whole.paste(each, (0, sum(other.height for other in small[:i])))
    whole.quantize(COLORS).save(options.out, optimize=True)


if __name__ == "__main__":
    main()
