"""`penstock completion`: completion scripts for shells, generated from the parser."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_parser", "run"]

SHELLS = ("bash", "zsh", "fish")


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "completion",
        allow_abbrev=False,
        help="print a completion script for a shell",
        description="Prints a script that completes commands, flags and their values.",
        epilog="bash: source <(penstock completion bash). zsh: source <(penstock completion zsh), after compinit. "
        "fish: penstock completion fish | source.",
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Prints the script. Returns the exit status."""
    commands = _commands(parser)
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](commands), end="")
    return 0


class _Command:
    """A command: its summary, its flags, and its positional words."""

    def __init__(self, parser: argparse.ArgumentParser, summary: str) -> None:
        self.summary = summary
        self.flags: dict[str, tuple[str, list[str], bool]] = {}
        """Help, values, and whether a value follows, by flag."""
        self.words: list[str] = []
        self.second_words: list[str] = []
        """Second words of commands of two words. In their place there may be a file."""
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                # Flags of all its kinds.
                for kind in action.choices.values():
                    self.flags |= _Command(kind, "").flags
            values = [str(one) for one in action.choices or _values(action)]
            help_text = "" if action.help in (None, argparse.SUPPRESS) else str(action.help)
            for flag in action.option_strings:
                self.flags[flag] = (help_text, values, action.nargs != 0)
            if not action.option_strings:
                self.words += values


def _commands(parser: argparse.ArgumentParser) -> dict[str, _Command]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
            commands = {name: _Command(one, summaries.get(name, "")) for name, one in action.choices.items()}
            for first, _, second in (name.partition(" ") for name in [*commands]):
                if second:
                    # The first one has their flags, and more.
                    commands[first].second_words.append(second)
                    del commands[f"{first} {second}"]
            return commands
    return {}


def _values(action: argparse.Action) -> list[str]:
    """Values of a setting that is one of several words: its metavariable is their list."""
    shown = action.metavar if isinstance(action.metavar, str) else ""
    return [value for value in shown.split("|") if value.islower()] if "|" in shown else []


def _bash(commands: dict[str, _Command]) -> str:
    lines = [
        "_penstock() {",
        '    local cur="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" words=""',
        "    COMPREPLY=()",
        '    if [ "$COMP_CWORD" -eq 1 ]; then',
        f'        COMPREPLY=($(compgen -W "{" ".join([*commands, "--help", "--version"])}" -- "$cur"))',
        "        return",
        "    fi",
        '    case "${COMP_WORDS[1]} $previous" in',
    ]
    for name, command in commands.items():
        for flag, (_, values, _) in command.flags.items():
            if values:
                lines.append(f'        "{name} {flag}") words="{" ".join(values)}" ;;')
    lines += ["    esac", '    if [ -z "$words" ]; then', '        case "${COMP_WORDS[1]}" in']
    for name, command in commands.items():
        lines.append(f'            {name}) case "$cur" in')
        lines.append(f'                -*) words="{" ".join(command.flags)}" ;;')
        lines.append(f'                *) words="{" ".join(command.words + command.second_words)}" ;;')
        lines.append("            esac ;;")
    lines += [
        "        esac",
        "    fi",
        '    if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$cur")); fi',
        '    case "$cur" in -*) ;; *) [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur")) ;; esac',
        "}",
        "complete -o filenames -F _penstock penstock",
    ]
    return "\n".join(lines) + "\n"


def _zsh(commands: dict[str, _Command]) -> str:
    lines = ["#compdef penstock", "_penstock() {", "    local -a commands", "    commands=("]
    lines += [
        f"        {_quoted(_zsh_text(name) + ':' + _plain(command.summary))}" for name, command in commands.items()
    ]
    lines += [
        "    )",
        "    if (( CURRENT == 2 )); then",
        "        _describe command commands",
        "        return",
        "    fi",
    ]
    lines += ['    local command="${words[2]}"', "    shift words", "    (( CURRENT-- ))", '    case "$command" in']
    for name, command in commands.items():
        specs = []
        for flag, (text, values, takes_value) in command.flags.items():
            message = f"[{_bracketed(text)}]" if text else ""
            value = f":value:({' '.join(values)})" if values else ":value:_files" if takes_value else ""
            specs.append(_quoted(f"*{flag}{message}{value}" if takes_value else f"{flag}{message}"))
        if command.second_words:
            words = f"words:word:({' '.join(command.second_words)})"
            specs.append(_quoted(f'*:value:{{_alternative "{words}" "files:file:_files"}}'))
        else:
            specs.append(_quoted(f"*:value:({' '.join(command.words)})" if command.words else "*:file:_files"))
        lines += [f"        {name})", "            _arguments \\"]
        lines += [f"                {spec} \\" for spec in specs[:-1]]
        lines += [f"                {specs[-1]}", "            ;;"]
    lines += ["    esac", "}", "compdef _penstock penstock"]
    return "\n".join(lines) + "\n"


def _fish(commands: dict[str, _Command]) -> str:
    lines = []
    for name, command in commands.items():
        lines.append(
            f"complete -c penstock -n __fish_use_subcommand -f -a {name} -d {_quoted(_plain(command.summary))}"
        )
    for name, command in commands.items():
        where = f"complete -c penstock -n '__fish_seen_subcommand_from {name}'"
        for flag, (text, values, takes_value) in command.flags.items():
            option = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            value = f" -x -a '{' '.join(values)}'" if values else " -r" if takes_value else ""
            lines.append(f"{where} {option}{value}" + (f" -d {_quoted(_plain(text))}" if text else ""))
        if command.words:
            lines.append(f"{where} -f -a '{' '.join(command.words)}'")
        if command.second_words:
            lines.append(f"{where} -a '{' '.join(command.second_words)}'")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    return " ".join(text.replace("%%", "%").split())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _zsh_text(text: str) -> str:
    return text.replace(":", "\\:")


def _bracketed(text: str) -> str:
    return _plain(text).replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
