"""The browser of the report's tests, for the page of a comparison."""

from __future__ import annotations

from tests.report.conftest import chromium, pytest_configure

__all__ = ["chromium", "pytest_configure"]
