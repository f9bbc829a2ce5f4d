"""Whether an Argo CD is given an installation id."""

import pytest

from argocd.judging.configuration import Configuration, InstallationIds, Tracking
from argocd.settings.argocd_cm import Settings
from argocd.tracking.installation_ids import InstallationIdStep, next_step

OFF = Configuration(tracking=Tracking(installation_id=InstallationIds.OFF))


@pytest.mark.parametrize(
    ("settings", "count", "step"),
    [
        (Settings(known=True), 0, InstallationIdStep.GENERATE),
        (Settings(known=True), 7, InstallationIdStep.TELL),
        (Settings(known=True, installation_id=""), 0, InstallationIdStep.NOTHING),
        (Settings(known=True, installation_id="x"), 0, InstallationIdStep.NOTHING),
        (Settings(), 0, InstallationIdStep.WAIT),
        (Settings(known=True), None, InstallationIdStep.WAIT),
    ],
)
def test_only_a_new_argocd_without_a_word_about_it_gets_one(
    settings: Settings, count: int | None, step: InstallationIdStep
) -> None:
    assert next_step(settings, configuration=Configuration(), application_count=count) is step
    assert next_step(settings, configuration=OFF, application_count=count) is InstallationIdStep.NOTHING
