"""``hologram completion``: scripts that complete commands in a shell.

A script asks ``hologram __complete INDEX WORD…`` for the words that may stand at a place, so it never goes out of date.
"""

from __future__ import annotations

import argparse
from typing import Any

SCRIPTS = {
    "bash": """_hologram() {
  local IFS=$'\\n'
  COMPREPLY=($(hologram __complete "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null))
}
complete -o default -F _hologram hologram
""",
    "zsh": """#compdef hologram
_hologram() {
  local -a found
  found=("${(@f)$(hologram __complete $((CURRENT - 1)) "${words[@]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _hologram hologram
""",
    "fish": """function __hologram_complete
  set -l words (commandline -opc) (commandline -ct)
  hologram __complete (math (count $words) - 1) $words 2>/dev/null
end
complete -c hologram -a '(__hologram_complete)'
""",
}


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def candidates(parser: argparse.ArgumentParser, words: list[str], index: int) -> list[str]:
    """What may stand at words[index], as far as it is known; words[0] is the command itself."""
    words = words + [""] * (index + 1 - len(words))
    for word in words[1:index]:
        parser = _choices(parser).get(word, parser)
    options = {name: action for action in parser._actions for name in action.option_strings}
    before = options.get(words[index - 1]) if index > 1 else None
    if before is not None and before.nargs != 0:
        found = [str(choice) for choice in before.choices or []]
    elif words[index].startswith("-"):
        found = list(options)
    else:
        found = list(_choices(parser))
        found += [str(c) for a in parser._actions if not a.option_strings and isinstance(a.choices, list) for c in a.choices]
    return [word for word in found if word.startswith(words[index])]


def _print_script(args: argparse.Namespace) -> int:
    print(SCRIPTS[args.shell], end="")
    return 0


def complete(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """What the scripts call: INDEX WORD…, a line for each word that may stand there."""
    if not arguments or not arguments[0].isdecimal():
        return 2
    for word in candidates(parser, arguments[1:], int(arguments[0])):
        print(word)
    return 0


def register(commands: Any) -> None:
    """Adds the command."""
    text = "Print a script that completes commands: add `source <(hologram completion bash)` to ~/.bashrc."
    command = commands.add_parser("completion", help="Print a shell's completion script.", description=text)
    command.add_argument("shell", choices=list(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")
    command.set_defaults(run=_print_script)
