from tests.analyses.builders import Builder, rows, told

FILES = """
    INSERT INTO sources VALUES
        (0, 'a.json', 'kineto', 'PyTorch Profiler', '2.4', 1, 20, 10, 10, 'partial', 'lost'),
        (1, 'b.json', 'kineto', NULL, NULL, 1, 20, 18, 2, 'partial', 'cut');
    INSERT INTO ingest_issues VALUES
        (0, 'no time', 10, 'x', 'an event without ts'),
        (1, 'cut off', NULL, 'y', 'the file ends early'),
        (NULL, 'passed over', NULL, 'notes.txt', 'no trace')
"""


def test_how_much_is_missing_of_a_file_that_was_cut_is_not_known(build: Builder) -> None:
    build.con.execute(FILES)
    columns = "path status events_read events_stored events_skipped message"
    assert told(build.con, "files", columns) == [
        ("a.json", "partial", 20, 10, 10, "lost"),
        ("b.json", "partial", 20, 18, None, "cut"),
    ]
    found = [(row["kind"], row["events"]) for row in rows(build.con, "issues")]
    assert found == [("no time", 10), ("cut off", None), ("passed over", None)]
