"""Texts and records without values of variables that may be secrets."""

from __future__ import annotations

import json
import shlex

import pytest

from hpclaunch.core import hidden_values as module
from hpclaunch.core.hidden_values import LINE_NOT_SHOWN, NOT_SHOWN, hidden_values, variables_in
from hpclaunch.render import message

SECRET = 's3cr3t it\'s "quoted" \\ $(x)\n\x1b'
HIDDEN = hidden_values([("TOKEN", SECRET), ("OMP_NUM_THREADS", "123456789"), ("PIN", "42")])


@pytest.mark.parametrize(
    "word", ["api_key", "token", "passwd", "password", "pwd", "passphrase", "secret", "credential", "credentials"]
)
def test_every_word_for_a_secret_is_known_in_options_and_overrides(word: str) -> None:
    hidden = hidden_values()
    for before in ("İstanbul\n", ""):  # a letter whose small form is longer
        for text in (
            f"train --my-{word} hunter2 x",
            f"train model.{word}=hunter2 x",
            f"train MODEL_{word.upper()}=hunter2",
        ):
            shown = hidden.without(f"{before}{text}\n")
            assert "hunter2" not in shown and NOT_SHOWN in shown and shown.startswith(before), text


def test_a_word_after_an_option_with_its_value_stays() -> None:
    assert hidden_values().words(["--api-key=abc", "train.py"]) == [f"--api-key={NOT_SHOWN}", "train.py"]
    assert hidden_values().words(["--api-key", "abc", "train.py"]) == ["--api-key", NOT_SHOWN, "train.py"]


def test_the_longer_of_two_values_that_begin_alike_is_hidden_whole() -> None:
    hidden = hidden_values(secrets=["ab12cd34", "ab12cd34ef56"])
    assert hidden.without("x ab12cd34ef56 y") == f"x {NOT_SHOWN} y"


def test_a_plain_word_of_a_secret_argument_is_hidden_only_there() -> None:
    hidden = hidden_values(arguments=[("--api-key", "offline"), ("--api-key", "ab12cd34"), ("--lr", "abcdefgh1")])
    assert hidden.values == {"ab12cd34"}


def test_values_of_bytes_are_looked_for_in_code() -> None:

    assert b"caf\xe9-1234567" in hidden_values(secrets=["caf\udce9-1234567"]).in_code()


def test_a_typed_setting_of_a_library_is_shown() -> None:
    line = "submit --env OMP_NUM_THREADS=4 --env DB=hunter2"
    assert hidden_values().without(line) == f"submit --env OMP_NUM_THREADS=4 --env DB={NOT_SHOWN}"


@pytest.mark.parametrize("value", [SECRET, "plain", "a'b", "x;y", "$'quoted'", "back\\", "--env A=b"])
@pytest.mark.parametrize("begin", ["export ", "  export ", "declare -x ", "cd x && export "])
def test_an_exported_value_is_left_out_however_it_is_quoted(begin: str, value: str) -> None:
    line = f"{begin}TOKEN={shlex.quote(value)}\nexport OMP_NUM_THREADS=4; export B='c'\n"
    shown = hidden_values().without(line)
    assert shown == f"{begin}TOKEN='{NOT_SHOWN}'\nexport OMP_NUM_THREADS=4; export B='{NOT_SHOWN}'\n"


def test_a_value_with_escapes_of_bash_is_left_out() -> None:
    assert hidden_values().without(r"export TOKEN=$'a\'b\nc' # x") == f"export TOKEN='{NOT_SHOWN}' # x"
    assert hidden_values().without('export TOKEN="a \\" b" x') == f"export TOKEN='{NOT_SHOWN}' x"


def test_a_typed_variable_is_left_out() -> None:
    words = shlex.join(["hpclaunch", "submit", "x", "--env", f"TOKEN={SECRET}", "--env", "OMP_NUM_THREADS=4"])
    shown = hidden_values().without(words)
    assert "s3cr3t" not in shown and "TOKEN=" in shown and "OMP_NUM_THREADS=4" in shown


@pytest.mark.parametrize(("before", "after"), [('"', '"'), ("'", "'"), ('"', "")])
def test_a_typed_value_is_left_out_up_to_the_end_of_its_quotes(before: str, after: str) -> None:
    shown = hidden_values().without(f"--env {before}TOKEN=two words{after}\nnext line")
    assert shown == f"--env {before}TOKEN={NOT_SHOWN}{before}\nnext line"


def test_a_word_that_holds_the_middle_of_a_value_stays() -> None:
    hidden = hidden_values([("MODE", "training")])
    assert hidden.without("raining in a training") == f"raining in a {NOT_SHOWN}"


def test_a_long_value_is_left_out_of_every_text() -> None:
    for text in (SECRET, json.dumps(SECRET), shlex.quote(SECRET)):
        assert "s3cr3t" not in HIDDEN.without(f"before {text} after")
    assert HIDDEN.without("42 and 123456789") == "42 and 123456789", "short, and public"


def test_a_record_keeps_the_names() -> None:
    spec = {
        "environment": [["TOKEN", SECRET], ["OMP_NUM_THREADS", "4"], ["PIN", "42"], "damaged"],
        "variables": {"LOADEDMODULES": "gcc", "PIN": "42"},
        "steps": [{"command": "export PIN=42"}, 7, None],
        "why": f"because of {SECRET}",
    }
    shown = HIDDEN.plain(spec)
    assert shown["environment"] == [["TOKEN", NOT_SHOWN], ["OMP_NUM_THREADS", "4"], ["PIN", NOT_SHOWN], NOT_SHOWN]
    assert shown["variables"] == {"LOADEDMODULES": "gcc", "PIN": NOT_SHOWN}
    assert shown["steps"] == [{"command": f"export PIN='{NOT_SHOWN}'"}, 7, None]
    assert shown["why"] == f"because of {NOT_SHOWN}"
    assert variables_in(spec) == [("TOKEN", SECRET), ("OMP_NUM_THREADS", "4"), ("PIN", "42")]


@pytest.mark.parametrize(("value", "hidden"), [("12345", False), ("123456", True)])
def test_a_value_of_six_characters_is_looked_for_and_a_shorter_one_is_not(value: str, hidden: bool) -> None:
    found = hidden_values([("MY_TOKEN", value)])
    assert found.without(f"a {value} b") == ("a (value not shown) b" if hidden else f"a {value} b")
    assert found.without(f"export MY_TOKEN={value}") == "export MY_TOKEN='(value not shown)'"


def test_the_longer_of_two_values_is_hidden_whole() -> None:
    found = hidden_values([("A", "secret"), ("B", "secret-and-more")])
    assert found.without("secret-and-more, secret") == "(value not shown), (value not shown)"


def test_what_is_no_pair_is_hidden_too() -> None:
    assert hidden_values().plain({"environment": ["ab", ("A", "b"), ["A", "b", "c"], {"A": 1, "B": 2}]}) == {
        "environment": [NOT_SHOWN, ["A", NOT_SHOWN], NOT_SHOWN, NOT_SHOWN]
    }
    found = hidden_values([])
    assert found.plain({"environment": [["A", "x"], "text", ["A"], ["A", "x", "y"], ("OMP_NUM_THREADS", "8")]}) == {
        "environment": [["A", NOT_SHOWN], NOT_SHOWN, NOT_SHOWN, NOT_SHOWN, ["OMP_NUM_THREADS", "8"]]
    }
    assert hidden_values([("A", ""), ("B", "x")]).values == {"x"}
    assert found.without("export A= B") == "export A= B"


def test_a_secret_is_hidden_whatever_its_name_is_and_looked_for_in_code() -> None:
    found = hidden_values([("MODE", "offline"), ("API_KEY", "abcdefgh"), ("URL", "x://y")], secrets=["", "wordword"])
    assert found.without("offline wordword") == f"{NOT_SHOWN} {NOT_SHOWN}"
    assert found.in_code() == [b"wordword", b"abcdefgh"] or found.in_code() == [b"abcdefgh", b"wordword"]
    assert b"offline" in hidden_values([("MODE", "offline")], secrets=["offline"]).in_code()
    assert {b'p\\"\\\\q://z', b'p"\\q://z'} < {*hidden_values([("PASSWORD", 'p"\\q://z')]).in_code()}


@pytest.mark.parametrize("value", ["resnet50", "imagenet1k", "/scratch/data", "/scratch/project-123/data", "259200"])
def test_an_ordinary_value_is_not_looked_for_in_code(value: str) -> None:
    assert hidden_values([("MODEL", value)]).in_code() == []
    assert hidden_values([("MODEL_TOKEN", value)]).in_code() == [value.encode()]
    assert hidden_values(secrets=[value]).in_code() == [value.encode()]


@pytest.mark.parametrize("value", ["0123456789abcdef", "postgres://u:leak@h/db"])
def test_a_value_that_looks_like_a_secret_is_looked_for_in_code(value: str) -> None:
    assert hidden_values([("MODEL", value)]).in_code() == [value.encode()]
    assert hidden_values([("MODEL", value[1:16])]).in_code() == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("259200", "1259200 2592001 1.259200 259200.5 x259200"),
        ("100000", "1700100000.5"),
        ("training", "retraining trainings training_set"),
    ],
)
def test_a_part_of_a_longer_word_or_number_stays(value: str, text: str) -> None:
    hidden = hidden_values([("LIMIT", value)])
    assert hidden.without(text) == text
    for around in ("a {} b", "{}", "({}).", "'{}'", "x={},", r"line\n{}\n", "\x1b[31m{}\x1b[0m"):
        assert hidden.without(around.format(value)) == around.format(NOT_SHOWN)


def test_a_secret_of_letters_and_digits_is_replaced_also_in_a_longer_word() -> None:
    assert hidden_values([("MY_TOKEN", "hunter2")]).without("xhunter2y") == f"x{NOT_SHOWN}y"


def test_a_secret_that_is_a_key_of_a_record_is_replaced_and_an_ordinary_word_is_not() -> None:
    hidden = hidden_values([("LIMIT", "walltime"), ("MY_TOKEN", "hunter2")])
    assert hidden.plain({"walltime": "walltime", "hunter2": 1}) == {"walltime": NOT_SHOWN, NOT_SHOWN: 1}


LEAKING_LINES = [
    "export FOO=1 WANDB_KEY=LEAK1234",
    "MY_TOKEN=LEAK1234; export MY_TOKEN",
    "declare -gx A=LEAK1234",
    "typeset -x A=LEAK1234",
    "readonly A=LEAK1234",
    "env AZ=LEAK1234 program",
    ': "${HF:=LEAK1234}"',
    "export  QUX=LEAK'SETUP7'",
    "export A=$B'LEAK\t\\x'",
    "A[1]=LEAK1234",
    "export OMP_NUM_THREADS=4 A+=LEAK",
    "read A <<< LEAK",
    "printf -v A LEAK",
    "setenv A LEAK",
    "wandb login LEAK",
    "program --api-key LEAK",
]


@pytest.mark.parametrize("line", LEAKING_LINES)
def test_a_line_of_set_up_that_may_set_a_variable_is_left_out_whole(line: str) -> None:
    hidden = hidden_values(lines=[line, "module load gcc"])
    script = f"source x\n{line}\ncheck {message(line)}\nmodule load gcc\ncheck 'module load gcc'\n"
    shown = hidden.without(script)
    assert shown.splitlines()[:2] == ["source x", LINE_NOT_SHOWN] and "LEAK" not in shown
    assert shown.splitlines()[3:] == ["module load gcc", "check 'module load gcc'"], "the lines around it are whole"
    assert shown.splitlines()[2] in [f"check {quote}{LINE_NOT_SHOWN}{quote[-1:]}" for quote in ("", "'", "$'")]
    steps = hidden.plain([{"line": line, "failure": line}, {"line": "module load gcc"}])
    assert steps == [{"line": LINE_NOT_SHOWN, "failure": LINE_NOT_SHOWN}, {"line": "module load gcc"}]
    assert json.loads(hidden.without(json.dumps({"line": line}))) == {"line": LINE_NOT_SHOWN}


@pytest.mark.parametrize(
    "line",
    [
        "module load gcc/12 cuda",
        "source /opt/x/bin/activate",
        "export OMP_NUM_THREADS=4 NCCL_DEBUG=INFO",
        'export PATH=/x/bin:"$PATH"',
        "ulimit -s unlimited",
        "conda activate tf",
        'eval "$(conda shell.bash hook)"',
    ],
)
def test_other_lines_of_set_up_stay(line: str) -> None:
    assert hidden_values(lines=[line]).without(line) == line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--api-key LEAK --epochs 3", f"--api-key '{NOT_SHOWN}' --epochs 3"),
        ("--api-key \\\n    LEAK \\\n    --x", f"--api-key \\\n    '{NOT_SHOWN}' \\\n    --x"),
        ("--hf_token='a b' c", f"--hf_token='{NOT_SHOWN}' c"),
        ("-password=$'a\\'b' c", f"-password='{NOT_SHOWN}' c"),
        ("--url=https://u:LEAK@h/x", "--url=https://u:***@h/x"),
        (
            "--max-tokens 512 --tokenizer bert --keys 3 --monkey 4",
            "--max-tokens 512 --tokenizer bert --keys 3 --monkey 4",
        ),
        ("export A=s://u:LEAK@h b", f"export A='{NOT_SHOWN}' b"),
        ("['--key=LEAK', '--x', 'y']", f"['--key='{NOT_SHOWN}'', '--x', 'y']"),
        ("['--key', 'LEAK', 'y']", f"['--key', '{NOT_SHOWN}', 'y']"),
        ("""--key 'it'"'"'s' b""", f"--key '{NOT_SHOWN}' b"),
        ("--use-token --epochs 3", "--use-token --epochs 3"),
        (f"--key={NOT_SHOWN} x", f"--key={NOT_SHOWN} x"),
        ("https://h:8080/x http://h/u@v", "https://h:8080/x http://h/u@v"),
        ("--token 'open\nnext line", "--token 'open\nnext line"),
        ('{"argv": ["--api-key", "abc"]}', f'{{"argv": ["--api-key", "{NOT_SHOWN}"]}}'),
        ('--api-key="a b" c', f'--api-key="{NOT_SHOWN}" c'),
        ("x wandb.api_key=LEAK +logger.token='a b' y", f"x wandb.api_key='{NOT_SHOWN}' +logger.token='{NOT_SHOWN}' y"),
        ("'a.token=two words' b", f"'a.token={NOT_SHOWN}' b"),
        ('["a.token=LEAK", 1]', f'["a.token={NOT_SHOWN}", 1]'),
        ("'a_token=1.5' b", "'a_token=1.5' b"),
        ("++a.password=LEAK ~b.secret=LEAK", f"++a.password='{NOT_SHOWN}' ~b.secret='{NOT_SHOWN}'"),
        ("loss_per_token=2.31 max_token=512, key=lambda", "loss_per_token=2.31 max_token=512, key=lambda"),
        ("TOKEN=$(cat 'x') API_KEY=\"$B\"", "TOKEN=$(cat 'x') API_KEY=\"$B\""),
        ("model.pad_token=LEFT sort_key=name", "model.pad_token=LEFT sort_key=name"),
        ("--pad-token LEFT --sort-key name --rng_key=1", "--pad-token LEFT --sort-key name --rng_key=1"),
        ("--ssh-key LEAK --wandb_key=LEAK", f"--ssh-key '{NOT_SHOWN}' --wandb_key='{NOT_SHOWN}'"),
        ("\u0130\n--API-KEY LEAK\n--TOKEN \\\n  LEAK", f"\u0130\n--API-KEY '{NOT_SHOWN}'\n--TOKEN \\\n  '{NOT_SHOWN}'"),
        ("a\n--API-KEY LEAK\n--TOKEN \\\n  LEAK", f"a\n--API-KEY '{NOT_SHOWN}'\n--TOKEN \\\n  '{NOT_SHOWN}'"),
    ],
)
def test_the_value_of_an_option_for_a_secret_is_left_out(text: str, shown: str) -> None:
    assert hidden_values().without(text) == shown


def test_words_and_parameters_are_left_out_by_their_names() -> None:
    hidden = hidden_values()
    words = ["python", "--api-key", "two words", "--db-password=two words", "--use-token", "--epochs=3", 7, "x=y"]
    shown = ["python", "--api-key", NOT_SHOWN, f"--db-password={NOT_SHOWN}", "--use-token", "--epochs=3", 7, "x=y"]
    assert hidden.words(words) == shown == hidden.plain({"command": words})["command"]
    pairs = {"parameters": [["api_key", "LEAK"], ["epochs", "3"]], "settings": [["key", 7]]}
    assert hidden.plain(pairs) == {**pairs, "parameters": [["api_key", NOT_SHOWN], ["epochs", "3"]]}
    assert (hidden.parameter("hf-token", "x"), hidden.parameter("tokens", "x")) == (NOT_SHOWN, "x")


def test_an_override_for_a_secret_is_left_out_of_words() -> None:
    words = ["train.py", "wandb.api_key=abcdef99", "+logger.token=x", "~a.secret=y", "model.pad_token=z", "lr=1"]
    shown = [
        "train.py",
        f"wandb.api_key={NOT_SHOWN}",
        f"+logger.token={NOT_SHOWN}",
        f"~a.secret={NOT_SHOWN}",
        *words[4:],
    ]
    assert hidden_values().words(words) == shown


def test_lines_without_a_word_for_a_secret_are_not_searched_for_options(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def note(text: str) -> str:
        searched.append(text)
        return text

    monkeypatch.setattr(module, "_hide_options", note)
    ordinary = "epoch 3 - loss: 0.12 --x 1\n" * 3
    assert (
        hidden_values().without(f"{ordinary}--TOKEN \\\n x\n{ordinary}a pwd")
        == f"{ordinary}--TOKEN \\\n x\n{ordinary}a pwd"
    )
    assert searched == ["--TOKEN \\\n x", "a pwd"]


def test_the_value_of_an_argument_is_hidden_elsewhere_unless_it_is_a_plain_word() -> None:
    given = [("--api-key", "LEAKVAR"), ("sort_key", "accuracy"), ("epochs", "1000000"), ("--token", "abc12345")]
    hidden = hidden_values(arguments=given)
    assert hidden.without("LEAKVAR accuracy 1000000 abc12345") == f"{NOT_SHOWN} accuracy 1000000 {NOT_SHOWN}"
    assert hidden.in_code() == [b"abc12345"]


@pytest.mark.parametrize("text", ["-a." * 100_000, "--key '" * 10_000, "://a:b" * 10_000, "-" * 100_000])
def test_a_long_text_of_what_options_are_made_of_takes_no_long_time(text: str) -> None:
    assert isinstance(hidden_values().without(text), str)


@pytest.mark.parametrize("value", ["a+b(c)xyz", "where.is.it", "[any]-thing", "ends with \\", "$HOME/x y"])
def test_a_value_is_no_pattern(value: str) -> None:
    hidden = hidden_values([("MY_VALUE", value)])
    assert hidden.without(f"it is {value}, and no other") == "it is (value not shown), and no other"
    assert hidden.without("it is aab(c)xyz or where-is-it") == "it is aab(c)xyz or where-is-it"
