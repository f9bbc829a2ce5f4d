"""What `tiphys check` keeps of manifests until all are read: packed, and the same when it comes out."""

import tracemalloc

import yaml

from argocd.engine.directory import Directory, Shelf
from checks.packing import TOGETHER, Packed, Packs
from scripts.bench.check import _APPLICATION


def test_things_come_out_as_they_went_in_and_in_order() -> None:
    things = [{"n": n, 1: [2**70, 1.5, None, True, "é\ud800"]} for n in range(TOGETHER * 2 + 3)]
    packs = Packs()
    for thing in things:
        packs.add(thing)
    assert list(packs) == things
    assert len(packs) == len(things)
    assert [packs[index] for index in range(len(things))] == things


def test_a_packed_mapping_is_a_mapping() -> None:
    packed: Packed[int] = Packed()
    plain: dict[int, str] = {}
    for number in range(100):
        packed[number % 40] = plain[number % 40] = f"value {number}"
    assert packed.pop(3) == plain.pop(3)
    assert packed.pop(3, None) is None
    assert dict(packed) == plain
    assert list(packed) == list(plain)


def test_a_directory_answers_the_same_with_packed_objects() -> None:
    def application(number: int) -> dict[str, object]:
        metadata = {"name": f"app-{number}", "namespace": "argocd"}
        source = {"repoURL": "https://git.example.com/a.git", "path": f"apps/{number // 2}"}
        return {
            "kind": "Application",
            "metadata": metadata,
            "spec": {"project": f"team-{number % 7}", "source": source},
        }

    plain = Directory(argocd_namespace="argocd", known=list(Shelf))
    packed = Directory(argocd_namespace="argocd", known=list(Shelf), mapping=Packed)
    for number in range(60):
        plain.put_application(application(number))
        packed.put_application(application(number))
    packed.drop_application(application(8))
    plain.drop_application(application(8))
    for number in range(60):
        asked = application(number)
        assert packed.application("argocd", f"app-{number}") == plain.application("argocd", f"app-{number}")
        assert packed.applications_like(asked) == plain.applications_like(asked)
        assert packed.applications_of_project(f"team-{number}") == plain.applications_of_project(
            f"team-{number}"
        )
    assert [twin["metadata"]["name"] for twin in packed.applications_like(application(4)) or ()] == ["app-5"]


def test_a_thousand_applications_are_kept_in_less_than_a_megabyte() -> None:
    """All of them are neighbours, so something of each must be kept; whole they would take three."""
    tracemalloc.start()
    try:
        directory = Directory(argocd_namespace="argocd", mapping=Packed)
        waiting = Packs()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1_000):
            body = yaml.load(_APPLICATION.format(number=number, team=number % 50), yaml.CSafeLoader)
            directory.put_application(body)
            waiting.add(body)
        del body
        assert tracemalloc.get_traced_memory()[0] - before < 1024 * 1024
    finally:
        tracemalloc.stop()
