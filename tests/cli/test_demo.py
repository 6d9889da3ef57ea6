import re

from bitr.cli import main


def test_demo_recovers_the_motion_and_prints_the_laws(capsys):
    assert main(["demo", "--seed", "3"]) == 0
    out = capsys.readouterr().out
    angle = float(re.search(r"off by (\S+)°", out).group(1))
    assert angle < 0.01
    laws = {
        row.split()[0]: [float(v) for v in row.split()[1:]]
        for row in out.splitlines()
        if row.startswith("float")
    }
    assert max(laws["float64"]) <= 1e-8
    assert laws["float32"][0] <= 1e-4
    assert max(laws["float32"][1:]) <= 1e-5
