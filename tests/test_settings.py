"""Settings: what is written comes back the same, and everything that is wrong is named."""

from dataclasses import dataclass, field, fields
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bitr.errors import InputError
from bitr.model import BITRConfig
from bitr.settings import apply_changes, from_file, from_mapping, to_mapping, to_toml
from bitr.training import TrainConfig
from bitr.training.config import LIMITS, DataConfig, LossConfig, OptimizerConfig, RunConfig
from tests.training import cases

TEXT = st.text(st.characters(exclude_categories=["Cs"]))  # TOML is UTF-8: it has no half characters


@dataclass(frozen=True)
class Inner:
    number: float = 0.5
    pair: tuple[int, int] = (1, 2)
    many: tuple[str, ...] = ("a",)


@dataclass(frozen=True)
class Outer:
    text: str = "x"
    count: int = 1
    on: bool = False
    kind: Literal["one", "two"] = "one"
    inner: Inner = field(default_factory=Inner)


def values_of(cls):
    """A strategy for every setting of a training config's table, inside its limits."""
    table = next(name for name, its in cases.TABLES.items() if its is cls)
    return st.builds(
        cls,
        **{
            name: _value_of(kind, *LIMITS.get(f"{table}.{name}", (0, 0)))
            for name, kind in get_type_hints(cls).items()
        },
    )


def _value_of(kind, low, high):
    if kind in (int, float):
        return st.integers(int(low), int(high)) if kind is int else st.floats(low, high)
    return (
        st.sampled_from(get_args(kind))
        if get_origin(kind) is Literal
        else {str: TEXT, bool: st.booleans()}[kind]
    )


CONFIGS = st.builds(
    TrainConfig,
    data=values_of(DataConfig),
    model=st.sampled_from([BITRConfig(), BITRConfig.paper(), cases.MODEL, BITRConfig(normals=True)]),
    loss=values_of(LossConfig).filter(lambda loss: loss.translation != "paper" or loss.compare == "pose"),
    optimizer=values_of(OptimizerConfig),
    run=values_of(RunConfig),
)


def read(tmp_path, text, cls=Outer, changes=()):
    path = tmp_path / "a.toml"
    path.write_text(text, encoding="utf-8")
    return from_file(cls, path, changes)


@settings(deadline=None)
@given(CONFIGS)
def test_every_training_config_comes_back_from_toml_and_from_a_mapping(tmp_path_factory, config):
    path = tmp_path_factory.mktemp("toml") / "a.toml"
    path.write_text(to_toml(config), encoding="utf-8")
    assert from_file(TrainConfig, path) == config
    assert from_mapping(TrainConfig, to_mapping(config), "a mapping") == config


@settings(deadline=None)
@given(st.builds(Inner, st.floats(allow_nan=False), st.tuples(st.integers(), st.integers()), st.tuples(TEXT)))
@example(Inner(many=('\x00\x1f\x7f\\"\n',)))
def test_any_number_and_text_comes_back(tmp_path_factory, inner):
    path = tmp_path_factory.mktemp("toml") / "a.toml"
    path.write_text(to_toml(Outer(inner=inner)), encoding="utf-8")
    assert from_file(Outer, path) == Outer(inner=inner)


def test_a_file_states_differences_and_the_rest_is_as_the_class_has_it(tmp_path):
    assert read(tmp_path, "") == Outer()
    found = read(tmp_path, 'count = 3\n[inner]\nnumber = 2\npair = [5, 6]\nmany = ["b", "c"]')
    assert found == Outer(count=3, inner=Inner(2.0, (5, 6), ("b", "c")))
    assert type(found.inner.number) is float


def test_the_defaults_of_training_are_what_an_empty_file_gives(tmp_path):
    assert read(tmp_path, "", TrainConfig) == TrainConfig()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("count=7", Outer(count=7)),
        (" count = 7 ", Outer(count=7)),
        ("text=plain words", Outer(text="plain words")),
        ('text="7"', Outer(text="7")),
        ("text=a=b", Outer(text="a=b")),
        ("text=", Outer(text="")),
        ("text=2024-01-31", Outer(text="2024-01-31")),
        ("on=true", Outer(on=True)),
        ("inner.number=1e-3", Outer(inner=Inner(number=1e-3))),
        ("inner.number=2", Outer(inner=Inner(number=2.0))),
        ("inner.pair=[3, 4]", Outer(inner=Inner(pair=(3, 4)))),
        ("inner={number = 4.5}", Outer(inner=Inner(number=4.5))),
    ],
)
def test_a_change_is_a_toml_value_or_plain_text(tmp_path, change, expected):
    assert read(tmp_path, "", changes=[change]) == expected


def test_changes_come_after_the_file_and_the_last_one_counts(tmp_path):
    found = read(tmp_path, "count = 3\n[inner]\nnumber = 2\npair = [5, 6]", changes=["count=4", "count=5"])
    assert (found.count, found.inner.pair) == (5, (5, 6))
    kept = read(tmp_path, "[inner]\npair = [5, 6]", changes=["inner.number=9"])
    assert kept.inner == Inner(9.0, (5, 6))


def test_a_change_leaves_what_was_given_as_it_is():
    values = {"inner": {"number": 1.0}}
    assert apply_changes(values, ["inner.number=2"]) == {"inner": {"number": 2}}
    assert values == {"inner": {"number": 1.0}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cuont = 1", "unknown setting cuont; did you mean count?"),
        ("zzz = 1", "unknown setting zzz; expected one of text, count, on, kind, inner"),
        ("[inner]\nnumbr = 1", "unknown setting inner.numbr; did you mean inner.number?"),
        ("count = 1.0", "found count = 1.0, expected a whole number"),
        ("count = true", "found count = True, expected a whole number"),
        ("on = 1", "found on = 1, expected true or false"),
        ("text = 1", "found text = 1, expected text"),
        ('kind = "three"', "found kind = 'three', expected one of 'one', 'two'"),
        ("kind = [1]", r"found kind = \[1\], expected one of"),
        ("inner = 3", "found inner = 3, expected a table"),
        ('[inner]\nnumber = "2"', "found inner.number = '2', expected a number"),
        ("[inner]\npair = [1]", r"found inner.pair = \[1\], expected a list of 2 values"),
        ("[inner]\npair = [1, 2, 3]", r"found inner.pair = \[1, 2, 3\], expected a list of 2 values"),
        ("[inner]\npair = [1, 2.5]", "found inner.pair = 2.5, expected a whole number"),
        ("[inner]\npair = 1", "found inner.pair = 1, expected a list"),
        ("count = ", "not TOML"),
        ("count = 1\ncount = 2", "not TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path, text, says):
    with pytest.raises(InputError, match=says) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(str(tmp_path / "a.toml"))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("change", ["count", "=3", " = 3", "count.inner=3", "text.a.b=3"])
def test_a_change_that_is_none_is_named(tmp_path, change):
    with pytest.raises(InputError, match=f"--set {change}:"):
        read(tmp_path, 'count = 1\ntext = "a"', changes=[change])


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml: cannot be read \(No such file or directory\)"):
        from_file(Outer, tmp_path / "none.toml")
    with pytest.raises(InputError, match="cannot be read"):
        from_file(Outer, tmp_path)
    (tmp_path / "b.toml").write_bytes(b"text = '\xff'")
    with pytest.raises(InputError, match=r"b\.toml: not TOML"):
        from_file(Outer, tmp_path / "b.toml")


def test_text_that_is_no_utf8_is_refused_before_it_is_to_be_written():
    with pytest.raises(InputError, match=r"--set: found text = 'a.udcff', expected text in UTF-8"):
        from_mapping(Outer, apply_changes({}, ["text=a\udcff"]), "--set")


@pytest.mark.parametrize("name", LIMITS)
def test_every_range_of_training_is_kept(tmp_path, name):
    table, key = name.split(".")
    low, high = LIMITS[name]
    kind = type(getattr(getattr(TrainConfig(), table), key))
    for value in (low, high):
        read(tmp_path, f"{name} = {kind(value)!r}", TrainConfig)
    for value in (kind(low - 1), kind(high + 1)):
        with pytest.raises(InputError, match=rf"a\.toml: {name} = .*: expected") as raised:
            read(tmp_path, f"{name} = {value!r}", TrainConfig)
        assert repr(value) in str(raised.value)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_that_are_none_are_refused(tmp_path, value):
    with pytest.raises(InputError, match=r"optimizer\.rate"):
        read(tmp_path, f"optimizer.rate = {value}", TrainConfig)


def test_the_papers_translation_term_is_not_left_out_in_silence(tmp_path):
    with pytest.raises(InputError, match=r"a\.toml: loss\.translation = 'paper' compares poses"):
        read(tmp_path, "[loss]\ntranslation = 'paper'", TrainConfig)
    assert read(tmp_path, "[loss]\ntranslation = 'paper'\ncompare = 'pose'", TrainConfig)


def test_every_number_of_training_has_a_range():
    """A setting without one could be negative."""
    tables = cases.TABLES.items()
    numbers = {f"{t}.{f.name}" for t, cls in tables for f in fields(cls) if f.type in ("int", "float")}
    assert numbers == set(LIMITS)


def test_the_models_own_limits_name_the_file_too(tmp_path):
    with pytest.raises(InputError, match=r"a\.toml: num_layers = 0: expected"):
        read(tmp_path, "[model]\nnum_layers = 0", TrainConfig)
