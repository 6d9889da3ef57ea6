"""The ``bitr`` command."""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; exit status 0 on success, 2 for bad usage or bad input, 1 for anything else."""
    parser = argparse.ArgumentParser(
        prog="bitr", description="Point cloud assembly that moves with the pieces."
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="recover a motion without training, then check the laws on two pieces of a shape",
        epilog="example: bitr demo --seed 3",
    )
    demo.add_argument("--seed", type=int, default=0, help="of the shape, the motions and the weights")
    bench = commands.add_parser(
        "bench",
        help="speed and memory, in units of a matrix product and beside e3nn",
        epilog="example: bitr bench --quick --json",
    )
    bench.add_argument("--quick", action="store_true", help="fewer sizes: under a minute")
    bench.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args(arguments)
    if options.version:
        from bitr import __version__

        print(__version__)
        return 0
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    if options.command == "demo":
        from bitr.cli.demo import demo as run_demo

        run_demo(options.seed)
    else:
        from bitr.cli.bench import bench as run_bench

        run_bench(options.quick, options.json)
    return 0
