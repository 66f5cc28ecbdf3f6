"""The completion function for bash. Typer's own does not know that bash ends a word at each = and : of NAME=VALUE."""

from __future__ import annotations

# The words that bash has split are joined before hpclaunch sees them. Bash tells no difference between a=b and a = b;
# the first is what people type. At the cursor bash adds only what follows the last = or :. No space follows NAME=.
_SCRIPT = r"""
%(complete_func)s() {
    local IFS=$'\n' words=() last=-1 number word cut
    for ((number = 0; number <= COMP_CWORD; number++)); do
        word=${COMP_WORDS[number]}
        if ((number)) && [[ $word =~ ^[=:]+$ || (-n $word && ${COMP_WORDS[number - 1]} =~ [=:]$) ]]; then
            words[last]+=$word
        else
            words[++last]=$word
        fi
    done
    COMPREPLY=( $( env COMP_WORDS="${words[*]}" COMP_CWORD=$last %(autocomplete_var)s=complete_bash "$1" ) )
    if [[ ${words[last]} != "$word" ]]; then
        cut=${words[last]%%"${words[last]##*[=:]}"}
        COMPREPLY=( "${COMPREPLY[@]#"$cut"}" )
    fi
    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
    return 0
}

complete -o default -F %(complete_func)s %(prog_name)s
"""


def offer() -> None:
    """Let Typer show and install this function; it has no public place for it."""
    from typer import _completion_shared

    _completion_shared._completion_scripts["bash"] = _SCRIPT
