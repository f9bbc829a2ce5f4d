"""Whether an Argo CD is to be given an installation id of its own.

Turning it on later makes every object count as untracked until its application is synced again, so it is done
for a new Argo CD only, and otherwise left to the admin.
"""

from enum import StrEnum

from argocd.judging.configuration import Configuration, InstallationIds
from argocd.settings.argocd_cm import Settings


class InstallationIdStep(StrEnum):
    GENERATE = "generate one: there is none, and no Application yet"
    TELL = "tell the admin: there is none, and Applications exist that would have to be synced again"
    NOTHING = "nothing: it has one, the admin wants none, or it is switched off"
    WAIT = "wait: argocd-cm or the Applications are not known yet"


def next_step(
    settings: Settings, *, configuration: Configuration, application_count: int | None
) -> InstallationIdStep:
    """An empty id in argocd-cm is the admin's word that there is to be none."""
    if configuration.tracking.installation_id is InstallationIds.OFF:
        return InstallationIdStep.NOTHING
    if not settings.known or application_count is None:
        return InstallationIdStep.WAIT
    if settings.installation_id is not None:
        return InstallationIdStep.NOTHING
    return InstallationIdStep.TELL if application_count else InstallationIdStep.GENERATE
