"""The `tiphys` ConfigMap: one reader, and the caller's word on a broken one."""

from argocd import names
from argocd.judging.configuration import Configuration, Enforcement
from kube.embedded import EmbeddedStore
from kube.resources import CONFIG_MAPS
from kube.store import Object
from webhook.admission.configuration_map import configuration_in, find_configuration, noting

HOME = "tiphys-system"


def config_map(text: str) -> Object:
    return {"metadata": {"name": names.TIPHYS_CONFIG_MAP}, "data": {names.TIPHYS_CONFIG_KEY: text}}


async def test_what_is_missing_or_empty_is_the_default() -> None:
    problems: list[str] = []
    store = EmbeddedStore(namespaces=[HOME])
    found = await find_configuration(store, home=HOME, broken=noting(problems))
    assert found == configuration_in(None, broken=noting(problems)) == Configuration()
    assert configuration_in({"data": {}}, broken=noting(problems)) == Configuration()
    assert problems == []


async def test_a_good_one_is_read_from_the_home_of_tiphys() -> None:
    store = EmbeddedStore(namespaces=[HOME])
    await store.create(CONFIG_MAPS, config_map("enforcement: warn"), namespace=HOME)
    found = await find_configuration(store, home=HOME, broken=lambda _read, _problems: None)
    assert found is not None
    assert found.enforcement is Enforcement.WARN


def test_of_a_broken_one_what_can_be_read_counts_where_the_caller_notes_the_rest() -> None:
    problems: list[str] = []
    broken = config_map("enforcement: warn\nprofile: nice")
    found = configuration_in(broken, broken=noting(problems))
    assert found.enforcement is Enforcement.WARN
    assert len(problems) == 1
    assert problems[0].startswith("profile")


def test_of_a_broken_one_the_callers_policy_decides() -> None:
    broken = config_map("[")
    assert configuration_in(broken, broken=lambda read, problems: (read, len(problems))) == (
        Configuration(),
        1,
    )
