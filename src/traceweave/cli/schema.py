"""traceweave schema: every public table and column with its meaning."""

from __future__ import annotations

import click

from traceweave.cli.names import analysis_names, is_database
from traceweave.cli.options import Printing, example, printing_rows
from traceweave.errors import UsageError, suggest


@click.command(
    short_help="Print what every table and column means.",
    epilog=example(
        "traceweave schema", "traceweave schema collectives", "traceweave schema --format markdown"
    ),
)
@click.argument("tables", metavar="[DATABASE] [TABLES]...", nargs=-1)
@printing_rows
def schema(tables: tuple[str, ...], printing: Printing) -> None:
    """Print the meaning of every column of TABLES; of all public tables if none is named.

    They are the same in every DATABASE, which need not be named.
    """
    from traceweave.cli.output import as_table, print_rows
    from traceweave.store.schema import public_relations

    relations = {relation.name: relation for relation in public_relations()}
    if tables and tables[0] not in relations and is_database(tables[0]):
        tables = tables[1:]
    for name in tables:
        if name not in relations:
            if name in analysis_names():
                line = f"traceweave analyze {name} --list"
                raise UsageError(f"{name!r} is an analysis, not a table; type: {line}")
            hint = suggest(name, relations) or f"; available: {', '.join(relations)}"
            raise UsageError(f"no such table: {name!r}{hint}")
    chosen = [relations[name] for name in tables] or list(relations.values())
    if printing.to_read:
        _print_prose(chosen)
        return
    rows = [
        {"table": r.name, "column": c.name, "type": c.type, "meaning": c.meaning}
        for r in chosen
        for c in r.columns
    ]
    print_rows(as_table(rows), printing)


def _print_prose(relations: list) -> None:  # type: ignore[type-arg]
    import textwrap

    from traceweave.cli.output import text_width

    for relation in relations:
        click.echo(textwrap.fill(f"{relation.name}: {relation.meaning}", text_width()))
        name_width = max(len(column.name) for column in relation.columns)
        type_width = max(len(column.type) for column in relation.columns)
        indent = name_width + type_width + 6
        for column in relation.columns:
            lines = textwrap.wrap(column.meaning, max(text_width() - indent, 24))
            click.echo(f"  {column.name:{name_width}}  {column.type:{type_width}}  {lines[0]}")
            for line in lines[1:]:
                click.echo(" " * indent + line)
        click.echo()
