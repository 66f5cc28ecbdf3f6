from __future__ import annotations

import pytest

from hpclaunch.core.shell_commands import NotShell, commands_in


def words_of(text: str) -> list[tuple[str, ...]]:
    return [command.values for command in commands_in(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("srun a\n# srun b\nc # srun\n", [("srun", "a"), ("c",)]),
        ("a 'b c' \"d e\" f\\ g", [("a", "b c", "d e", "f g")]),
        ("a $'x\\'y' z", [("a", "x\\'y", "z")]),
        ("a \\\n  b", [("a", "b")]),
        ("a\r\nb\r\n", [("a",), ("b",)]),
        ("a && b || c; d & e | f |& g", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",), ("g",)]),
        ("cat <<END\nsrun inside\nEND\nb", [("cat",), ("b",)]),
        ("cat <<-'E F'\nsrun inside\n\tE F\nb", [("cat",), ("b",)]),
        ("cat <<< srun > out 2>&1", [("cat",)]),
        ("if [ -n x ]; then a; else b; fi", [("[", "-n", "x", "]"), ("a",), ("b",)]),
        ("for i in 1 2; do a $i; done", [("a", "$i")]),
        ("while read l; do a; done < file", [("read", "l"), ("a",)]),
        ("case $x in a|b) c ;; *) d ;; esac; e", [("c",), ("d",), ("e",)]),
        ("f() { a; }\nfunction g { b; }\nf", [("a",), ("b",), ("f",)]),
        ("(cd x; a)", [("cd", "x"), ("a",)]),
        ("[[ $a && ( b < c ) ]] && d", [("[[", "$a", "b", "]]"), ("d",)]),
        ("((i++)); a", [("((",), ("a",)]),
        ("a $(b | c; d) `e; f` ${g:-h i} $((1 + 2))", [("a", "$(b | c; d)", "`e; f`", "${g:-h i}", "$((1 + 2))")]),
        ("a <(b; c) | d", [("a", "<(b; c)"), ("d",)]),
        ("x=(1 2 3)\na", [(), ("a",)]),
        ("a#b c", [("a#b", "c")]),
        ("", []),
    ],
)
def test_a_script_is_divided_as_the_shell_divides_it(text: str, words: list[tuple[str, ...]]) -> None:
    assert words_of(text) == words


def test_a_command_says_where_it_stands_and_what_ends_it() -> None:
    commands = commands_in("a\n\nif b; then\n  c 'x\ny' > out &\nfi\nd")
    assert [(one.line, one.depth, one.ended_by) for one in commands] == [
        (1, 0, ""),
        (3, 1, ";"),
        (4, 1, "&"),
        (7, 0, ""),
    ]
    assert commands[2].text == "c 'x\ny' > out" and commands[2].redirections == ("> out",)


def test_assignments_stand_apart_and_a_word_says_whether_it_is_expanded() -> None:
    (command,) = commands_in('A=1 B="x y" C=$HOME run \'a$b\' ~/x *.py "$1"')
    assert [(name, word.value, word.is_literal) for name, word in command.assignments] == [
        ("A", "1", True),
        ("B", "x y", True),
        ("C", "$HOME", False),
    ]
    assert [word.is_literal for word in command.words] == [True, True, False, False, False]


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a $(b", "a ${b", "a `b", "((a", "a )) >"])
def test_a_text_that_is_not_closed_is_no_script(text: str) -> None:
    with pytest.raises(NotShell):
        commands_in(text)
