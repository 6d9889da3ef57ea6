"""The pictures of the viewer and of the report for the documentation, taken in a headless Chromium.

From the root of the repository: python -m examples.screenshots
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from tests.show.chromium import SIZE, WEBGL, browser, chromium, until

from bitr.assembly.network import Network
from bitr.cli.demo import REFERENCE, SOURCE
from bitr.io import read
from bitr.show.viewer import Viewer

VIEWER = {"width": 1280, "height": 900}
WIDTH = 1000
"""Of the report; it is as high as it is."""
CLOSE = "[...document.querySelectorAll('.mantine-Notification-closeButton')].map((b) => b.click()).length"
MOVING = "document.getAnimations().some((animation) => animation.playState === 'running')"


def viewer_picture(profile: Path) -> bytes:
    """The viewer as it opens on the demo's pair."""
    pair = read(SOURCE), read(REFERENCE)
    with Viewer(Network.of("default"), pair, port=0) as viewer, chromium(profile) as new_tab:
        tab = new_tab()
        tab.send("Emulation.setDeviceMetricsOverride", **SIZE | VIEWER)
        tab.open(viewer.url)
        until(lambda: tab.text("bitr-answer"), "an answer")
        page = next(iter(viewer.pages.values()))
        until(lambda: page.answer and not page.answer.is_carried, "the answer as the pieces stand")
        until(lambda: page.client.camera.image_width < VIEWER["width"], "the panel at its side")
        until(lambda: tab.evaluate(CLOSE) == 0 and not tab.evaluate(MOVING), "notices to go")
        drawn = tab.screenshot()
        while (again := tab.screenshot()) != drawn:  # until nothing changes any more
            drawn = again
        return drawn


def report_picture(profile: Path) -> bytes:
    """What ``bitr assemble --html`` writes for the same pair."""
    for path in (SOURCE, REFERENCE):
        shutil.copy(path, profile)  # so that the report names files, and no folders of this machine
    command = [sys.executable, "-m", "bitr", "assemble", SOURCE.name, REFERENCE.name, "--html", "report.html"]
    subprocess.run(command, cwd=profile, check=True, stdout=subprocess.DEVNULL)
    with browser(profile / "browser", *WEBGL) as tab:
        tab.open(profile / "report.html", width=WIDTH, height=1000)  # the view is as high as it gets
        height = tab.evaluate("document.documentElement.scrollHeight")
        tab.open(profile / "report.html", "after", width=WIDTH, height=height)
        return tab.screenshot()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    folder = parser.parse_args().out
    for name, picture in (("viewer", viewer_picture), ("report", report_picture)):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            image = Image.open(io.BytesIO(picture(Path(profile)))).convert("RGB")
        image.quantize(256, dither=Image.Dither.NONE).save(folder / f"{name}.png", optimize=True)
        print(f"wrote {folder / f'{name}.png'}")


if __name__ == "__main__":
    main()
