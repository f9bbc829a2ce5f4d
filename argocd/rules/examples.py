"""Complete objects for the rules' examples, in which only what matters is spelt out."""

import textwrap

from argocd import names

SERVER = "server: https://kubernetes.default.svc, namespace: shop"
SOURCE = "source: {repoURL: https://git.example.com/shop.git, path: deploy, targetRevision: v1.2.3}"

BEFORE = "---\n"
"""Between documents: the last one is judged, those before it are in the cluster already."""


def application(
    *,
    name: str = "shop",
    namespace: str = "argocd",
    metadata: str = "",
    project: str = "shop",
    destination: str = SERVER,
    source: str = SOURCE,
    spec: str = "",
    top: str = "",
) -> str:
    """An Application that no rule complains about, unless a part makes one."""
    return _lines(
        "apiVersion: argoproj.io/v1alpha1",
        "kind: Application",
        f"metadata: {{{_joined(f'name: {name}', f'namespace: {namespace}', metadata)}}}",
        top,
        "spec:",
        f"  project: {project}",
        f"  destination: {{{destination}}}",
        _indented(source),
        _indented(spec),
    )


def application_set(
    *,
    generators: str = "- list: {elements: [{env: test}, {env: live}]}",
    name: str = "'shop-{{.env}}'",
    metadata: str = "",
    project: str = "shop",
    destination: str = SERVER,
    template: str = "",
    spec: str = "",
    options: str = "goTemplate: true\ngoTemplateOptions: [missingkey=error]",
    annotations: str = "",
) -> str:
    """An ApplicationSet that no rule complains about, unless a part makes one."""
    return _lines(
        "apiVersion: argoproj.io/v1alpha1",
        "kind: ApplicationSet",
        f"metadata: {{{_joined('name: shop', 'namespace: argocd', annotations)}}}",
        "spec:",
        _indented(options),
        "  generators:",
        _indented(generators),
        _indented(spec),
        "  template:",
        f"    metadata: {{{_joined(f'name: {name}' if name else '', metadata)}}}",
        "    spec:",
        f"      project: {project}",
        f"      destination: {{{destination}}}",
        f"      {SOURCE}",
        _indented(template, by=6),
    )


def project(*, name: str = "shop", spec: str) -> str:
    return _lines(
        "apiVersion: argoproj.io/v1alpha1",
        "kind: AppProject",
        f"metadata: {{name: {name}, namespace: argocd}}",
        "spec:",
        _indented(spec),
    )


def secret(
    *,
    kind: str,
    values: str,
    name: str = "shop",
    namespace: str = "argocd",
    labels: str = "",
    data: str = "",
) -> str:
    """`values` are lines of stringData, `data` lines of data."""
    return _lines(
        "apiVersion: v1",
        "kind: Secret",
        "metadata:",
        f"  name: {name}",
        f"  namespace: {namespace}",
        f"  labels: {{{_joined(f'argocd.argoproj.io/secret-type: {kind}', labels)}}}",
        "stringData:" if values else "",
        _indented(values),
        "data:" if data else "",
        _indented(data),
    )


def argocd_cm(data: str) -> str:
    return config_map(data, name=names.ARGOCD_CM)


def config_map(data: str, *, name: str) -> str:
    return _lines(
        "apiVersion: v1",
        "kind: ConfigMap",
        f"metadata: {{name: {name}, namespace: argocd}}",
        "data:",
        _indented(data),
    )


def job(*, annotations: str = "", spec: str = "") -> str:
    return _lines(
        "apiVersion: batch/v1",
        "kind: Job",
        "metadata:",
        "  name: migrate",
        "  namespace: shop",
        f"  annotations: {{{annotations}}}",
        "spec:",
        _indented(spec),
        "  template:",
        "    spec:",
        "      restartPolicy: Never",
        "      containers: [{name: migrate, image: migrate:v1}]",
    )


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _indented(text: str, *, by: int = 2) -> str:
    return textwrap.indent(textwrap.dedent(text).strip("\n"), " " * by)


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines if line)
