"""Django's command line, whose errors are one line each."""

from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from typing import Any

from django.core.management import BaseCommand, ManagementUtility, get_commands
from django.db import InterfaceError, OperationalError

from superbiz.bootstrap import OUR_APPS
from superbiz.env import ConfigurationError


class CommandLine(ManagementUtility):
    """Our commands tell a wrong usage in one line; `--help` shows the usage."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        command = super().fetch_command(subcommand)
        if get_commands().get(subcommand) in OUR_APPS:
            command.create_parser = _terse(command.create_parser)  # type: ignore[method-assign]
        return command


def _terse(create_parser: Callable[..., Any]) -> Callable[..., Any]:
    def create(*words: str, **options: Any) -> ArgumentParser:
        parser: ArgumentParser = create_parser(*words, **options)

        def error(message: str) -> None:
            # What a shell passed on as one argument may hold line breaks.
            parser.exit(2, f"{parser.prog}: {' '.join(message.split())} (see --help)\n")

        parser.error = error  # type: ignore[method-assign, assignment]
        return parser

    return create


def check_words(words: Sequence[str]) -> None:
    """Raises `ConfigurationError` for words that are no text: nothing that they name could be stored or found."""
    for number, word in enumerate(words, start=1):
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(f"Argument {number} is not UTF-8 text.") from error


def execute(argv: Sequence[str]) -> None:
    """Run a command. Raises `ConfigurationError` where its database goes away under it."""
    try:
        CommandLine(list(argv)).execute()
    except (OperationalError, InterfaceError) as error:
        told = str(error).strip().partition("\n")[0]
        raise ConfigurationError(f"The database does not answer: {told}") from error
