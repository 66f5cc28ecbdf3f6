"""The completion functions for bash, zsh and fish, in the place of Typer's, and the rule for what they may offer.

Typer's own let the shell evaluate names: bash expands patterns in them, zsh passes them to eval. Here no shell does.
"""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[\w@+:,./][\w@+=:,./-]*")
"""What every shell takes as it is, in and outside of quotes: no shell quotes, expands or splits any of these."""

# The words that bash has split are joined before hpclaunch sees them. Bash tells no difference between a=b and a = b;
# the first is what people type. At the cursor bash adds only what follows the last = or :. No space follows NAME=.
_BASH = r"""
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
    mapfile -t COMPREPLY < <(env COMP_WORDS="${words[*]}" COMP_CWORD=$last %(autocomplete_var)s=complete_bash "$1")
    [[ -n ${COMPREPLY[0]-} ]] || COMPREPLY=()
    if [[ ${words[last]} != "$word" ]]; then
        cut=${words[last]%%"${words[last]##*[=:]}"}
        COMPREPLY=( "${COMPREPLY[@]#"$cut"}" )
    fi
    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
    return 0
}

complete -o default -F %(complete_func)s %(prog_name)s
"""

# hpclaunch answers as for fish: lines of a value, a tab, and what it is. compadd quotes what it inserts.
_ZSH = r"""
#compdef %(prog_name)s

%(complete_func)s() {
    local line
    local -a values shown bare
    for line in "${(@f)$(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _TYPER_COMPLETE_FISH_ACTION=get-args \
            %(autocomplete_var)s=complete_fish %(prog_name)s)}"; do
        [[ -n $line ]] || continue
        [[ $line != *=$'\t'* && $line != *= ]] || bare=(-S '')
        values+=("${line%%%%$'\t'*}")
        shown+=("${line/$'\t'/  -- }")
    done
    if (( ! $#values )); then
        _files
        return
    fi
    [[ $PREFIX != -*=* ]] || compset -P 1 '*='
    compadd "${bare[@]}" -l -d shown -- "${values[@]}"
}

compdef %(complete_func)s %(prog_name)s
"""

# The words are one argument of env, even if they have several lines. fish takes completions for a whole --option=value.
# Where hpclaunch offers nothing, its answer is one empty line, and files are offered.
_FISH = r"""
function %(complete_func)s
    set -g _hpclaunch_offered (env %(autocomplete_var)s=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \
        _TYPER_COMPLETE_ARGS=(commandline --cut-at-cursor --current-process | string collect) \
        %(prog_name)s)
    set -l option (commandline --cut-at-cursor --current-token | string match --regex -- '^--[^=]+=')
    and set _hpclaunch_offered $option$_hpclaunch_offered
    test -n "$_hpclaunch_offered"
end

complete --command %(prog_name)s --no-files --condition %(complete_func)s --arguments '$_hpclaunch_offered'
"""


def offer() -> None:
    """Let Typer show and install these functions; it has no public place for them."""
    from typer import _completion_shared

    _completion_shared._completion_scripts.update(bash=_BASH, zsh=_ZSH, fish=_FISH)


def is_plain(word: str) -> bool:
    """Whether a word means itself in every shell and in every kind of quotes, so that completion may offer it.

    An option, a ``~user`` and a word with a control character are none.
    """
    return _PLAIN.fullmatch(word) is not None
