"""The walk counts functions of ours, and the calls that lead to another folder."""

import numpy as np
import pytest
from benchmarks.walk import NAMES, WALKS, Walk, main

from bitr.data.poses import inverse
from bitr.evaluation.metrics import displacement


def test_a_call_into_another_folder_is_a_door_however_often_it_is_used():
    walk, points = Walk(), np.eye(3)
    with walk.traced():
        displacement(np.eye(4), np.eye(4), points, points)
        sorted([3, 1, 2])  # not ours
    assert walk.files == ["data/poses.py", "evaluation/metrics.py"]
    assert {code.co_name for code in walk.functions} == {"displacement", "_gap", "inverse"}
    assert [(a.co_name, b.co_name) for a, b in walk.doors] == [("displacement", "inverse")]
    assert walk.folder_changes == 2


def test_calls_inside_a_folder_change_nothing():
    walk = Walk()
    with walk.traced():
        inverse(np.eye(4))
    assert (len(walk.functions), walk.doors, walk.folder_changes) == (1, set(), 0)


@pytest.mark.slow
def test_a_training_step_walks_through_layers_model_and_training(capsys):
    assert WALKS.keys() == NAMES.keys()
    main(["train", "--files"])
    out = capsys.readouterr().out
    assert "| a training step | " in out
    assert all(f"\n  {folder}/" in out for folder in ("layers", "model", "training"))
    assert "evaluation/" not in out
