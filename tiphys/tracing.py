"""Spans by OpenTelemetry, exported by OTLP where its usual environment variables ask for it.

Without them nothing of OpenTelemetry is imported, and whoever would begin a span asks one variable. Which spans are
kept, where they go and with which headers is said by the variables that the SDK reads itself.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tiphys import __version__, logs

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP, GRPC = "http/protobuf", "grpc"
DISABLED = "OTEL_SDK_DISABLED"
SERVICE = "OTEL_SERVICE_NAME"

log = logs.get_logger()


class OpenSpan:
    """`carrier` says who it is, in the words of W3C's trace context."""

    __slots__ = ("_span", "carrier")

    def __init__(self, span: "Span", carrier: Mapping[str, str]) -> None:
        self._span = span
        self.carrier = carrier

    def end(self, *, error: str = "") -> None:
        if error:
            from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - only where it is installed

            self._span.set_status(Status(StatusCode.ERROR, error[:200]))
        self._span.end()


class Tracing:
    def __init__(self, tracer: "Tracer") -> None:
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415 - as above

        self._tracer = tracer
        self._propagator = tracecontext.TraceContextTextMapPropagator()

    def begin(
        self, name: str, *, parent: Mapping[str, str] | None, attributes: Mapping[str, str]
    ) -> OpenSpan:
        """`parent` is a carrier; without one a trace begins."""
        from opentelemetry.context import Context  # noqa: PLC0415 - as above
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415 - as above

        context = self._propagator.extract(dict(parent or {}), context=Context())
        span = self._tracer.start_span(name, context=context, attributes=dict(attributes))
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, context=set_span_in_context(span))
        return OpenSpan(span, carrier)


_tracing: Tracing | None = None


def active() -> Tracing | None:
    """None where nobody asked for spans, as nearly everywhere."""
    return _tracing


def wanted(environment: Mapping[str, str]) -> bool:
    disabled = environment.get(DISABLED, "").strip().lower() == "true"
    return not disabled and any(environment.get(name, "").strip() for name in ENDPOINTS)


@contextmanager
def exported(service: str) -> Iterator[None]:
    """While a process runs; what is left is sent at the end, within the SDK's own bounds."""
    global _tracing  # noqa: PLW0603 - one exporter for a process, as OpenTelemetry has it
    if not wanted(os.environ):
        yield
        return
    provider = _provider(service)
    if provider is None:
        yield
        return
    _tracing = Tracing(provider.get_tracer("tiphys", __version__))
    log.info("changes are traced", **{logs.NAME: service})
    try:
        yield
    finally:
        _tracing = None
        provider.shutdown()


def _provider(service: str) -> Any:
    protocol = next((os.environ[name].strip() for name in PROTOCOLS if os.environ.get(name)), HTTP)
    if protocol not in {HTTP, GRPC}:
        log.warning(
            "spans are not exported: OTEL_EXPORTER_OTLP_PROTOCOL must be grpc or http/protobuf",
            **{logs.KIND: protocol[:64]},
        )
        return None
    try:
        exporter = _grpc_exporter() if protocol == GRPC else _http_exporter()
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        log.warning(
            "spans are asked for and OpenTelemetry is not installed: pip install 'tiphys[tracing]'",
            **{logs.ERROR: str(error)},
        )
        return None
    named = {} if os.environ.get(SERVICE) else {"service.name": service}
    provider = TracerProvider(resource=Resource.create({**named, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(exporter()))
    return provider


def _http_exporter() -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    return OTLPSpanExporter


def _grpc_exporter() -> Any:
    """After the wire has been imported, which tells grpc its ciphers."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    return OTLPSpanExporter
