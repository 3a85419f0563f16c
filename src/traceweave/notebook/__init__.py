"""What a notebook shows of a run: tables as HTML, and pictures."""
