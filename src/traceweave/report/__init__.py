"""The report: one self-contained HTML page that says where the time of a run went.

A section of the page is a module of `sections`: it reads rows (`load_*`, pure functions of the
connection) and lays them out (`*_section`). `render` joins sections, templates and assets; the
browser draws the charts.
"""

from traceweave.report.render import write_report

__all__ = ["write_report"]
