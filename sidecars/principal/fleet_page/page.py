"""The fleet page: rendered here, kept up to date by server-sent events where the browser runs scripts."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, cast

import orjson

from argocd.explanations.explanation import Explanation, Mark, UnexplainedError
from kube.errors import ApiError
from kube.store import Store
from sidecars.principal.fleet_page import search
from sidecars.principal.fleet_page.drawn import DrawnPages, DrawnRows
from sidecars.principal.fleet_page.record import REGIONS, STUCK, SUMMARY, TRAVELLED
from sidecars.principal.fleet_page.regions import Regions
from sidecars.principal.fleet_page.rows import (
    LONGEST_TERM,
    STATES,
    AgentFacts,
    View,
    agent_names,
    facts,
)
from sidecars.principal.fleet_page.tallies import HEALTH, SYNC
from sidecars.principal.principal import Principal
from tiphys import __version__
from tiphys.http_server import HttpPage, HttpRoute, ServerSentEvents
from tiphys.pages import layout

LISTENERS = 32
"""Half of the connections that the server holds; others read the page without its being live."""
PAUSE_SECONDS = 1.0
"""Between two events of a listener: more often nobody reads."""
IDLE_SECONDS = 5.0
"""A word that all is well, and the time at which what waits has grown older."""
MOST_ROWS = 200
"""Of one event; the others come with the next ones, whoever has waited longest first."""
SEARCH_SECONDS = 4.0
SEARCHES = 2
"""At a time: each may ask the API server for Argo CD's clusters."""
STUCK_SHOWN = 200
RENDERED_AT_ONCE = 100
"""Rows, before others have their turn."""

_MARKS = {Mark.YES: ("yes", "holds"), Mark.NO: ("no", "does not hold"), Mark.NOTE: ("note", "note")}


@cache
def script() -> bytes:
    return files("sidecars.principal.fleet_page").joinpath("static", "fleet.js").read_bytes()


class FleetPage:
    """`principal` answers None while this replica does not lead."""

    def __init__(
        self,
        store: Store,
        principal: Callable[[], Principal | None],
        *,
        waits: Callable[[], str],
        regions: Regions = lambda: (),
    ) -> None:
        """`waits` says for whom this replica waits, in words."""
        self._store = store
        self._principal = principal
        self._waits = waits
        self._regions = regions
        self._listeners = 0
        self._searches = asyncio.Semaphore(SEARCHES)
        environment = layout.environment("sidecars.principal.fleet_page")
        environment.filters.update(moment=_moment, duration=_duration)
        self._templates = environment
        self._whole_page = environment.get_template("fleet.html")
        self._parts = cast("Any", environment.get_template("fleet_parts.html").module)
        self._rows = DrawnRows(self._parts.row)
        self._pages = DrawnPages()
        self._turned_at = 0.0
        self._drawn: dict[str, tuple[int, str]] = {}
        self._of: Principal | None = None

    @property
    def routes(self) -> Mapping[str, HttpRoute]:
        return {
            "/": self._page,
            "/events": self._events,
            f"/{layout.STYLE_PATH}": _static(layout.style_sheet, layout.STYLE_TYPE),
            "/fleet.js": _static(script, layout.SCRIPT_TYPE),
        }

    # The whole page.

    async def _page(self, query: Mapping[str, str]) -> HttpPage:
        principal = self._leading()
        if principal is None:
            text = self._templates.get_template("waiting.html").render(
                version=__version__,
                waits=self._waits(),
                regions=str(self._parts.regions(self._regions())),
            )
            return HttpPage(text.encode(), status=503, content_type=layout.HTML_TYPE, headers=layout.HEADERS)
        view, asked = View.of(query), await self._asked(principal, query)
        key = None if asked["answers"] else view
        whole = await self._pages.of(key, lambda: self._whole(principal, view, asked))
        return HttpPage(whole, content_type=layout.HTML_TYPE, headers=layout.HEADERS)

    async def _whole(self, principal: Principal, view: View, asked: Mapping[str, Any]) -> bytes:
        stamp = principal.record.news.stamp
        agents = [facts(principal, name) for name in agent_names(principal)]
        self._rows.keep({agent.name for agent in agents})
        shown = view.ordered(agent for agent in agents if view.shows(agent))
        rows = []
        for number, agent in enumerate(shown):
            rows.append(self._row(principal, agent))
            if number % RENDERED_AT_ONCE == RENDERED_AT_ONCE - 1:
                await asyncio.sleep(0)
        text = self._whole_page.render(
            version=__version__,
            now=datetime.now(UTC),
            namespace=principal.settings.namespace,
            view=view,
            stamp=stamp,
            rows=rows,
            agents=len(agents),
            parts={part: self._part(principal, part) for part in (SUMMARY, STUCK, TRAVELLED, REGIONS)},
            asked=asked,
            names=[agent.name for agent in agents],
            states=STATES,
            health=HEALTH,
            sync=SYNC,
        )
        return text.encode()

    def _leading(self) -> Principal | None:
        principal = self._principal()
        if principal is not self._of:  # what was drawn is of another time
            self._rows.clear()
            self._pages.clear()
            self._drawn.clear()
            self._of = principal
        return principal

    def _row(self, principal: Principal, agent: AgentFacts) -> str:
        return self._rows.of(agent, number=principal.record.news.of(agent.name))

    def _part(self, principal: Principal, part: str) -> str:
        """One rendering for however many look."""
        record = principal.record
        record.calm()
        newest = record.news.number
        number, drawn = self._drawn.get(part, (-1, ""))
        if part == REGIONS:  # which no event tells of
            return str(self._parts.regions(self._regions()))
        if number == newest or (number >= 0 and part not in record.news.parts_since(number)):
            return drawn
        match part:
            case "summary":
                drawn = str(
                    self._parts.summary(record.tallies.total, self._counts(principal), len(record.stuck))
                )
            case "stuck":
                listed = sorted(record.stuck, key=lambda each: each.since, reverse=True)
                drawn = str(self._parts.stuck(listed[:STUCK_SHOWN], len(listed)))
            case _:
                drawn = str(self._parts.travelled(list(reversed(record.travelled))))
        self._drawn[part] = newest, drawn
        return drawn

    def _counts(self, principal: Principal) -> dict[str, int]:
        known = len(principal.hub_state.clusters.terms("agent"))
        connected = principal.record.connected_now
        return {"agents": known, "connected": connected, "away": known - connected}

    # Answers.

    async def _asked(self, principal: Principal, query: Mapping[str, str]) -> dict[str, Any]:
        terms = {
            key: query.get(key, "").strip()[:LONGEST_TERM] for key in ("project", "agent", "application")
        }
        asked: dict[str, Any] = {**terms, "answers": []}
        if self._searches.locked():
            asked["answers"] = (
                [_unanswered("Too many searches at once: try again.")] if any(terms.values()) else []
            )
            return asked
        async with self._searches:
            if terms["project"] and terms["agent"]:
                asked["answers"].append(
                    await _answered(search.why_project(principal, terms["project"], agent=terms["agent"]))
                )
            elif terms["project"] or terms["agent"]:
                asked["answers"].append(_unanswered("Name both the project and the agent."))
            if terms["application"]:
                asked["answers"].append(
                    await _answered(search.as_whom(self._store, principal, terms["application"]))
                )
        return asked

    # Live.

    async def _events(self, query: Mapping[str, str]) -> HttpPage | ServerSentEvents:
        principal = self._leading()
        if principal is None or self._listeners >= LISTENERS:
            return HttpPage(b"not now: the page is there without this\n", status=503, headers=layout.HEADERS)
        return ServerSentEvents(self._listen(principal, query), headers=layout.HEADERS)

    async def _listen(self, principal: Principal, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        news, view = principal.record.news, View.of(query)
        seen = news.number_of(query.get("since", ""))
        if self._listeners >= LISTENERS or seen is None:
            yield _event("reload", {})
            return
        self._listeners += 1
        try:
            shown = {name for name in agent_names(principal) if view.shows(facts(principal, name))}
            waiting: dict[str, None] = {}
            told = seen  # all up to here: whoever comes back begins there
            yield _event("fleet", {"stamp": news.stamp_of(told)})
            while self._principal() is principal:
                self._turn_colours(principal)
                try:
                    async with asyncio.timeout(IDLE_SECONDS):
                        await news.changed(-1 if waiting else seen)
                except TimeoutError:
                    yield self._older(principal, shown, stamp=news.stamp_of(told))
                    continue
                await asyncio.sleep(PAUSE_SECONDS)
                number = news.number
                # Whoever waits keeps its place, however often it changes meanwhile.
                waiting.update(dict.fromkeys(reversed(news.agents_since(seen))))
                rows = self._changed_rows(principal, view, shown, waiting, since=seen)
                if rows is None:
                    break
                parts = {part: self._part(principal, part) for part in news.parts_since(seen)}
                seen, told = number, told if waiting else number
                yield _event("fleet", {"stamp": news.stamp_of(told), "rows": rows, "parts": parts})
            yield _RELOAD
        finally:
            self._listeners -= 1

    def _turn_colours(self, principal: Principal) -> None:
        """For all listeners, now and then: a certificate comes near its end without an event."""
        now = time.monotonic()
        if now - self._turned_at >= IDLE_SECONDS:
            self._turned_at = now
            for name in self._rows.turned():
                principal.record.news.agent_changed(name)

    def _changed_rows(
        self, principal: Principal, view: View, shown: set[str], waiting: dict[str, None], *, since: int
    ) -> dict[str, str] | None:
        """Of those who wait, as many as go into one event; None where the list of agents is another one."""
        clusters = principal.hub_state.clusters
        if SUMMARY in principal.record.news.parts_since(since) and not shown <= set(
            map(str, clusters.terms("agent"))
        ):
            return None
        rows: dict[str, str] = {}
        while waiting and len(rows) < MOST_ROWS:
            name = next(iter(waiting))
            del waiting[name]
            agent = facts(principal, name)
            if view.shows(agent) != (name in shown) and clusters.find("agent", name):
                return None
            if name in shown:
                rows[name] = self._row(principal, agent)
        return rows

    def _older(self, principal: Principal, shown: set[str], *, stamp: str) -> bytes:
        """Nothing has happened; whoever waits has waited longer."""
        rows: dict[str, str] = {}
        for agent in principal.known_agents:
            if agent.name in shown and len(rows) < MOST_ROWS:
                found = facts(principal, agent.name)
                if found.queue:
                    rows[agent.name] = self._row(principal, found)
        parts = {REGIONS: self._part(principal, REGIONS)} if self._regions() else {}
        return _event("fleet", {"stamp": stamp, "rows": rows, "parts": parts})


def _event(name: str, told: Mapping[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(told) + b"\n\n"


_RELOAD = _event("reload", {})


def _static(content: Callable[[], bytes], content_type: str) -> HttpRoute:
    async def answer(_query: Mapping[str, str]) -> HttpPage:
        return HttpPage(content(), content_type=content_type, headers=layout.HEADERS)

    return answer


async def _answered(question: Any) -> dict[str, Any]:
    try:
        async with asyncio.timeout(SEARCH_SECONDS):
            found: Explanation = await question
    except UnexplainedError as error:
        return _unanswered(f"{str(error)[:1].upper()}{str(error)[1:]}.")
    except (ApiError, TimeoutError) as error:
        return _unanswered(f"The API server did not tell: {error or 'no answer in time'}.")
    sections = [
        {"title": section.title, "steps": [(*_MARKS[step.mark], step) for step in section.steps]}
        for section in found.sections
        if section.steps  # manifests are objects: whoever may read them asks the API server
    ]
    return {"answer": found.answer, "good": found.good, "sections": sections}


def _unanswered(words: str) -> dict[str, Any]:
    return {"answer": words, "good": None, "sections": []}


def _moment(found: datetime | None, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return found.astimezone(UTC).strftime(form) if found else ""


_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def _duration(seconds: float) -> str:
    """In the unit that says something."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.0f} h" if seconds < _DAY else f"{seconds / _DAY:.0f} d"
