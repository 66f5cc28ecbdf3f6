"""What the source of a program says about its options, in the ways in which public programs declare them."""

from __future__ import annotations

import pytest

from hpclaunch.config.program_options import DeclaredOption, ProgramOptions
from hpclaunch.config.program_reader import imports_of, options_in, parsed

ARGPARSE = """
import argparse
def get_args():
    parser = argparse.ArgumentParser(description="train")
    group = parser.add_argument_group("rates")
    group.add_argument("-lr", "--learning_rate", type=float, default=1e-3)
    parser.add_argument("--batch-size", dest="batch", type=int)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction)
    parser.add_argument("data")
    return parser.parse_args()
"""
CLICK = """
import click
@click.command()
@click.option("-l", "--learning-rate", "rate", default=0.1)
@click.option("--amp/--no-amp", default=False)
@click.option("-n", default=1)
@click.argument("data")
def main(rate, amp, n, data): ...
"""
TYPER = """
import typer
from typing import Annotated
app = typer.Typer()
@app.command()
def main(context: typer.Context, data: str, learning_rate: float = 0.1, amp: bool = False,
         rate: Annotated[float, typer.Option("--the_rate")] = 1.0, need: int = typer.Option(...)): ...
"""
ABSL = """
from absl import app, flags
flags.DEFINE_float("learning_rate", 0.1, "help")
flags.DEFINE_bool("amp", False, "help")
"""
LIBRARY = """
from hpclaunch import training
settings = training.settings(epochs=4, own={"default": 1, "help": "x"})
"""


def read(text: str, **others: str) -> ProgramOptions:
    sources = {"train.py": parsed(text), **{f"{name}.py": parsed(other) for name, other in others.items()}}
    return options_in(sources, "train.py", others, ("learning_rate", "epochs"))


def row_of(found: ProgramOptions, name: str) -> DeclaredOption:
    return next(one for one in found.options if one.name == name or f"--{name}" in one.spelled)


def test_argparse_says_forms_values_and_places() -> None:
    found = read(ARGPARSE)
    rate = row_of(found, "learning_rate")
    assert (rate.spelled, rate.where, rate.takes_value) == (("-lr", "--learning_rate"), "train.py:6", True)
    assert row_of(found, "batch").spelled == ("--batch-size",)
    assert not row_of(found, "amp").takes_value
    assert (row_of(found, "compile").takes_value, row_of(found, "compile").off) == (False, "--no-compile")
    assert row_of(found, "data").spelled == ()
    assert (found.is_complete, found.form) == (True, None)


def test_click_says_its_forms_and_which_have_no_value() -> None:
    found = read(CLICK)
    assert row_of(found, "rate").spelled == ("-l", "--learning-rate")
    amp = row_of(found, "amp")
    assert (amp.spelled, amp.takes_value, amp.off) == (("--amp", "--no-amp"), False, "--no-amp")
    assert next(one for one in found.options if one.spelled == ("-n",)).glued
    assert row_of(found, "data").spelled == ()
    assert found.is_complete


def test_typer_makes_options_of_parameters() -> None:
    found = read(TYPER)
    spelled = {one.name or one.spelled[0]: one.spelled for one in found.options}
    assert spelled == {
        "data": (),
        "learning_rate": ("--learning-rate",),
        "amp": ("--amp",),
        "need": ("--need",),
        "--the_rate": ("--the_rate",),
    }
    assert not row_of(found, "amp").takes_value
    assert found.is_complete
    by_run = read("import typer\ndef go(n_steps: int = 3): ...\ntyper.run(go)\n")
    assert by_run.options[0].spelled == ("--n-steps",)


def test_flags_of_absl_may_be_more_than_the_file_has() -> None:
    found = read(ABSL)
    assert [one.spelled for one in found.options] == [("--learning_rate",), ("--amp",)]
    assert not found.is_complete


def test_a_program_of_the_training_library_has_its_settings_with_dashes() -> None:
    found = read(LIBRARY)
    assert found.form == "dashes"
    assert {form for one in found.options for form in one.spelled} == {"--learning-rate", "--epochs", "--own"}
    assert found.is_complete
    assert not read(LIBRARY.replace("epochs=4", "**known")).is_complete
    plain = read("from hpclaunch.training import on_pytorch\nsettings = on_pytorch.settings(epochs=4)\n")
    assert plain.form == "dashes"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("import fire\nfire.Fire(main)\n", "either"),
        ("import tyro as t\nargs = t.cli(Args)\n", "either"),
        ("import hydra\n@hydra.main(config_name='c')\ndef main(cfg): ...\n", "key=value"),
        ("from hydra import main as start\n@start(config_name='c')\ndef main(cfg): ...\n", "key=value"),
        ("from omegaconf import OmegaConf\ncfg = OmegaConf.from_cli()\n", "key=value"),
        ("from jsonargparse import CLI\nCLI(main)\n", "underscores"),
        ("from lightning.pytorch.cli import LightningCLI\nLightningCLI(Model)\n", "underscores"),
        ("from transformers import HfArgumentParser\nHfArgumentParser(Args)\n", "underscores"),
        ("from fire import Nothing\n", None),
    ],
)
def test_a_library_has_one_form_for_all_options(text: str, form: str | None) -> None:
    assert read(text).form == form


def test_a_module_of_ones_own_is_not_the_library_of_its_name() -> None:
    assert read("import hydra\nhydra.main()\n", hydra="def main(): ...\n").form is None


@pytest.mark.parametrize(
    "text",
    [
        "for name in NAMES:\n    parser.add_argument('--' + name)\n",
        "parser.add_argument(*words, type=int)\n",
        "args, rest = parser.parse_known_args()\n",
        "import lib\nparser = argparse.ArgumentParser(parents=[lib.parser])\n",
        "import lib\nlib.add_options(parser)\n",
        "import lib\nparser = lib.with_options(parser)\n",
        "import lib\nparser = lib.parser()\n",
        "add = parser.add_argument\nadd('--lr')\n",
        "group = parser.add_argument_group('x')\nadd = group.add_argument\nadd('--lr')\n",
        "from functools import partial\noption = partial(parser.add_argument, type=float)\noption('--lr')\n",
        "other = argparse.ArgumentParser()\nfor name in NAMES:\n    getattr(other, 'add_argument')('--' + name)\n",
        "for name, kind in {'lr': float}.items():\n    parser.add_argument(f'--{name}', type=kind)\n",
        "from operator import methodcaller as call\nlist(map(call('add_argument', '--lr'), PARSERS))\n",
        "parser._add_action(Action(['--lr']))\n",
        "import lib\nother: argparse.ArgumentParser = lib.parser()\nother.add_argument('--b')\n",
        "import lib\nargs = lib.parser().parse_args()\n",
        "from lib import parser as other\nother.add_argument('--b')\n",
        "from lib import *\nother.add_argument('--b')\n",
        "import lib\nlib.add_options([parser])\n",
        "for add in ADDERS:\n    add(parser)\n",
        "import lib\nother = parser if small else lib.parser()\nother.parse_args()\n",
        "import lib\nclass Parser(lib.Parser):\n    pass\nargs = Parser().parse_args()\n",
        "import lib\nclass A(lib.A):\n    def add(self, parser):\n        super().add(parser)\n",
        "import lib\nclass A:\n    def read(self):\n        self.p = lib.parser()\n        self.p.parse_args()\n",
        "from jsonargparse import ArgumentParser as Other\nfrom tap import Tap\n",
        "import simple_parsing as lib\nother = lib.ArgumentParser()\n",
        "parser.add_argument('rest', nargs=argparse.REMAINDER)\n",
        "parser.add_argument('rest', nargs='...')\n",
        "other = argparse.ArgumentParser(prefix_chars='+-')\n",
        "args = parser.parse_args([])\n",
        "import importlib\nimportlib.import_module(name)\n",
        "import sys\nsys.argv.remove('--lr')\n",
        "import sys\nsys.argv = [sys.argv[0]]\n",
        "import sys\nwords = [word for word in sys.argv[1:] if '=' in word]\n",
        "from sys import argv\nif '--lr' in argv[1:]:\n    pass\n",
    ],
)
def test_a_parser_that_may_have_more_options_is_not_complete(text: str) -> None:
    begin = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--a', type=int)\n"
    assert read(begin).is_complete
    assert not read(begin + text).is_complete


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nargs = parser.parse_args(sys.argv[1:])\nprint(' '.join(sys.argv), len(sys.argv))\n",
        "group = parser.add_argument_group('x')\ngroup.add_argument('--b')\n",
        "parts = parser.add_subparsers()\none = parts.add_parser('fit')\none.add_argument('--b')\n",
        "class A:\n    def read(self):\n        self.p = argparse.ArgumentParser()\n        self.p.parse_args()\n",
        "class P(argparse.ArgumentParser):\n    def set(self):\n        self.add_argument('--b')\nP().parse_args()\n",
        "def add(to):\n    to.add_argument('--b')\nadd(parser)\n",
        "def main(argv=None):\n    args = parser.parse_args(argv)\n",
        "same = parser\nsame.add_argument('--b')\n",
        "for one in (parser, argparse.ArgumentParser()):\n    one.add_argument('--b')\n",
        "from optparse import *\np = OptionParser()\ng = OptionGroup(p, T)\ng.add_option('-b')\np.add_option_group(g)",
    ],
)
def test_a_parser_whose_options_all_stand_in_the_source_is_complete(text: str) -> None:
    assert read("import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--a')\n" + text).is_complete


@pytest.mark.parametrize(
    "text",
    [
        CLICK.replace('"-n"', "NAME"),
        CLICK.replace("@click.command()", "@click.command(cls=Command)"),
        CLICK + "import lib\ncli = click.Group()\ncli.add_command(lib.command)\n",
        CLICK + "more = [click.Option([f'--{name}']) for name in NAMES]\n",
        CLICK + "option = click.option\n",
    ],
)
def test_click_with_options_that_are_made_is_not_complete(text: str) -> None:
    assert not read(text).is_complete
    assert read(CLICK + "more = [click.Option(['--more'])]\n").options[-1].spelled == ("--more",)


def test_a_parser_that_the_program_never_runs_says_nothing_of_its_options() -> None:
    own = "import argparse\ndef {name}():\n    argparse.ArgumentParser().parse_args()\n"
    own += "if __name__ == '__main__':\n    {name}()\n"
    main = "import data\ndef main():\n    data.load()\nmain()\n"
    assert not read(main, data=own.format(name="main")).is_complete
    assert read(main.replace("data.load", "data.read"), data=own.format(name="read")).is_complete
    indirect = "def load():\n    read()\n" + own.format(name="read")
    assert read(main, data=indirect).is_complete


def test_an_option_of_optparse_without_a_long_form_takes_no_sign() -> None:
    found = read("import optparse\np = optparse.OptionParser()\np.add_option('-n', dest='count', type='int')\n")
    assert row_of(found, "count").glued
    assert not row_of(read(ARGPARSE), "learning_rate").glued


def test_a_function_of_another_file_of_the_program_is_read_there() -> None:
    main = "import argparse\nimport rates\nparser = argparse.ArgumentParser()\nparser.add_argument('--a')\n"
    found = read(
        main + "rates.add_to(parser)\n", rates="def add_to(parser):\n    parser.add_argument('--learning-rate')\n"
    )
    assert row_of(found, "learning-rate").where == "rates.py:2"
    assert found.is_complete


def test_click_that_lets_other_options_pass_is_not_complete() -> None:
    text = CLICK.replace("command()", "command(context_settings={'ignore_unknown_options': True})")
    assert not read(text).is_complete
    assert not read(CLICK.replace("@click.command()", "@click.command()\n@library.rates")).is_complete


@pytest.mark.parametrize("text", ["print 'Python 2'\n", "x = (\n", "\0", "(" * 5000 + ")" * 5000])
def test_a_file_that_cannot_be_parsed_says_nothing(text: str) -> None:
    assert parsed(text) is None
    assert not options_in({"train.py": None}, "train.py").is_complete


def test_imports_are_found_anywhere_in_a_file() -> None:
    source = parsed("import a.b\ndef f():\n    from .c import d\nfrom e import g\n")
    assert source is not None
    assert list(imports_of(source)) == [(0, "a.b"), (0, "e"), (0, "e.g"), (1, "c"), (1, "c.d")]
