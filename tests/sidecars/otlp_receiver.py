"""A receiver of spans on loopback, as a collector listens for OTLP over HTTP and over gRPC."""

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class ReceivedSpan:
    service: str
    name: str
    trace: str
    id: str
    parent: str
    error: bool
    seconds: float
    attributes: dict[str, str]


@dataclass
class Receiver:
    address: str
    spans: list[ReceivedSpan] = field(default_factory=list)

    def named(self, name: str) -> list[ReceivedSpan]:
        return [each for each in self.spans if each.name == name]

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            named = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [
                    ReceivedSpan(
                        service=named["service.name"],
                        name=span.name,
                        trace=span.trace_id.hex(),
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        error=span.status.code == 2,
                        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                        attributes={each.key: each.value.string_value for each in span.attributes},
                    )
                    for span in scope.spans
                ]


@contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    """On a thread: exporters wait for the answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                receiver.take(body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()


@contextmanager
def otlp_grpc_receiver() -> Iterator[Receiver]:
    def export(body: bytes, _context: object) -> bytes:
        receiver.take(body)
        return bytes(ExportTraceServiceResponse().SerializeToString())

    server = grpc.server(ThreadPoolExecutor(2))
    service = "opentelemetry.proto.collector.trace.v1.TraceService"
    handler = grpc.unary_unary_rpc_method_handler(export)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {"Export": handler})])
    receiver = Receiver(f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    try:
        yield receiver
    finally:
        server.stop(None).wait(30)
