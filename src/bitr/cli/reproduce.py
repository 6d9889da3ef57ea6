"""``bitr reproduce``: a table or figure of the paper again, beside the paper's own figures."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bitr.cli.console import Counter
    from bitr.training.log import Listener

HELP = (
    "Make a table or figure of the paper again: take the data, train, test three times on different samples, "
    "and write a table (Markdown), a JSON and plots, with the paper's figures in the next column.\n\n"
    "NAME is toy, ablation, complete-matching, airplane, inter-class, fragments, indoor, outdoor, "
    "manipulation, unseen, low-overlap, or all. The same command again goes on where it was stopped; a "
    "finished training is not repeated."
)
EXAMPLE = "example: bitr reproduce toy --budget 10m --out reproduced"


class Baselines(str, Enum):
    """Which other methods are run."""

    none = "none"
    classical = "classical"
    all = "all"


Name = Annotated[str, typer.Argument(help="The experiment, or all.")]
Budget = Annotated[
    str,
    typer.Option(
        help="Time that each experiment may train, as 10m or 1h, shared by its models; each learned baseline "
        "gets as much as the model beside it. full: the steps that the config says."
    ),
]
Out = Annotated[
    Path, typer.Option(help="Folder; each experiment has its own in it. Older results are replaced.")
]
Seed = Annotated[int, typer.Option(help="Of training and of the first sampling; the others count up.", min=0)]
Samplings = Annotated[int, typer.Option(help="How often the test pairs are sampled anew.", min=1)]
Model = Annotated[
    str | None, typer.Option(help="Weights to use, a shipped name or a path; nothing is trained then.")
]
Train = Annotated[bool, typer.Option("--train", help="Train, although weights for the data come with bitr.")]
Limit = Annotated[int | None, typer.Option(help="Only the first so many pairs of each sampling.", min=1)]
Which = Annotated[
    Baselines | None,
    typer.Option(help="Other methods in the table; by default classical up to 10m, all with more time."),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=V", help="Change a training setting, as run.batch=4."),
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--data-root", help="The folder of data sets; by default what the variable BITR_DATA names."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else there.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log each step, and where an error came from.")
]


def run(
    name: Name,
    budget: Budget = "10m",
    out: Out = Path("reproduced"),
    seed: Seed = 0,
    samplings: Samplings = 3,
    model: Model = None,
    train: Train = False,
    limit: Limit = None,
    baselines: Which = None,
    changes: Changes = None,
    data_root: Root = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """The whole command; see HELP."""
    import sys

    from bitr.cli.console import session
    from bitr.errors import InputError

    if train and model is not None:
        raise InputError("--train and --model: choose one; with --model nothing is trained")
    try:
        with session(verbose, counted=True) as progress:  # torch takes a second to import
            from bitr.evaluation.reproduce import Budget as Time
            from bitr.evaluation.reproduce import Plan, experiment, run_all, run_one

            plan = Plan(
                out=out,
                budget=Time.of(budget),
                seed=seed,
                samplings=samplings,
                limit=limit,
                model=model,
                retrain=train,
                baselines=None if baselines is None else baselines.value,
                changes=tuple(changes or ()),
                root=data_root,
                listener=_listener(progress),
                progress=progress,
            )
            found, files = run_all(plan) if name == "all" else run_one(experiment(name), plan)
    except KeyboardInterrupt:
        print(f"bitr: stopped; the same command goes on from what is in {out}", file=sys.stderr)
        raise
    print(found.to_json() if json else found.to_markdown(), end="\n" if json else "")
    for path in () if json else files:
        print(f"wrote {path}")


def _listener(progress: Counter) -> Listener:
    """Validations as lines; the steps between them move the bar."""
    from bitr.cli.train_display import Lines
    from bitr.training.log import Record

    class Validations(Lines):
        def started(self, step: int, steps: int) -> None:
            super().started(step, steps)
            self.steps = steps

        def recorded(self, record: Record) -> None:
            progress(record.step, self.steps)
            if record.val_loss is not None:
                super().recorded(record)

    return Validations()
