"""What names of files and places say: whether they are elsewhere, and how they are shown."""

from __future__ import annotations

import os
import re
from pathlib import Path

_ELSEWHERE = re.compile(r"(s3|gs|gcs|az|abfs|abfss|https?):/+(.+)", re.IGNORECASE)
"""One slash is what pathlib makes of two."""

_URLS = re.compile(
    r"(?:s3|gs|gcs|az|abfss?|https?):/+[^\s'\"]+?(?=[:;,.)\]]*(?:[\s'\"]|$))", re.IGNORECASE
)
"""URLs in a text, without the marks that end a part of a sentence."""

_SECRET = re.compile(r"SECRET|TOKEN|KEY|PASSWORD|CREDENTIAL|SAS|CONNECTION_STRING", re.IGNORECASE)
"""Names of environment variables whose values are not for printing."""
OWN_ANALYSES = "TRACEWEAVE_ANALYSES"
"""The environment variable that names a folder of analyses and rules of one's own."""

SHORTEST_SECRET = 8
"""Shorter values are no secrets, and would take words apart."""


def is_elsewhere(name: str | Path) -> bool:
    """Tell whether a name is the URL of a file or folder in object storage or on the web."""
    return _ELSEWHERE.fullmatch(str(name)) is not None


def url_of(name: str | Path) -> tuple[str, str]:
    """Return the scheme of a URL, and what follows its slashes. Raises ValueError if it is none."""
    match = _ELSEWHERE.fullmatch(str(name))
    if match is None:
        raise ValueError(f"{name} is not a URL")
    return match[1].lower(), match[2]


def shown(name: str | Path) -> str:
    """Return a name as it may be printed and stored: a URL without credentials or signature."""
    if not is_elsewhere(name):
        return str(name)
    scheme, rest = url_of(name)
    host, slash, path = rest.partition("?")[0].partition("#")[0].partition("/")
    user, at, server = host.rpartition("@")
    if at and scheme.startswith("abfs") and ":" not in user:
        return f"{scheme}://{user}@{server}{slash}{path}"  # a container, not who asks
    return f"{scheme}://{server}{slash}{path}"


def without_secrets(text: str) -> str:
    """Return a text with URLs as `shown`, without values of the environment that are secret."""
    text = _URLS.sub(lambda url: shown(url[0]), text)
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= SHORTEST_SECRET:
            text = text.replace(value, f"({name})")
    return text


def is_sql_file(name: str | Path) -> bool:
    """Tell whether an analysis is named by the file it is in, not by its name."""
    return str(name).endswith(".sql")


def own_statements() -> dict[str, str]:
    """Return the text of the .sql files in the folder of analyses and rules of one's own, by stem;
    none where there is no such folder. Raises OSError for one that cannot be read.
    """
    if not (folder := os.environ.get(OWN_ANALYSES)):
        return {}
    files = [file for file in sorted(Path(folder).iterdir()) if is_sql_file(file)]
    return {file.stem: file.read_text(encoding="utf-8", errors="replace") for file in files}
