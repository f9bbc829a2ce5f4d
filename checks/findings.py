"""What a run found: findings at their places, and what could not be read."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from argocd import reading
from argocd.engine.judge import Judgement
from argocd.judging.case import Action
from checks.files.reasons import Reason
from checks.manifests import Manifest, Object, Place, Position, Unreadable


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """One finding at its place; `about` names the object, `position` says which one of the file it is."""

    rule: str
    action: Action
    place: Place
    path: str
    message: str
    hint: str
    about: str
    exempted: str = ""
    position: Position = (0, "")

    @property
    def fingerprint(self) -> str:
        """The same finding tomorrow, also when lines above it have moved."""
        key = f"{self.rule}\0{self.place.file}\0{self.about}\0{self.path}\0{self.message}"
        return hashlib.sha256(key.encode()).hexdigest()[:32]


@dataclass(slots=True)
class FileResult:
    """`waiting` are judged when all their neighbours are known; `named` stand for those that others ask for by name."""

    findings: list[PlacedFinding] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    waiting: list[Manifest] = field(default_factory=list)
    named: list[Object] = field(default_factory=list)
    objects: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    left_alone: Counter[Reason] = field(default_factory=Counter)


@dataclass(slots=True)
class CheckResult:
    findings: list[PlacedFinding]
    unreadable: list[Unreadable]
    files: int = 0
    objects: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    """Argo CD's objects that were judged."""
    left_alone: Counter[Reason] = field(default_factory=Counter)

    def add(self, told: FileResult) -> None:
        """What is known of one file, without what waits for its neighbours."""
        self.findings += told.findings
        self.unreadable += told.unreadable
        self.objects += told.objects
        self.kinds += told.kinds
        self.left_alone += told.left_alone

    def failing(self, *, fail_on: Action) -> list[PlacedFinding]:
        """What is denied; with `warn`, or warned of."""
        failing = {Action.DENY, fail_on}
        return [found for found in self.findings if found.action in failing]


def placed(judgement: Judgement, *, place: Place, about: str, position: Position = (0, "")) -> PlacedFinding:
    finding, exemption = judgement.finding, judgement.exemption
    return PlacedFinding(
        rule=finding.rule,
        action=judgement.action,
        place=place,
        path=finding.path,
        message=finding.message,
        hint=finding.hint,
        about=about,
        exempted=exemption.reason or "exempted" if exemption else "",
        position=position,
    )


def placed_in(manifest: Manifest, judgement: Judgement) -> PlacedFinding:
    return placed(
        judgement,
        place=manifest.place(_written(manifest.body, judgement.finding.path)),
        about=name_of(manifest.body),
        position=manifest.position,
    )


def _written(body: Object, path: str) -> str:
    """Rules know a Secret's values under `data`, also those that are written under `stringData`."""
    section, _, key = path.partition(".")
    if section == "data" and key in reading.mapping(body, "stringData"):
        return f"stringData[{key}]"
    return path


def name_of(body: Object) -> str:
    """`AppProject argocd/web`, as far as it is written."""
    metadata = reading.mapping(body, "metadata")
    name = reading.text(metadata, "name") or reading.text(metadata, "generateName") or "?"
    namespace = reading.text(metadata, "namespace")
    return f"{reading.text(body, 'kind') or '?'} {f'{namespace}/' if namespace else ''}{name}"
