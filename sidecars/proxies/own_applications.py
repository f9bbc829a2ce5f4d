"""The agent's own word on an object: which of its Applications it belongs to, what that one's project permits, and as
which account it is touched. The control plane is not asked: it may be somebody else's by now.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

from argocd.agents.routing import namespace_is_allowed
from argocd.applications.destinations import IN_CLUSTER
from argocd.applications.sources import project_of
from argocd.globs import Verdict
from argocd.impersonation.derivation import derive, entries_of
from argocd.judging.configuration import Configuration
from argocd.projects.global_projects import global_projects_of
from argocd.projects.permissions import destination_permitted, kind_permitted
from argocd.reading import mapping, sequence, text
from argocd.settings.argocd_cm import Settings, TrackingMethod
from argocd.tracking.ids import split_instance
from argocd.tracking.marks import application_of, own_application_of
from kube.store import Object

if TYPE_CHECKING:
    from argocd.judging.neighbours import Neighbours

_VERSION = Configuration().argocd.version
_ADDED = (
    "clusterResourceWhitelist",
    "clusterResourceBlacklist",
    "namespaceResourceWhitelist",
    "namespaceResourceBlacklist",
    "destinations",
    "destinationServiceAccounts",
)


class OwnApplications:
    """`find` gets an Application by namespace and name, `every` gets all; `project` a project by name; `settings` is
    argocd-cm.
    """

    def __init__(
        self,
        *,
        namespace: str,
        find: Callable[[str, str], Object | None],
        every: Callable[[], Iterable[Object]],
        project: Callable[[str], Object | None],
        settings: Callable[[], Settings],
        allowed_namespaces: tuple[str, ...] = (),
    ) -> None:
        self._namespace = namespace
        self._find = find
        self._every = every
        self._projects = project
        self._settings = settings
        self._allowed = list(allowed_namespaces)

    def serves(self, namespace: str) -> bool:
        """Whether objects of this namespace are shown at all; without a list those of every one are."""
        return not self._allowed or (bool(namespace) and namespace_is_allowed(namespace, self._allowed))

    def tracked(self, thing: Object) -> Object | None:
        """The Application that a live object says it belongs to. An id that was copied from elsewhere says nothing."""
        return self._claimed(thing, own_application_of)

    def claimed(self, thing: Object) -> Object | None:
        """The same of an object that does not exist yet: its project decides what that is worth."""
        return self._claimed(thing, application_of)

    def _claimed(self, thing: Object, application: Callable[..., str]) -> Object | None:
        settings = self._settings()
        if settings.tracking_method is TrackingMethod.UNKNOWN:
            return None
        return self.called(application(thing, settings=settings, version=_VERSION))

    def called(self, instance: str) -> Object | None:
        """The Application of that instance name, where it is one of ours."""
        if not instance:
            return None
        name, namespace = split_instance(instance, default_namespace=self._namespace)
        return self._find(namespace, name)

    def objection(
        self, application: Object, *, group: str, kind: str, name: str, namespace: str, namespaced: bool
    ) -> str:
        """Why the Application's project does not permit such an object; empty where it does."""
        project = self._project_of(application)
        if project is None:
            return f"there is no project {project_of(mapping(application, 'spec'))} here"
        name_of_project = text(project, "metadata", "name")
        if not kind_permitted(project, group=group, kind=kind, name=name, namespaced=namespaced):
            return f"{kind} of group {group or 'core'} is not permitted in project {name_of_project}"
        if not namespaced:
            return ""
        verdict = destination_permitted(
            project, server=IN_CLUSTER.server, name=IN_CLUSTER.name, namespace=namespace
        )
        return (
            ""
            if verdict is Verdict.YES
            else f"namespace {namespace} is not permitted in project {name_of_project}"
        )

    def account(self, application: Object) -> str:
        """The user as which the Application's objects are touched where Argo CD impersonates; empty for none."""
        project = self._project_of(application)
        if project is None:
            return ""
        return derive(
            entries_of(project),
            server=IN_CLUSTER.server,
            destination_namespace=text(application, "spec", "destination", "namespace"),
            application_namespace=text(application, "metadata", "namespace"),
        ).user

    def has_account(self, user: str) -> bool:
        """Whether it is the account of any Application of ours."""
        alike = {  # a thousand Applications have a few projects and destinations
            (
                project_of(mapping(each, "spec")),
                text(each, "spec", "destination", "namespace"),
                text(each, "metadata", "namespace"),
            ): each
            for each in self._every()
        }
        return any(self.account(each) == user for each in alike.values())

    def _project_of(self, application: Object) -> Object | None:
        """With what global projects add."""
        project = self._projects(project_of(mapping(application, "spec")))
        if project is None:
            return None
        neighbours = cast("Neighbours", _Projects(self._projects))  # it is asked for projects alone
        spec = dict(mapping(project, "spec"))
        for other in global_projects_of(project, settings=self._settings(), neighbours=neighbours) or ():
            for key in _ADDED:
                if more := sequence(other, "spec", key):
                    spec[key] = [*sequence(spec, key), *more]
        return {**project, "spec": spec}


class _Projects:
    def __init__(self, find: Callable[[str], Object | None]) -> None:
        self._find = find

    def project(self, name: str) -> Object:
        return self._find(name) or {}
