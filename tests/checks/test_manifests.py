"""Reading manifests: every object with its places, and one line for what cannot be read."""

import itertools
import time
from pathlib import Path

import pytest
import yaml

from checks import manifests
from checks.files.search import Search
from checks.manifests import MOST_VALUES, Manifest, Unreadable, parse, read_file

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n" for before, after in itertools.pairwise("abcdefg")
)


def read(tmp_path: Path, text: str | bytes, name: str = "a.yaml") -> list[Manifest | Unreadable]:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_file(str(file)))


def test_documents_lists_and_json_give_objects_with_places(tmp_path: Path) -> None:
    text = "kind: A\nspec:\n  items: [1, {x: y}]\n---\n---\nkind: List\nitems:\n- kind: B\n  metadata: {name: b}\n- kind: C\n"
    one, two, three = (found for found in read(tmp_path, text) if isinstance(found, Manifest))
    assert [found.body["kind"] for found in (one, two, three)] == ["A", "B", "C"]
    assert str(one.place("spec.items[1].x")).endswith("a.yaml:3:18")
    assert str(one.place("spec.items[7].x")).endswith("a.yaml:3:10")
    assert str(two.place("metadata.name")).endswith("a.yaml:9:20")
    assert (two.where, three.where) == ("items[0]", "items[1]")
    [from_json] = read(tmp_path, '{\n\t"kind": "D",\n\t"spec": {"a.b/c": 1}}', "d.json")
    assert isinstance(from_json, Manifest)
    assert str(from_json.place("spec[a.b/c]")).endswith("d.json:3:20")


def test_scalars_are_read_as_kubectl_reads_them(tmp_path: Path) -> None:
    [found] = read(
        tmp_path, 'a: 2027-01-31\nb: 1:30\nc: yes\nd: 012\ne: "1"\nf: ~\ng: 1.5\nh: !!binary aGk=\n'
    )
    assert isinstance(found, Manifest)
    assert found.body == {
        "a": "2027-01-31",
        "b": "1:30",
        "c": True,
        "d": 10,
        "e": "1",
        "f": None,
        "g": 1.5,
        "h": "aGk=",
    }


def test_many_keys_that_override_merged_ones_take_time_in_proportion() -> None:
    def least(count: int) -> float:
        """Of a few: other programs make one slower, none makes it faster."""
        keys = "".join(f"  k{number}: 0\n" for number in range(count))
        times = []
        for _ in range(3):
            started = time.thread_time()
            (found,) = parse(f"a: &a\n{keys}b:\n  <<: *a\n{keys}", "x.yaml")
            times.append(time.thread_time() - started)
            assert isinstance(found, Manifest)
        return min(times)

    assert least(8_000) < least(1_000) * 8 * 4


def test_anchors_and_merges_are_followed(tmp_path: Path) -> None:
    text = "base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\ntwo: {<<: [*b, {z: 4}]}\n"
    [found] = read(tmp_path, text)
    assert isinstance(found, Manifest)
    assert found.body == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: 1\na: 2\n", 2, "the key 'a' appears twice"),
        ("a:\n\tb: 1\n", 2, "cannot start any token"),
        ("a: [1, 2\n", 2, "did not find expected"),
        ("- 1\n", 1, "not an object"),
        ("just text\n", 1, "not an object"),
        ("a: !!python/object:os.system x\n", 1, "is not supported"),
        ("? {a: b}\n: c\n", 1, "a key must be a scalar"),
        ("a: {<<: 1}\n", 1, "<< needs a mapping"),
        ("a: &a [*a]\n", 1, "refused: alias a of what contains it"),
        ("a: 1\nb: &b {c: *b}\n", 2, "refused: alias b of what contains it"),
        ("[" * 100_000, 1, "nested deeper"),
        ("- " * 100_000 + "x", 1, "nested deeper"),
        (BOMB, 5, "more than"),
        ("kind: X\nmetadata: {name: a\n", 3, "not YAML"),
        ("kind: X\nmetadata:\n  name: 'a\n", 4, "not YAML"),
        (b"\x7fELF\0\0", 1, "a binary file"),
        (b"a: \xff\n", 1, "not UTF-8"),
        (b"x" * (16 * 1024 * 1024 + 1), 1, "larger than 16 MiB"),
    ],
    ids=lambda value: repr(value)[:24],
)  # fmt: skip
def test_what_cannot_be_read_is_one_line_with_its_place(
    tmp_path: Path, text: str | bytes, line: int, said: str
) -> None:
    *_, broken = read(tmp_path, text)
    assert isinstance(broken, Unreadable)
    assert said in broken.message
    assert "\n" not in broken.message
    assert line - 2 <= broken.place.line <= line + 1


@pytest.fixture
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth of the limits, and of the time."""
    monkeypatch.setattr(manifests, "MOST_VALUES", MOST_VALUES // 1_000)
    monkeypatch.setattr(manifests, "_MOST_IN_FILE", 8 * MOST_VALUES // 1_000)


@pytest.mark.usefixtures("_little")
def test_values_are_counted_for_each_document_of_a_large_file(tmp_path: Path) -> None:
    one = f"kind: X\nspec: {{list: [{'1, ' * 400}]}}\n"
    assert {type(found) for found in read(tmp_path, "---\n".join([one] * 9))} == {Manifest}
    [broken] = read(tmp_path, one.replace("1, ", "1, 1, "))
    assert isinstance(broken, Unreadable)
    assert broken.message == "refused: more than 500 values in one document"


@pytest.mark.usefixtures("_little")
def test_bombs_in_many_documents_are_refused_together(tmp_path: Path) -> None:
    """Each alone is just small enough."""
    one = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b]\n"
    assert isinstance(read(tmp_path, one)[0], Manifest)
    *_, broken = read(tmp_path, "---\n".join([one] * 20))
    assert isinstance(broken, Unreadable)
    assert broken.message == "refused: more than 4000 values"
    assert broken.place.line > 30


def test_broken_json_says_where(tmp_path: Path) -> None:
    [broken] = read(tmp_path, '{"a": 1,\n "b": }', "a.json")
    assert isinstance(broken, Unreadable)
    assert (broken.place.line, broken.message.startswith("not JSON")) == (2, True)


def test_a_broken_document_does_not_hide_the_good_ones_around_it(tmp_path: Path) -> None:
    found = read(tmp_path, "kind: A\n---\nb: 1\nb: 2\n---\nkind: C\n")
    assert [type(one) for one in found] == [Manifest, Unreadable, Manifest]


def test_a_folder_is_walked_in_order_without_charts_templates_and_hidden_files(tmp_path: Path) -> None:
    for name in (
        "b.yaml",
        "a.yml",
        "c.json",
        "d.txt",
        ".hidden.yaml",
        "chart/Chart.yaml",
        "chart/templates/x.yaml",
        "skip/y.yaml",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("{}")
    search = Search(exclude=["skip"])
    found = [Path(name).relative_to(tmp_path).as_posix() for name in search.files([str(tmp_path)])]
    assert found == ["a.yml", "b.yaml", "c.json", "chart/Chart.yaml"]
    assert len(search.notes) == 1
    paths = [str(tmp_path / "chart/templates/x.yaml"), str(tmp_path / "*.yaml"), "nowhere.yaml", "-"]
    assert [Path(name).name for name in search.files(paths)] == ["x.yaml", "b.yaml", "nowhere.yaml", "-"]
    assert search.named == {paths[0], "nowhere.yaml", "-"}


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    [missing] = read_file(str(tmp_path / "nowhere.yaml"))
    assert isinstance(missing, Unreadable)
    assert missing.message == "No such file or directory"
