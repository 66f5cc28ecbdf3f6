"""Row 19, and: nothing that is typed can add an #SBATCH line."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import script_job
from hpclaunch.core.errors import Refused
from hpclaunch.core.spec import JobSpec
from hpclaunch.render import directive, render
from tests.builders import NOWHERE, ROOTS, a_context, a_job, a_site, planned
from tests.property.typed_text import file_names, lines, plain_texts, texts

SBATCH = "x\n#SBATCH --nodes=99"
SLURM_READS = ("#SBATCH", "#PBS", "#BSUB")


def words(line: str) -> list[str]:
    """Read a directive as sbatch does (slurm, src/sbatch/opt.c, _get_argument): quotes, backslashes, #."""
    found: list[str] = []
    current, quote, open_word, escaped = "", "", False, False
    for character in line:
        if escaped:
            current, escaped = current + character, False
        elif character == "\\":
            escaped = open_word = True
        elif quote:
            current, quote = (current, "") if character == quote else (current + character, quote)
        elif character in "\"'":
            quote, open_word = character, True
        elif character == "#":
            break
        elif character.isspace():
            found, current, open_word = ([*found, current] if open_word else found), "", False
        else:
            current, open_word = current + character, True
    return [*found, current] if open_word else found


def check(spec: JobSpec) -> None:
    """The directives of the script are exactly the spec's, and all stand before the first command."""
    script = render(spec, ROOTS).split("\n")
    assert script[0] == f"#!{spec.shell}"
    read = [n for n, line in enumerate(script) if line.startswith(SLURM_READS)]
    first_command = next(n for n, line in enumerate(script) if line.strip() and not line.startswith("#"))
    expected = [[f"--{name}={value}" if value else f"--{name}"] for name, value in spec.directives]
    assert [words(script[n].removeprefix("#SBATCH")) for n in read] == expected
    assert max(read) < first_command


@given(
    arguments=st.lists(texts, max_size=5),
    value=plain_texts,
    setup=lines.filter(lambda line: not line.startswith("#")),  # a file's own shell code
    account=texts,
    comment=texts,
    run_dir=texts,
    cwd=texts,
)
@example(arguments=[SBATCH], value=SBATCH, setup="x", account="a", comment="x", run_dir="r", cwd="c")
@example(arguments=[], value="", setup="x", account=SBATCH, comment=SBATCH, run_dir=SBATCH, cwd=SBATCH)
@example(arguments=[], value="", setup="x", account="a", comment='"a # b\\', run_dir="a 'b' \"c\" #d", cwd="c")
def test_nothing_typed_adds_a_directive(
    arguments: list[str], value: str, setup: str, account: str, comment: str, run_dir: str, cwd: str
) -> None:
    job = a_job(environment=Environment(setup=(setup,), variables={"A": value}, python="x"))
    context = a_context(run_dir=f"/home/{run_dir}", cwd=f"/home/{cwd}")
    options = (f"--comment={comment}",)
    try:
        spec = planned(
            a_site(), job, None, context, arguments=tuple(arguments), account=account or None, sbatch=options
        )
    except Refused:
        return
    check(spec)


@given(name=file_names, arguments=st.lists(texts, max_size=3), suffix=st.sampled_from([".py", ".sh", ""]))
def test_no_scripts_name_adds_a_directive(name: str, arguments: list[str], suffix: str) -> None:
    job = script_job(NOWHERE / (name + suffix))
    try:
        spec = planned(job=job, target=f"./{name}{suffix}", arguments=tuple(arguments))
    except Refused:
        return
    check(spec)


@given(value=st.text(min_size=1).filter(lambda text: all(c >= " " and c != "\x7f" for c in text)))
def test_a_directives_value_is_read_back_as_it_was(value: str) -> None:
    assert words(f" --comment={directive(value)}") == [f"--comment={value}"]


@given(option=texts)
def test_any_sbatch_option_is_one_directive_or_a_refusal(option: str) -> None:
    try:
        spec = planned(sbatch=(option,))
    except Refused as refusal:
        assert len(refusal.faults) == 1
        return
    check(spec)
