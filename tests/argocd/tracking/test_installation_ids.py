"""Whether an Argo CD is given an installation id."""

import pytest

from argocd.judging.configuration import Configuration, InstallationIds, Tracking
from argocd.settings.argocd_cm import Settings
from argocd.tracking.installation_ids import Step, next_step

OFF = Configuration(tracking=Tracking(installation_id=InstallationIds.OFF))


@pytest.mark.parametrize(
    ("settings", "count", "step"),
    [
        (Settings(known=True), 0, Step.GENERATE),
        (Settings(known=True), 7, Step.TELL),
        (Settings(known=True, installation_id=""), 0, Step.NOTHING),
        (Settings(known=True, installation_id="x"), 0, Step.NOTHING),
        (Settings(), 0, Step.WAIT),
        (Settings(known=True), None, Step.WAIT),
    ],
)
def test_only_a_new_argocd_without_a_word_about_it_gets_one(
    settings: Settings, count: int | None, step: Step
) -> None:
    assert next_step(settings, configuration=Configuration(), application_count=count) is step
    assert next_step(settings, configuration=OFF, application_count=count) is Step.NOTHING
