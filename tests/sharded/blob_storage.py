"""A server of blobs in memory that speaks as much of Azure's protocol as pyarrow asks for."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    blobs: dict[str, bytes]
    pieces: dict[tuple[str, str], bytes]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if "comp=list" in self.path:
            self._answer(200, self._list(), **{"Content-Type": "application/xml"})
        elif self._name not in self.blobs:
            self._answer(404)
        else:
            blob = self.blobs[self._name]
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("x-ms-range", ""))
            first, last = (int(asked[1]), int(asked[2] or len(blob))) if asked else (0, len(blob))
            part = blob[first : last + 1]
            span = f"bytes {first}-{first + len(part) - 1}/{len(blob)}"
            self._answer(206 if asked else 200, part, **{"Content-Range": span})

    def do_HEAD(self) -> None:
        if "action=getAccessControl" in self.path:
            self._answer(400, **{"x-ms-error-code": "HierarchicalNamespaceNotEnabled"})
        elif self._name in self.blobs:
            self._answer(200, self.blobs[self._name])
        else:
            self._answer(404, **{"x-ms-error-code": "BlobNotFound"})

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if source := self.headers.get("x-ms-copy-source"):
            self.blobs[self._name] = self.blobs[unquote(urlsplit(source).path).lstrip("/")]
            self._answer(202)
            return
        if self._asked.get("comp") == "block":
            self.pieces[self._name, self._asked["blockid"]] = body
        elif self._asked.get("comp") == "blocklist":
            ids = re.findall(r"<(?:Latest|Committed|Uncommitted)>(.*?)</", body.decode())
            self.blobs[self._name] = b"".join(self.pieces[self._name, id_] for id_ in ids)
        elif self._asked.get("comp") != "lease":
            self.blobs[self._name] = body
        self._answer(201)

    def do_DELETE(self) -> None:
        found = self.blobs.pop(self._name, None)
        self._answer(404 if found is None else 202)

    @property
    def _name(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/")

    @property
    def _asked(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}

    def _list(self) -> bytes:
        at, prefix = self._name, self._asked.get("prefix", "")
        below = [n.removeprefix(at + "/") for n in self.blobs if n.startswith(f"{at}/{prefix}")]
        rest = {name: name.removeprefix(prefix).partition("/") for name in below}
        folders = {prefix + first + "/" for first, slash, _ in rest.values() if slash}
        entries = [f"<BlobPrefix><Name>{escape(f)}</Name></BlobPrefix>" for f in sorted(folders)]
        entries += [
            f"<Blob><Name>{escape(name)}</Name><Properties>{self._properties(f'{at}/{name}')}"
            "</Properties></Blob>"
            for name, (_, slash, _) in sorted(rest.items())
            if not slash
        ]
        told = f"<Blobs>{''.join(entries)}</Blobs><NextMarker/>"
        return f"<EnumerationResults>{told}</EnumerationResults>".encode()

    def _properties(self, name: str) -> str:
        return (
            f"<Last-Modified>{_DATE}</Last-Modified><Etag>1</Etag><BlobType>BlockBlob</BlobType>"
            f"<Content-Length>{len(self.blobs[name])}</Content-Length>"
        )

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        length = {"Content-Length": str(len(body))}
        for name, value in {**_ALWAYS, **length, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


_DATE = "Mon, 01 Jan 2024 00:00:00 GMT"
_ALWAYS = {
    "Content-Type": "application/octet-stream", "ETag": '"1"', "Last-Modified": _DATE,
    "x-ms-blob-type": "BlockBlob", "x-ms-creation-time": _DATE, "x-ms-lease-id": "1",
    "x-ms-request-id": "1", "x-ms-client-request-id": "1", "x-ms-copy-id": "1",
    "x-ms-copy-status": "success", "x-ms-version": "2024-01-01",
    "x-ms-request-server-encrypted": "true", "x-ms-server-encrypted": "true",
}  # fmt: skip


@contextmanager
def blob_storage() -> Iterator[str]:
    """Serve on this machine; yield host and port."""
    held = {"blobs": {}, "pieces": {}}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), held))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
