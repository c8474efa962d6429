"""`tinymemory spool`: the jobs hosts keep in files while Redis is away."""

import typer
from redis.exceptions import RedisError

from tinymemory.errors import ConfigError
from tinymemory.exit import ExitCode
from workers.access import in_words
from workers.commands.output import JsonOption, console, print_json
from workers.connection import sync_redis
from workers.ledger import LedgerOptions, SyncLedger
from workers.settings import WorkerSettings
from workers.spool import Spool

spool = typer.Typer(name="spool", no_args_is_help=True, help="The jobs hosts keep while Redis is away.")


@spool.command()
def replay(as_json: JsonOption = False) -> None:
    """Hand every spooled job to the ledger, the oldest first.

    Exits 75 when Redis is away: the jobs stay where they are.
    """
    settings = WorkerSettings.load()
    opened = _opened(settings)
    client = sync_redis(settings.redis_url)
    try:
        replayed = opened.replay(SyncLedger(client, LedgerOptions.from_settings(settings)).enqueue)
    except RedisError as error:
        raise in_words(error, settings) from error
    except OSError as error:
        raise _unreadable(opened, error) from error
    finally:
        client.close()
    if replayed is None:
        typer.echo("another process replays the spool just now", err=True)
        raise typer.Exit(ExitCode.FAILED)
    if as_json:
        print_json(replayed)
    else:
        console().print(f"{replayed.sent} jobs handed to the ledger")
    if replayed.rejected:
        typer.echo(f"{replayed.rejected} lines could not be read: see rejected.jsonl in the spool", err=True)
        raise typer.Exit(ExitCode.FAILED)


@spool.command()
def stats(as_json: JsonOption = False) -> None:
    """Count what waits in the spool."""
    opened = _opened(WorkerSettings.load())
    try:
        counted = opened.stats()
    except OSError as error:
        raise _unreadable(opened, error) from error
    if as_json:
        print_json(counted)
    else:
        console().print(f"{counted.lines} jobs in {counted.files} files, {counted.bytes} bytes")


def _opened(settings: WorkerSettings) -> Spool:
    spool = Spool.from_settings(settings)
    if spool is None:
        raise ConfigError("no spool is configured: set TINYMEMORY_SPOOL_DIR to the hosts' folder")
    return spool


def _unreadable(spool: Spool, error: OSError) -> ConfigError:
    return ConfigError(f"the spool {spool.folder} cannot be used: {error.strerror or error}")
