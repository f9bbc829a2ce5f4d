"""argocd-cm, argocd-rbac-cm and argocd-cmd-params-cm, key by key: is it known, is its value a text that can be read."""

from collections.abc import Iterator
from functools import partial

from argocd import names
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.rules.config_map_data import CONFIG_MAPS, at, changed_entries, changed_texts, data_of, first
from argocd.settings import value_forms
from argocd.settings.keys import KnownKey, home_of, keys_of
from argocd.settings.sso import unknown_oidc_fields
from argocd.spelling import did_you_mean

_SPOKEN_OF_BY_IGNORED_KEY = frozenset(
    {
        names.PROPOSED_IMPERSONATION_KEY,
        names.PROPOSED_TRACKING_METHOD_KEY,
        names.IMPERSONATION_ENABLED_KEY,
        names.IMPERSONATION_ENFORCED_KEY,
    }
)
_JUDGED_ELSEWHERE = frozenset({"", "switch", "yaml", "account", "customization"})


def _value_type(case: Case) -> Iterator[Finding]:
    for key, value in changed_entries(case):
        if value is not None and not isinstance(value, str):
            yield Finding(
                "settings/value-type",
                at(key),
                f"a ConfigMap holds texts, and this is {_described(value)}: the API server refuses the object",
                'Put the value into quotes ("true", "10"), or write | and the lines below it.',
            )


def _described(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "a list" if isinstance(value, list) else "a mapping"


def _unknown_key(case: Case) -> Iterator[Finding]:
    version = case.surroundings.configuration.argocd.version
    table = keys_of(case.kind)
    for key, value in changed_entries(case):
        if key in _SPOKEN_OF_BY_IGNORED_KEY:
            continue
        known = table.find(key)
        if known is None:
            home = home_of(key)
            meant = "" if home else did_you_mean(key, table.exact)
            yield Finding(
                "settings/unknown-key",
                at(key),
                f"Argo CD reads this key from the {home}"
                if home
                else f"Argo CD does not read this key{meant}",
                "Move it there." if home else "Correct the key, or remove it.",
            )
        elif not known.is_read_by(version):
            yield Finding("settings/unknown-key", at(key), _untimely(known), "Remove the key.")
        elif key == "oidc.config" and isinstance(value, str):
            for unknown in unknown_oidc_fields(value):
                yield Finding("settings/unknown-key", at(key), unknown, "Correct the field, or remove it.")


def _untimely(known: KnownKey) -> str:
    if known.until:
        return f"Argo CD reads this key up to {_dotted(known.until)}, and no longer"
    return f"Argo CD reads this key since {_dotted(known.since)}, and not before"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _value(rule: str, case: Case) -> Iterator[Finding]:
    table = keys_of(case.kind)
    for key, text in changed_texts(case):
        known = table.find(key)
        if known is None or known.form in _JUDGED_ELSEWHERE:
            continue
        if wrong := value_forms.problem(known.form, text):
            yield Finding(
                rule,
                at(key),
                f"{value_forms.shown(text)} {wrong}, and Argo CD takes its default or fails",
                "Correct the value, or remove the key for the default.",
            )


def _wrong_value(case: Case) -> Iterator[Finding]:
    return _value("settings/value", case)


def _wrong_parameter(case: Case) -> Iterator[Finding]:
    return _value("parameters/value", case)


def _sso_url(case: Case) -> Iterator[Finding]:
    data = data_of(case.object)
    sso = next(
        (key for key in ("dex.config", "oidc.config") if isinstance(data.get(key), str) and data[key]), ""
    )
    if sso and not data.get("url"):
        yield Finding(
            "settings/sso-url",
            at(sso),
            "without the key url Argo CD does not know where users come back to, and single sign-on stays off",
            "Add url: https://ARGOCD.",
        )


_rule = partial(Rule, profile=Profile.RECOMMENDED, action=Action.DENY, reads=("data",))


RULES: tuple[Rule, ...] = (
    _rule(
        id="settings/value-type",
        kinds=CONFIG_MAPS,
        title="Settings are texts",
        explanation=(
            "Every value of a ConfigMap is a text. Without quotes YAML makes a switch or a number of `true` and `10`, "
            "and a mapping of what should have been YAML in a text."
        ),
        bad=examples.argocd_cm("admin.enabled: false"),
        good=examples.argocd_cm("admin.enabled: 'false'"),
        check=lambda case: first(_value_type(case)),
    ),
    _rule(
        id="settings/unknown-key",
        kinds=CONFIG_MAPS,
        action=Action.WARN,
        title="Settings have keys that this Argo CD reads",
        explanation=(
            "Argo CD passes over keys that it does not know, without a word: a misspelt one leaves the default in "
            "place. Some keys belong into another of its ConfigMaps, or into its Secret; some are read by older or "
            "newer releases only."
        ),
        bad=examples.argocd_cm("timeout.reconcilation: 300s"),
        good=examples.argocd_cm("timeout.reconciliation: 300s"),
        check=lambda case: first(_unknown_key(case)),
    ),
    _rule(
        id="settings/value",
        kinds=frozenset({Kind.ARGOCD_CM}),
        title="Values of argocd-cm can be read",
        explanation=(
            "Durations, numbers, URLs and switches that Argo CD cannot read are replaced by their defaults with a line "
            "in its log, or make it fail. `users.session.duration` takes one number and one unit (`90m`, `7d`), "
            "`timeout.reconciliation` also Go's durations (`1h30m`)."
        ),
        bad=examples.argocd_cm("users.session.duration: 1h30m"),
        good=examples.argocd_cm("users.session.duration: 90m"),
        check=lambda case: first(_wrong_value(case)),
    ),
    _rule(
        id="settings/sso-url",
        kinds=frozenset({Kind.ARGOCD_CM}),
        action=Action.WARN,
        title="Single sign-on needs Argo CD's own address",
        explanation="Dex is not even started while `url` is empty, and an identity provider needs an address to return to.",
        bad=examples.argocd_cm("oidc.config: '{issuer: https://id.example.com, clientID: argocd}'"),
        good=examples.argocd_cm(
            "url: https://argocd.example.com\n"
            "oidc.config: '{issuer: https://id.example.com, clientID: argocd}'"
        ),
        check=_sso_url,
    ),
    _rule(
        id="parameters/value",
        kinds=frozenset({Kind.PARAMETERS_CM}),
        title="Parameters of Argo CD's processes can be read",
        explanation=(
            "Argo CD's processes get argocd-cmd-params-cm as environment variables when they start. A switch, number "
            "or duration that cannot be read, or is out of bounds, is replaced by the default; an unknown log format "
            "or level stops the process."
        ),
        bad=examples.config_map("server.insecure: 'yes'", name=names.ARGOCD_CMD_PARAMS_CM),
        good=examples.config_map("server.insecure: 'true'", name=names.ARGOCD_CMD_PARAMS_CM),
        check=lambda case: first(_wrong_parameter(case)),
    ),
)
