"""The words with which a program that declares no parameters gets the swept values: as the program spells them."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.config.program_options import DeclaredOption, ProgramOptions
from hpclaunch.core.errors import did_you_mean, nearest
from hpclaunch.core.spec import Choice, Pairs
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions

_MOST_LISTED = 12


def option_words(names: Sequence[str], case: Case, decisions: Decisions) -> Pairs:
    """Return (name, what stands before its value in a run's word): ``("learning_rate", "--learning-rate=")``.

    ``names``: those that stand nowhere in the arguments as ``{NAME}``. An option that the program does not have is a
    fault. If its options are not known, a name is passed on as it was typed, and a warning says so.
    """
    known = case.program_options
    if known is None:
        _warn_of_unknown(names, case.request.target, decisions)
        return ()
    words, unknown = [], []
    for name in names:
        word = _word(name, known, case.space_file, decisions)
        if word:
            words.append((name, word))
        elif word is None:
            unknown.append(name)
    _warn_of_unknown(unknown, known.program, decisions, known.options)
    return tuple(words)


def _word(name: str, known: ProgramOptions, file: str, decisions: Decisions) -> str | None:
    """Return what stands before the value; None if it is not known, empty text if it is a fault."""
    found = _options_named(name, known)
    forms = dict.fromkeys(_form_of(one, name) for one in found)
    if len(forms) > 1:
        places = " and ".join(f"{_form_of(one, name)} ({one.where})" for one in found)
        _fault(
            decisions,
            name,
            file,
            f"{known.program} has two options of this name: {places}",
            _place(found[0].spelled[-1], name),
        )
        return ""
    if found:
        return _word_of(found[0], name, known, file, decisions)
    place = next((one.where for one in known.options if not one.spelled and _is_same(one.name, name)), "")
    if place:
        what = f"{name!r} is a positional argument of {known.program} ({place}), and has no option"
        _fault(decisions, name, file, what, f"write its place after --, as in: -- {{{name}}}")
        return ""
    if known.is_complete:
        options = sorted({one.spelled[-1].lstrip("-") for one in known.options if one.spelled})
        what = f"{known.program} has no option --{name}{did_you_mean(name, options)}"
        near, place = nearest(name, options), _place(f"--{name}", name)
        instead = f"name it {near} in {file}" if file else f"--sweep {near}=…"
        _fault(decisions, name, file, what, f"{instead}; or {place}" if near else place, allowed=_list_of(options))
        return ""
    return _word_by_form(name, known, decisions)


def _options_named(name: str, known: ProgramOptions) -> list[DeclaredOption]:
    """Return the options of this name: spelled exactly so, else with other dashes, else with a value of this name."""
    exact = [one for one in known.options if {f"--{name}", f"-{name}"} & set(one.spelled)]
    alike = [one for one in known.options if any(_is_same(form.lstrip("-"), name) for form in one.spelled)]
    called = [one for one in known.options if one.spelled and one.name and _is_same(one.name, name)]
    return exact[:1] or alike or called


def _form_of(option: DeclaredOption, name: str) -> str:
    """Return the form that takes a value after ``=``: the typed one if it is long, else another long one."""
    typed = [form for form in option.spelled if form == f"--{name}"]
    long = [form for form in option.spelled if form.startswith("--")]
    alike = [form for form in long if _is_same(form.lstrip("-"), name)]
    return [*typed, *alike, *long, *option.spelled][0]


def _word_of(option: DeclaredOption, name: str, known: ProgramOptions, file: str, decisions: Decisions) -> str:
    form = _form_of(option, name)
    if not option.takes_value:
        what = f"{form} takes no value ({option.where})"
        choice = f'{name}: ["{form}", "{option.off}"] in {file}' if file else f"--sweep {name}={form},{option.off}"
        choice = f"{choice} and -- {{{name}}}" if option.off else f"one run with -- {form}"
        _fault(decisions, name, file, what, choice)
        return ""
    if option.glued and not form.startswith("--"):
        what = f"{known.program} has only the short option {form} ({option.where}), which takes no '='"
        _fault(decisions, name, file, what, _place(form, name))
        return ""
    _note(name, f"{form}=", option.where, decisions)
    return f"{form}="


def _word_by_form(name: str, known: ProgramOptions, decisions: Decisions) -> str | None:
    """Return the word by the rule of the program's library; None if there is none."""
    head = name.partition(".")[0]
    if head != name and any(f"--{head}" in one.spelled for one in known.options):
        return f"--{name}="  # a setting inside of one that is declared
    if known.form is None:
        return None
    words = {
        "dashes": f"--{name.replace('_', '-')}=",
        "underscores": f"--{name.replace('-', '_')}=",
        "either": f"--{name}=",
        "key=value": f"{name}=",
    }
    _note(name, words[known.form], known.form_source, decisions)
    return words[known.form]


def _note(name: str, word: str, where: str, decisions: Decisions) -> None:
    if word != f"--{name}=":
        decisions.choices.append(Choice(key="option", value=f"{word}…", origin=where))


def _fault(decisions: Decisions, name: str, file: str, what: str, next_step: str, allowed: str = "") -> None:
    where = f"{file}: {name}" if file else f"--sweep {name}"
    decisions.fault(what, where=where, allowed=allowed, next=next_step)


def _place(form: str, name: str) -> str:
    """Return what to type so that the value stands where the program wants it."""
    word = f"{form}={{{name}}}" if form.startswith("--") else f"{form} {{{name}}}"
    return f"write its place after --, as in: -- {word}"


def _warn_of_unknown(
    names: Sequence[str], program: str, decisions: Decisions, options: Sequence[DeclaredOption] = ()
) -> None:
    if not names:
        return
    words = " ".join(f"--{name}=…" for name in names)
    spelled = sorted({one.spelled[-1].lstrip("-") for one in options if one.spelled})
    if spelled:
        text = f"{program} can have more options than its source shows, so it gets {words}"
        near = [f"--{found}" for name in names if (found := nearest(name, spelled))]
        text += f" (the source shows {', '.join(near)})" if near else ""
    else:
        text = f"how {program} spells its options is not known, so it gets {words}"
    text += f"; if that is wrong, {_place('--option', names[0])}"
    if text not in decisions.warnings:
        decisions.warnings.append(text)


def _is_same(one: str, other: str) -> bool:
    return one.replace("-", "_") == other.replace("-", "_")


def _list_of(names: Sequence[str]) -> str:
    more = f", and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more
