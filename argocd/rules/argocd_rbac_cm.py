"""argocd-rbac-cm: policies that casbin cannot read, that match nothing, and roles that lead nowhere."""

from collections.abc import Iterator
from functools import partial

from argocd import charged_yaml, names, reading
from argocd.go import runes
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.rules.config_map_data import at, data_of, first
from argocd.settings import rbac, value_forms
from argocd.settings.casbin import BUILT_IN_ROLES, EFFECTS, PolicyLine, policy_keys, policy_lines
from argocd.settings.rbac import MatchMode, Permission, Roles
from argocd.shortening import shortened
from argocd.spelling import did_you_mean

_LONGEST = 120
"""Characters of a line that a message repeats."""


def _lines(case: Case) -> list[PolicyLine]:
    return list(policy_lines(data_of(case.object)))


def _changed_lines(case: Case) -> list[PolicyLine]:
    """The lines that are new; all of them where patterns mean something else now."""
    data, before = data_of(case.object), data_of(case.old)
    same = MatchMode.of(data) is MatchMode.of(before)
    texts = (reading.text(before, key) for key in policy_keys(before)) if same else ()
    old = {runes.trim(line) for text in texts for line in text.split("\n")}
    return [line for line in case.once(_lines) if line.text not in old]


def _roles(case: Case) -> Roles:
    return rbac.roles_of(case.once(_lines), default=reading.text(data_of(case.object), rbac.DEFAULT_KEY))


def _roles_before(case: Case) -> Roles:
    before = data_of(case.old)
    return rbac.roles_of(policy_lines(before), default=reading.text(before, rbac.DEFAULT_KEY))


def _told(rule: str, line: PolicyLine, message: str, hint: str) -> Finding:
    return Finding(rule, at(line.key), f"line {line.number}: {message}", hint)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{shortened(text, _LONGEST)}…"


def _policy_line(case: Case) -> Iterator[Finding]:
    form = "Compare with: p, role:ops, applications, sync, shop/*, allow and g, ops-team, role:ops"
    for line in case.once(_changed_lines):
        if line.problem:
            yield _told("rbac/policy-line", line, _short(line.problem), form)
        elif line.fields[0] == "p" and line.fields[-1] not in EFFECTS:
            said = f"the effect {value_forms.shown(line.fields[-1])} is neither allow nor deny, and the line counts as neither"
            yield _told(
                "rbac/policy-line", line, said, "Write allow or deny, in lower case, with nothing after it."
            )


def _pattern(case: Case) -> Iterator[Finding]:
    mode = MatchMode.of(data_of(case.object))
    for permission in rbac.permissions(case.once(_changed_lines)):
        for pattern in (permission.resource, permission.action, permission.target):
            if problem := rbac.pattern_problem(pattern, mode):
                said = f"{value_forms.shown(pattern)} {problem}"
                yield _told(
                    "rbac/pattern",
                    permission.line,
                    said,
                    "Correct the pattern; policy.matchMode says which kind.",
                )


def _no_match(case: Case) -> Iterator[Finding]:
    mode = MatchMode.of(data_of(case.object))
    for permission in rbac.permissions(case.once(_changed_lines)):
        if (why := rbac.matches_nothing(permission, mode)) and not _is_broken(permission, mode):
            yield _told(
                "rbac/no-match",
                permission.line,
                f"{why}: the line does nothing",
                "Correct the line, or remove it.",
            )


def _is_broken(permission: Permission, mode: MatchMode) -> bool:
    return any(
        rbac.pattern_problem(pattern, mode)
        for pattern in (permission.resource, permission.action, permission.target)
    )


def _project(case: Case) -> Iterator[Finding]:
    mode = MatchMode.of(data_of(case.object))
    for permission in rbac.permissions(case.once(_changed_lines)):
        project = rbac.project_of(permission, mode)
        if (
            project
            and project != names.DEFAULT_PROJECT
            and case.surroundings.neighbours.project(project) == {}
        ):
            said = f"there is no project {value_forms.shown(project)}, so the line does nothing"
            yield _told("rbac/project", permission.line, said, "Correct the name, or create the project.")


def _unassigned_role(case: Case) -> Iterator[Finding]:
    known = dict(case.once(_roles_before).unassigned())
    for role, line in case.once(_roles).unassigned():
        if role not in known:
            said = f"nobody has {value_forms.shown(role)}: no line g, SUBJECT, {shortened(role, _LONGEST)} gives it"
            hint = "Give the role to a user or a group, or remove its lines."
            yield _told("rbac/unassigned-role", line, said, hint)


def _role(case: Case) -> Iterator[Finding]:
    known = dict(case.once(_roles_before).undefined())
    roles = case.once(_roles)
    for role, line in roles.undefined():
        if role not in known:
            near = did_you_mean(role, {*BUILT_IN_ROLES, *list(roles.defined)[:_LONGEST]})
            said = f"{value_forms.shown(role)} may do nothing: no line begins with p, {shortened(role, _LONGEST)}{near}"
            yield _told("rbac/role", line, said, "Correct the role's name, or write what it may do.")


def _default(case: Case) -> Iterator[Finding]:
    role = reading.text(data_of(case.object), rbac.DEFAULT_KEY)
    if role and not case.once(_roles).exists(role):
        yield Finding(
            "rbac/default",
            at(rbac.DEFAULT_KEY),
            f"there is no role {value_forms.shown(role)}, so users without another role may do nothing"
            f"{did_you_mean(role, BUILT_IN_ROLES)}",
            "Use role:readonly or a role of the policy, or leave it empty.",
        )


def _match_mode(case: Case) -> Iterator[Finding]:
    mode = reading.text(data_of(case.object), rbac.MODE_KEY)
    if mode and mode not in set(MatchMode):
        yield Finding(
            "rbac/match-mode",
            at(rbac.MODE_KEY),
            f"{value_forms.shown(mode)} is no mode, and Argo CD takes patterns for globs",
            "Use glob or regex.",
        )


def _scopes(case: Case) -> Iterator[Finding]:
    text = reading.text(data_of(case.object), rbac.SCOPES_KEY)
    if text and not _is_list_of_texts(text):
        yield Finding(
            "rbac/scopes",
            at(rbac.SCOPES_KEY),
            f"{value_forms.shown(text)} is no YAML list of texts: Argo CD refuses the whole ConfigMap and keeps the old one",
            "Write '[groups, email]'.",
        )


def _is_list_of_texts(text: str) -> bool:
    try:
        loaded = charged_yaml.load(text)
    except charged_yaml.YamlError:
        return False
    return loaded is None or (isinstance(loaded, list) and all(isinstance(one, str) for one in loaded))


_rule = partial(
    Rule, kinds=frozenset({Kind.RBAC_CM}), profile=Profile.RECOMMENDED, action=Action.DENY, reads=("data",)
)
_OPS = "g, ops-team, role:ops"


def _cm(*lines: str, more: str = "") -> str:
    policy = "".join(f"\n  {line}" for line in lines)
    return examples.config_map(f"{more}\npolicy.csv: |{policy}" if lines else more, name=names.ARGOCD_RBAC_CM)


def _sync(
    *, resource: str = "applications", action: str = "sync", target: str = "shop/*", end: str = "allow"
) -> str:
    return _cm(f"p, role:ops, {resource}, {action}, {target}, {end}", _OPS)


_PROJECT = examples.project(spec="sourceRepos: ['https://git.example.com/*']") + examples.BEFORE

RULES: tuple[Rule, ...] = (
    _rule(
        id="rbac/policy-line",
        title="Every line of a policy can be read",
        explanation=(
            "A line is `p, SUBJECT, RESOURCE, ACTION, OBJECT, EFFECT` or `g, SUBJECT, ROLE`, in CSV, or begins with #. "
            "One that is not makes Argo CD refuse the whole policy: it goes on with the old one, and cannot start "
            "without one. An effect other than allow and deny makes a line mean nothing."
        ),
        bad=_cm("p, role:ops, applications, sync, shop/*", _OPS),
        good=_sync(),
        check=lambda case: first(_policy_line(case)),
    ),
    _rule(
        id="rbac/pattern",
        title="Patterns of a policy can be used",
        explanation=(
            "With `policy.matchMode: regex` a pattern that is no regular expression makes Argo CD's API server panic at "
            "every question; with globs one that does not compile matches nothing."
        ),
        bad=_sync(target="'shop/[a-'").replace("'", ""),
        good=_sync(target="shop/a-*"),
        check=lambda case: first(_pattern(case)),
    ),
    _rule(
        id="rbac/no-match",
        action=Action.WARN,
        title="A policy is about something that Argo CD asks for",
        explanation=(
            "Argo CD asks casbin about twelve resources, each with its own actions: logs can be got, exec created, "
            "extensions invoked. Objects of applications, applicationsets, logs and exec are PROJECT/NAME or "
            "PROJECT/NAMESPACE/NAME. A line about anything else permits, or denies, nothing."
        ),
        bad=_sync(resource="application"),
        good=_sync(),
        check=lambda case: first(_no_match(case)),
    ),
    _rule(
        id="rbac/project",
        action=Action.WARN,
        neighbours=True,
        title="A policy names projects that exist",
        explanation="A line about the applications of a project that does not exist permits nothing until there is one.",
        bad=_PROJECT + _sync(target="shops/*"),
        good=_PROJECT + _sync(target="shop/*"),
        check=lambda case: first(_project(case)),
    ),
    _rule(
        id="rbac/role",
        action=Action.WARN,
        title="Roles that somebody has may do something",
        explanation=(
            "A role that is given away without a line `p` for it has no effect; mostly its name is misspelt. role:admin "
            "and role:readonly are built in."
        ),
        bad=_cm("p, role:ops, applications, sync, shop/*, allow", _OPS, "g, night-shift, role:op"),
        good=_sync(),
        check=lambda case: first(_role(case)),
    ),
    _rule(
        id="rbac/unassigned-role",
        profile=Profile.STRICT,
        action=Action.WARN,
        title="Somebody has every role",
        explanation=(
            "A role that no line `g` gives to anybody and that is not policy.default has no effect, whatever its lines "
            "permit."
        ),
        opinion="Every seventh policy prepares roles for groups that are to come, and nothing is wrong with it.",
        bad=_cm("p, role:ops, applications, sync, shop/*, allow"),
        good=_sync(),
        check=lambda case: first(_unassigned_role(case)),
    ),
    _rule(
        id="rbac/default",
        title="policy.default is a role that exists",
        explanation=(
            "Who has no other role gets this one. Of a name that is no role, `readonly` without its `role:` among "
            "them, Argo CD says nothing."
        ),
        bad=_cm(more="policy.default: readonly"),
        good=_cm(more="policy.default: role:readonly"),
        check=_default,
    ),
    _rule(
        id="rbac/match-mode",
        title="policy.matchMode is glob or regex",
        explanation="Any other text means glob, and regular expressions then match nothing.",
        bad=_cm(more="policy.matchMode: regexp"),
        good=_cm(more="policy.matchMode: regex"),
        check=_match_mode,
    ),
    _rule(
        id="rbac/scopes",
        title="scopes is a list",
        explanation="The claims of a token that name a user's groups, as a YAML list in a text.",
        bad=_cm(more="scopes: groups, email"),
        good=_cm(more="scopes: '[groups, email]'"),
        check=_scopes,
    ),
)
