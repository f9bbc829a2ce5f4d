"""What an installation must show. Each step leaves the cluster as it found it, as far as it can."""

import json
from contextlib import ExitStack
from dataclasses import dataclass, field

import yaml

from scripts.acceptance.clusters import Done, FailedError, Object, Place, demand, until

NAME = "tiphys-acceptance"
IMAGE = "example.test/tiphys"
TEMPLATE = f"container: {{image: {IMAGE}, args: [agent]}}\n"
INJECTION = "tiphys-injection"
LEAF = "tiphys-webhook-tls"


@dataclass(slots=True, kw_only=True)
class Acceptance:
    """`url` replaces the Service where the webhook runs outside the cluster."""

    control_plane: Place
    url: str = ""
    workload: Place | None = None
    agent: str = ""
    cleaning: ExitStack = field(default_factory=ExitStack)

    def register(self) -> None:
        given = ("--url", self.url) if self.url else ()
        done = self.control_plane.webhook("register", *given)
        demand(done.returncode == 0, done.stderr)
        status = self.control_plane.webhook("status")
        demand(status.returncode == 0, status.stdout + status.stderr)

    def deny(self) -> None:
        done = self._project({"sourceRepos": ["!*"]}, "--dry-run=server")
        demand(done.returncode != 0, "a bad project was accepted")
        demand("[project/source-repo-format]" in done.stderr, done.stderr)

    def warn(self) -> None:
        done = self._project({"sourceRepos": ["!https://git.example.org/web.git"]}, "--dry-run=server")
        demand(done.returncode == 0, done.stderr)
        demand("Warning: project/" in done.stderr, f"no warning was shown: {done.stderr!r}")

    def mutate(self) -> None:
        """The admin's word in the Namespace's annotation names the owner of what is in it."""
        self._namespace(
            labels={"tiphys.dev/tracking": "enabled"},
            annotations={"tiphys.dev/tracking-application": NAME},
        )
        wanted = f"{NAME}:/ConfigMap:{NAME}/settings"

        def tracked() -> bool:
            stored = self._dry_run({"kind": "ConfigMap", "metadata": {"name": "settings"}})
            return stored.get("argocd.argoproj.io/tracking-id") == wanted

        until(tracked, what=f"a ConfigMap with the tracking id {wanted}")

    def inject(self) -> None:
        self._namespace(
            labels={"tiphys.dev/injection": "enabled", "pod-security.kubernetes.io/enforce": "restricted"}
        )
        image = self._template_image()
        # Of its own: where no controller runs there is no `default`.
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": NAME, "namespace": NAME},
        }
        done = self.control_plane.apply(account)
        demand(done.returncode == 0, done.stderr)
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "controller",
                "namespace": NAME,
                "annotations": {"tiphys.dev/inject": "agent"},
            },
            "spec": {
                "serviceAccountName": NAME,
                "automountServiceAccountToken": False,
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [
                    {
                        "name": "controller",
                        "image": "example.test/argocd",
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }
                ],
            },
        }
        until(
            lambda: self._injected(pod, image=image), what=f"a pod with the sidecar tiphys-agent of {image}"
        )

    def stream(self) -> None:
        """A project of the control plane reaches the agent's cluster, and leaves it again."""
        assert self.workload is not None
        workload = self.workload
        spec = {
            "sourceRepos": ["https://git.example.org/web.git"],
            "destinations": [{"name": self.agent, "namespace": "web"}],
            "sourceNamespaces": [self.agent],
        }
        done = self._project(spec)
        demand(done.returncode == 0, done.stderr)
        self.cleaning.callback(self._forget_project)

        def arrived() -> bool:
            copy = workload.get("appproject", NAME, namespace=workload.argocd)
            return copy is not None and copy["spec"]["destinations"][0]["name"] == "in-cluster"

        until(arrived, what=f"the project on the cluster of {self.agent}")
        self._forget_project()
        until(
            lambda: workload.get("appproject", NAME, namespace=workload.argocd) is None,
            what=f"the project gone from the cluster of {self.agent}",
        )

    def rotate(self) -> None:
        """A leaf that is lost is replaced, and reviews are answered all the time."""
        place = self.control_plane
        before = place.get("secret", LEAF, namespace=place.home)
        if before is None:
            raise FailedError(
                f"Secret {place.home}/{LEAF} does not exist: are the certificates cert-manager's?"
            )
        place.must("delete", "secret", LEAF, "--namespace", place.home)

        def renewed() -> bool:
            self.deny()
            after = place.get("secret", LEAF, namespace=place.home)
            return after is not None and after["data"]["tls.crt"] != before["data"]["tls.crt"]

        until(renewed, what="a new certificate")
        self.deny()

    def unregister(self) -> None:
        done = self.control_plane.webhook("unregister")
        demand(done.returncode == 0, done.stderr)

        def passes() -> bool:
            return self._project({"sourceRepos": ["!*"]}, "--dry-run=server").returncode == 0

        until(passes, what="a bad project that passes without the webhook")

    # What the steps share.

    def _project(self, spec: Object, *words: str) -> Done:
        namespace = self.control_plane.argocd
        metadata = {"name": NAME, "namespace": namespace}
        body = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": metadata,
            "spec": spec,
        }
        return self.control_plane.apply(body, *words)

    def _forget_project(self) -> None:
        place = self.control_plane
        place.run("delete", "appproject", NAME, "--namespace", place.argocd, "--ignore-not-found")

    def _namespace(self, **metadata: Object) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME, **metadata}}
        done = self.control_plane.apply(body)
        demand(done.returncode == 0, done.stderr)
        self.cleaning.callback(
            self.control_plane.run, "delete", "namespace", NAME, "--ignore-not-found", "--wait=false"
        )

    def _dry_run(self, thing: Object) -> Object:
        """The annotations that it would be stored with."""
        body = {"apiVersion": "v1", **thing, "metadata": {**thing["metadata"], "namespace": NAME}}
        return self._stored(body).get("metadata", {}).get("annotations") or {}

    def _injected(self, pod: Object, *, image: str) -> bool:
        spec = self._stored(pod).get("spec", {})
        containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
        return ("tiphys-agent", image) in [
            (container["name"], container["image"]) for container in containers
        ]

    def _stored(self, body: Object) -> Object:
        done = self.control_plane.apply(body, "--dry-run=server", "--output", "json")
        demand(done.returncode == 0, done.stderr)
        stored: Object = json.loads(done.stdout)
        return stored

    def _template_image(self) -> str:
        """Of the admin's template, or of ours where there is none; that is taken away afterwards."""
        place = self.control_plane
        there = place.get("configmap", INJECTION, namespace=place.home)
        if there is not None and "agent" in (there.get("data") or {}):
            image: str = yaml.safe_load(there["data"]["agent"])["container"]["image"]
            return image
        body: Object = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": INJECTION, "namespace": place.home},
            "data": {"agent": TEMPLATE},
        }
        done = place.apply(body)
        demand(done.returncode == 0, done.stderr)
        if there is None:
            self.cleaning.callback(place.run, "delete", "configmap", INJECTION, "--namespace", place.home)
        else:
            patch = '[{"op": "remove", "path": "/data/agent"}]'
            self.cleaning.callback(
                place.run,
                "patch",
                "configmap",
                INJECTION,
                "--namespace",
                place.home,
                "--type=json",
                "--patch",
                patch,
            )
        return IMAGE
