"""``bitr reproduce``: make a table or figure of the paper again, beside the paper's own figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitr.cli import options
from bitr.cli.options import check_choice, print_report, say, session
from bitr.cli.train import Records
from bitr.errors import require

EXAMPLE = "bitr reproduce toy --budget 10m -o reproduced"
BASELINES = "none|classical|all"

Name = Annotated[
    str,
    typer.Argument(
        help="Name of the experiment, or all.", autocompletion=options.offer(options.list_experiments)
    ),
]
Budget = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Time that each experiment may train, as 10m or 1h, shared by its models; each learned baseline "
        "gets as much as the model beside it. full: the steps that the config says.",
    ),
]
Output = Annotated[Path, options.write_to("Folder for the experiments; older results are replaced.")]
Samplings = Annotated[int, typer.Option(help="Number of times that the test pairs are sampled.", min=1)]
Model = Annotated[str | None, options.take_model("Use these weights, by name or path, and train nothing.")]
Train = Annotated[bool, typer.Option("--train", help="Train, although weights for the data come with bitr.")]
Baselines = Annotated[
    str | None,
    options.choose(BASELINES, "Other methods; by default classical up to 10m, all with more time."),
]


def run(
    name: Name,
    budget: Budget = "10m",
    output: Output = Path("reproduced"),
    seed: options.Seed = 0,
    samplings: Samplings = 3,
    model: Model = None,
    train: Train = False,
    limit: options.Limit = None,
    baselines: Baselines = None,
    changes: options.Changes = None,
    data_root: options.Root = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Make a table or figure of the paper again, with the paper's figures in the next column.

    Take the data, train, test three times on different samples, and write a table (Markdown), a JSON and
    plots. NAME is toy, ablation, complete-matching, airplane, inter-class, fragments, indoor, outdoor,
    manipulation, unseen, low-overlap; laws, speed, engine or puzzles for the other tables of BENCHMARK.md; or
    all. The folder tables/ gets the rows of BENCHMARK.md. The same command again continues where it was
    stopped; a finished training is not repeated.
    """
    is_clear = not train or model is None
    require(is_clear, "--train and --model: choose one; with --model nothing is trained")
    check_choice("--baselines", baselines, BASELINES)
    try:
        with session(verbose, counted=True) as progress:  # torch takes a second to import
            from bitr.evaluation import experiment, reproduce, tables

            plan = experiment.Plan(
                out=output,
                budget=budget,
                seed=seed,
                samplings=samplings,
                limit=limit,
                model=model,
                retrain=train,
                baselines=baselines,  # type: ignore[arg-type]  # checked above
                changes=tuple(changes or ()),
                root=data_root,
                listener=Records(progress),
                progress=progress,
            )
            if name in experiment.MEASURED:
                text, files = tables.run_table(name, plan)
                text = tables.as_json(name, text) if json else text
            else:
                one = None if name == "all" else experiment.find_experiment(name)
                result, files = reproduce.run_all(plan) if one is None else reproduce.run_one(one, plan)
                text = result.to_json() if json else result.to_markdown()
    except KeyboardInterrupt:
        say(f"stopped; the same command goes on from what is in {output}")
        raise
    print_report(text, files, json)
