"""Where the files of each data set come from, and where they lie below the root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Archive:
    """A file to download, with the SHA-256 of what must arrive."""

    url: str
    sha256: str


@dataclass(frozen=True)
class Source:
    """What is known of a data set's origin."""

    folders: tuple[str, ...]
    """Where its files lie below the root."""
    into: str
    """Where its archives are unpacked, below the root."""
    page: str
    how: str
    """What there is to do on that page."""
    archives: tuple[Archive, ...] = ()


SHAPENET = "the official downloads of ShapeNetCore need an account, and there is no public address"
SOURCES = {
    "bunny": Source(
        folders=("bunny",),
        into=".",
        page="https://graphics.stanford.edu/data/3Dscanrep/",
        how="download bunny.tar.gz",
        archives=(
            Archive(
                "https://graphics.stanford.edu/pub/3Dscanrep/bunny.tar.gz",
                "a5720bd96d158df403d153381b8411a727a1d73cff2f33dc9b212d6f75455b84",
            ),
        ),
    ),
    "airplane": Source(
        ("airplane", "shapenet/02691156"), "shapenet", "https://shapenet.org", f"{SHAPENET}: get 02691156.zip"
    ),
    "car-motorbike": Source(
        ("vehicles", "shapenet/02958343", "shapenet/03790512"),
        "shapenet",
        "https://shapenet.org",
        f"{SHAPENET}: get 02958343.zip and 03790512.zip",
    ),
    **{
        name: Source(
            (f"breaking_bad/{name}_meshes.npz", f"breaking_bad/everyday/{folder}"),
            "breaking_bad",
            "https://breaking-bad-dataset.github.io",
            "follow its link to the data and get the archive with the everyday part",
        )
        for name, folder in (
            ("winebottle", "WineBottle"),
            ("beerbottle", "BeerBottle"),
            ("bottle", "Bottle"),
            ("drinkbottle", "DrinkBottle"),
        )
    },
    "indoor": Source(
        ("indoor_3dmatch", "7scenes"),
        "indoor_3dmatch",
        "https://github.com/prs-eth/OverlapPredator",
        "get the archive of 3DMatch's fragments (about 5 GB) that its README links",
    ),
    "outdoor": Source(
        ("outdoor_lidar", "asl", "kitti"),
        "asl",
        "https://doi.org/10.3929/ethz-b-000721626",
        "get an archive for each of the five outdoor places; KITTI odometry, from "
        "https://www.cvlibs.net/datasets/kitti, needs an account",
    ),
}
"""Data sets that are not generated here."""


def size_on_disk(name: str, root: Path | None) -> int:
    """Bytes of the files that are here."""
    if root is None or name not in SOURCES:
        return 0
    places = [root / folder for folder in SOURCES[name].folders]
    files = [p for place in places for p in ([place] if place.is_file() else place.rglob("*"))]
    return sum(p.stat().st_size for p in files if p.is_file())
