# One image for every `tiphys` command. The base is an argument: any image with Python 3.11 or newer will do.
# A tag moves; an image that others run is built from a digest, which is yours to choose and to renew:
#   docker build --build-arg BASE=python:3.13-slim@sha256:… -t tiphys .
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# `tracing` adds OpenTelemetry, for spans where OTEL_EXPORTER_OTLP_ENDPOINT is set (docs/tracing.md).
ARG REQUIREMENTS=runtime
WORKDIR /src
RUN python -m venv --without-pip /opt/tiphys
COPY requirements/runtime.txt requirements/tracing.txt requirements/development.txt requirements/
# Wheels only, each with its hash: nothing is compiled and no setup script of somebody else runs.
RUN python -m pip wheel --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: \
      --require-hashes --requirement requirements/${REQUIREMENTS}.txt --wheel-dir /wheels
# What builds our own wheel is pinned too, by the one lock that has it.
RUN awk '/^setuptools==/,!/\\$/' requirements/development.txt > requirements/build.txt \
 && python -m pip install --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: \
      --require-hashes --requirement requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY argocd argocd
COPY certs certs
COPY checks checks
COPY cli cli
COPY demo demo
COPY kube kube
COPY sidecars sidecars
COPY tiphys tiphys
COPY webhook webhook
RUN python -m pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /wheels . \
 && python -m pip --python /opt/tiphys/bin/python install --no-index --no-deps --compile /wheels/*.whl

FROM ${BASE}
COPY --from=build /opt/tiphys /opt/tiphys
# The root may be read-only: bytecode is in the image, and what is written goes where the pod says.
# glibc would keep memory for each of grpc's threads, of which a principal with many agents has a dozen.
ENV PATH=/opt/tiphys/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 MALLOC_ARENA_MAX=2
WORKDIR /tmp
USER 65532:65532
ENTRYPOINT ["tiphys"]
CMD ["--help"]
