"""The command line."""

from __future__ import annotations

import gc
import os
import socket
import sys
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from typer.core import TyperGroup

from portico.gateway.cli.options import require_claims, require_utf8
from portico.gateway.clock import SystemClock
from portico.gateway.payments.tokens import TOKENS
from portico.gateway.settings import Settings

from . import import_group, lines
from .errors import Failure
from .lazy import import_lazily

if TYPE_CHECKING:
    from portico.gateway import auth, logs, production
    from portico.gateway.demo import demo_token
    from portico.gateway.operations import documents as operations
    from portico.gateway.payments import service as payment_service

    from . import consoles, data, document_checks, domain_commands, failures, loops, schema_check, server
    from . import explain as explaining
else:
    # Importing them takes most of a second. `--help` needs none of them, and each command needs only a few.
    auth, data, failures = map(import_lazily, ("auth", "cli.data", "cli.failures"))
    demo_token, explaining, logs = map(import_lazily, ("demo.demo_token", "cli.explain", "logs"))
    domain_commands, production = import_lazily("cli.domain_commands"), import_lazily("production")
    consoles, document_checks = import_lazily("cli.consoles"), import_lazily("cli.document_checks")
    loops, payment_service = import_lazily("cli.loops"), import_lazily("payments.service")
    operations, schema_check, server = map(import_lazily, ("operations.documents", "cli.schema_check", "cli.server"))

# The work of a command leaves little garbage. With the default of 700, the collector looks for it too often.
_YOUNG_OBJECTS = 60_000


class _Commands(TyperGroup):
    """The commands of the gateway, and those of the served domains."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or domain_commands.command(cmd_name)


app = typer.Typer(
    name="portico",
    cls=_Commands,
    help="A GraphQL API gateway over MongoDB. Settings come from the environment: see docs/configuration.md.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Host = Annotated[str, typer.Option(help="The address to listen on.", callback=require_utf8)]
Port = Annotated[int, typer.Option(help="The port to listen on. 0 selects a free port.", min=0, max=65535)]
Workers = Annotated[int, typer.Option(help="The number of processes that serve.", min=1)]
# After an option with a file, a shell puts the other files that match a pattern.
MoreFiles = Annotated[list[Path] | None, typer.Argument(metavar="[FILE...]", show_default=False, hidden=True)]


# Workers whose parent was killed leave within this time. A gateway that starts at once waits for their sockets.
_PATIENCE_SECONDS = 5.0
# A hundred years.
_MOST_HOURS = 876_000
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(metadata.version("portico"))
        raise typer.Exit


@app.callback()
def portico(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    # Declares the options of the whole command line. The commands do the work.
    del version


def main() -> None:
    """Runs a command. Expected failures, such as an unreachable database, print one line and exit with status 1."""
    # Modules and the schema are permanent. `run` and `serve` turn the collector on again.
    gc.disable()
    gc.set_threshold(_YOUNG_OBJECTS)
    try:
        app()
    except Failure as failure:
        _fail(str(failure))
    except Exception as error:
        line = failures.line_of(error)
        if line is None:
            raise
        _fail(line)


def _fail(text: str) -> None:
    lines.warn(text, color="red")
    sys.exit(1)


def _read(file: Path) -> str:
    """Returns the text of the file. `-` is standard input."""
    content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Failure(f"{file} is not UTF-8: {error.reason} at byte {error.start}.") from None


def settings() -> Settings:
    return data.read_settings()


@app.command()
def serve(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Workers = 1,
    reload: Annotated[bool, typer.Option("--reload", help="Restart when a source file changes.")] = False,
    documents: Annotated[
        list[Path] | None, typer.Option(metavar="FILE...", help="Files of trusted documents of clients.")
    ] = None,
    more: MoreFiles = None,
) -> None:
    """Serve the API until Ctrl-C. GraphQL is at /graphql, and GraphiQL at /."""
    document_checks.name_files(documents, more)
    chosen = settings()
    production.require(chosen)
    data.require_settings(chosen)
    with data.embedded_mongodb(chosen):
        advice = production.advice(chosen, is_single_server=loops.run(data.check_database(chosen)))
        if advice is not None:
            lines.warn(advice)
        _listen(chosen, host, port, workers, reload=reload)


@app.command()
def demo(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Workers = 1,
    size: Annotated[int, typer.Option(help="Multiply the demo data, for load tests.", min=1, max=10_000)] = 1,
) -> None:
    """Load a record and film shop, print a token, and serve."""
    os.environ["PORTICO_DEMO"] = "true"
    # GraphiQL contains the token, which allows everything. Only the demo's own key may sign it.
    for name in ("PORTICO_JWT_SECRET", "PORTICO_JWKS_URL"):
        os.environ.pop(name, None)
    os.environ.setdefault("PORTICO_SHOW_PLANS", "true")
    chosen = settings()
    production.require(chosen)
    data.require_writable(chosen)
    data.require_settings(chosen)
    if host not in _LOOPBACK:
        lines.warn(
            "other machines can reach this demo. GraphiQL has the token only at localhost. "
            "On other hosts, paste the printed token."
        )
    has_storefront = document_checks.trust_storefront(chosen)
    chosen = settings()
    with data.embedded_mongodb(chosen):
        loops.run(data.load_demo(chosen, size, consoles.out))
        token = demo_token.get_or_make(chosen)
        typer.echo("\nA token that allows everything (GraphiQL has it already):")
        typer.echo(f"  Authorization: Bearer {token}\n")
        # Several demos can run at the same time, and a search by name would find all of them.
        typer.echo(f"Process id: {os.getpid()}")
        _listen(chosen, host, port, workers, reload=False, has_storefront=has_storefront)


def _listen(
    chosen: Settings, host: str, port: int, workers: int, *, reload: bool, has_storefront: bool = False
) -> None:
    # Fails here, because uvicorn would restart a worker that cannot start, forever.
    chosen.signing_secret()
    data.schema(chosen)
    app = None if workers > 1 or reload else server.worker_app()
    if app is None:
        document_checks.check(chosen)
    server.require_startable(chosen, workers, _PATIENCE_SECONDS)
    listening = server.bind(host, port, _PATIENCE_SECONDS)
    address = _address(host, listening)

    def show_address() -> None:
        if has_storefront:
            lines.show(f"The storefront is at {address}/shop.", bold=f"{address}/shop")
        lines.show(f"Portico is at {address} (GraphiQL) and {address}/graphql. Press Ctrl-C to stop it.", bold=address)

    server.serve(chosen, listening, workers=workers, reload=reload, when_started=show_address, app=app)


def _address(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


_ABOUT_PAYMENT_SERVICE = """Serve a payment provider for tests, which charges nobody.

Set PORTICO_PAYMENT_URL to its address. The token of a checkout selects the outcome of its charge:

\b
""" + "\n".join(f"  {token:<10} {what}" for token, what in TOKENS.items())


@app.command(name="payment-service", help=_ABOUT_PAYMENT_SERVICE)
def payment_service_(
    host: Host = "127.0.0.1",
    port: Port = 8090,
    file: Annotated[
        Path | None, typer.Option(help="The file that stores the charges. Without it, they are lost at exit.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="How many seconds `a while` lasts, from a charge's first request.", min=0)
    ] = 20.0,
) -> None:
    service = payment_service.PaymentService(seconds, file, typer.echo)
    try:
        service.load_charges()
    except ValueError as error:
        raise Failure(f"{file} is not a file of charges: {error}") from None
    listening = server.bind(host, port)
    address = _address(host, listening)
    lines.show(f"A payment service for tests is at {address}. Press Ctrl-C to stop it.", bold=address)
    typer.echo(f"For the gateway, set PORTICO_PAYMENT_URL={address}")
    if loops.run(payment_service.serve(service, listening)):
        raise Failure("the token `die` stopped the payment service. Start it again.")


@app.command()
def schema(
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="List the changes since this older schema. Exit status: 0 safe, 3 dangerous, 4 breaking.",
        ),
    ] = None,
) -> None:
    """Print the schema, or compare it with an older one."""
    if check is None:
        sys.stdout.write(schema_check.print_sdl(data.schema(settings())))
        return
    try:
        changes = schema_check.check(_read(check), data.schema(settings()))
    except ValueError as error:
        raise Failure(f"{check} is not a schema: {error}") from None
    table = consoles.Table("severity", "change")
    for change in changes:
        table.add_row(change.severity.name.lower(), change.description)
    consoles.out.print(table if changes else "No changes.")
    raise typer.Exit(max((change.severity for change in changes), default=0))


@app.command()
def explain(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A GraphQL document. - reads standard input.")],
    operation: Annotated[
        str | None, typer.Option(help="The name of the operation, if the document has several.", callback=require_utf8)
    ] = None,
    variables: Annotated[
        str,
        typer.Option(
            help="A JSON object. Variables that @include and @skip use are required, unless they have a default. "
            "Others are optional.",
            callback=require_utf8,
        ),
    ] = "{}",
) -> None:
    """Print the plan of an operation. It shows the reads, their order, and the paths that each read fetches."""
    try:
        given = orjson.loads(variables)
    except orjson.JSONDecodeError as error:
        raise Failure(f"--variables is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise Failure("--variables must be a JSON object.")
    try:
        plan = explaining.plan_of_text(_read(file), operation, given, settings())
    except operations.InvalidOperation as invalid:
        raise Failure("; ".join(error.message for error in invalid.errors)) from None
    consoles.wide().print(plan)


@app.command()
def documents(
    check: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE...", help="Check these files. Without it: those of PORTICO_DOCUMENT_FILES."),
    ] = None,
    more: MoreFiles = None,
) -> None:
    """Check that trusted documents fit the schema. Exit with status 1 if one does not."""
    document_checks.name_files(check, more)
    count = document_checks.check(settings())
    typer.echo(f"{count:,} trusted documents fit the schema." if count else "There are no trusted documents.")


@app.command()
def indexes() -> None:
    """Create missing indexes and rebuild outdated ones. Print all of them."""
    loops.run(data.show_indexes(settings(), consoles.out))


@app.command()
def shard() -> None:
    """Shard the collections that have a shard key. Requires a sharded cluster."""
    loops.run(data.shard(settings(), consoles.out))


app.add_typer(import_group.app, name="import")


@app.command()
def commands() -> None:
    """List the commands that the served domains add."""
    for name, found in sorted(domain_commands.all_of().items()):
        typer.echo(f"{name}  {found.about}")


@app.command()
def token(
    sub: Annotated[str, typer.Option(help="The subject of the token.", callback=require_utf8)],
    role: Annotated[
        list[str] | None, typer.Option(help="A role, such as MERCHANT or ADMIN. You can repeat the option.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="The name that appears as the author of what the subject writes.", callback=require_utf8),
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option(
            help="A claim that a domain reads, as NAME=VALUE. You can repeat the option.", callback=require_claims
        ),
    ] = None,
    hours: Annotated[float, typer.Option(help="The hours until the token expires.", min=0.01, max=_MOST_HOURS)] = 24.0,
) -> None:
    """Print a token for development."""
    try:
        roles = auth.roles_named(role or [], domain_commands.roles)
    except auth.UnknownRole as unknown:
        raise typer.BadParameter(str(unknown), param_hint="'--role'") from None
    own_claims = dict(given.split("=", 1) for given in claim or [])
    issued = auth.Authenticator(settings()).issue(
        sub, roles, now=SystemClock().now(), lasts=timedelta(hours=hours), name=name, own_claims=own_claims
    )
    sys.stdout.write(issued + "\n")


@app.command()
def doctor(
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired safely.")] = False,
) -> None:
    """Check the invariants of the whole database. Exit with status 1 if one does not hold."""
    if loops.run(data.check_invariants(settings(), consoles.out, repair=repair)):
        raise typer.Exit(1)


@app.command()
def migrate() -> None:
    """Upgrade old documents, 100 at a time. The gateway may run."""
    loops.run(data.migrate_documents(settings(), consoles.out))


@app.command()
def worker() -> None:
    """Run the jobs without serving, until Ctrl-C."""
    loops.run(data.run_jobs(settings()))


if __name__ == "__main__":
    main()
