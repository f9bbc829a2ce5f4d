"""Rollouts and other habits of ApplicationSets that do less than they say."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from argocd import globs, names, reading
from argocd.applications import application_sets
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples

_ROLLING = "RollingSync"
_STRATEGIES = frozenset({"", "AllAtOnce", _ROLLING})
_OPERATORS = frozenset({"In", "NotIn"})
_PERCENT = re.compile(r"[+-]?[0-9]{1,9}%", re.ASCII)
_STRATEGY = "spec.strategy"
_LABELS = ("spec.template.metadata.labels", "spec.generators", "spec.templatePatch")
_FORGE_GENERATORS = ("scmProvider", "pullRequest")


def _spec(case: Case) -> Mapping[str, Any]:
    return reading.mapping(case.object, "spec")


def _rolls(spec: Mapping[str, Any]) -> bool:
    return reading.text(spec, "strategy", "type") == _ROLLING


def _strategy_type(case: Case) -> Iterator[Finding]:
    strategy = reading.mapping(case.object, "spec", "strategy")
    kind = reading.text(strategy, "type")
    if kind not in _STRATEGIES:
        message = f"Argo CD has no strategy {kind!r} and applies all applications at once"
    elif kind != _ROLLING and strategy.get("rollingSync") is not None:
        message = "rollingSync is ignored unless the strategy's type is RollingSync"
    else:
        return
    yield Finding("applicationset/strategy-type", f"{_STRATEGY}.type", message, "Set type to RollingSync.")


def _rolling_steps(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    if _rolls(spec) and not reading.sequence(spec, "strategy", "rollingSync", "steps"):
        yield Finding(
            "applicationset/rolling-steps",
            f"{_STRATEGY}.rollingSync.steps",
            "No steps defined for rollout",
            "Add steps, or remove the strategy: without them no application is synced automatically.",
        )


def _rolling_operator(case: Case) -> Iterator[Finding]:
    for step_path, step in application_sets.rolling_steps(_spec(case)):
        for path, expression in application_sets.expressions(step_path, step):
            operator = reading.text(expression, "operator")
            if operator not in _OPERATORS:
                yield Finding(
                    "applicationset/rolling-operator",
                    f"{path}.operator",
                    f"a step selects applications with In or NotIn, not {operator!r}: it selects none",
                    "Write In or NotIn, exactly so.",
                )


def _rolling_amount(case: Case) -> Iterator[Finding]:
    for path, step in application_sets.rolling_steps(_spec(case)):
        amount = step.get("maxUpdate")
        if amount is None or (isinstance(amount, int) and not isinstance(amount, bool)):
            continue
        if not (isinstance(amount, str) and _PERCENT.fullmatch(amount)):
            yield Finding(
                "applicationset/rolling-amount",
                f"{path}.maxUpdate",
                "maxUpdate is neither a number nor a percentage, and Argo CD ignores it",
                "Write a number without quotation marks, or a percentage such as 25%.",
            )


def _rolling_labels(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    if not _rolls(spec) or spec.get("templatePatch"):
        return
    labels = set(reading.mapping(spec, "template", "metadata", "labels"))
    for _, generator in case.once(application_sets.generators_of):
        for kind in application_sets.kinds_of(generator):
            labels.update(reading.mapping(generator, kind, "template", "metadata", "labels"))
    for step_path, step in application_sets.rolling_steps(spec):
        for path, expression in application_sets.expressions(step_path, step):
            key = reading.text(expression, "key")
            if key and key not in labels:
                yield Finding(
                    "applicationset/rolling-labels",
                    f"{path}.key",
                    f"no generated application has the label {key}: the template does not set it",
                    "Add the label to spec.template.metadata.labels.",
                )


def _rolling_automated(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    if _rolls(spec) and reading.value(spec, "template", "spec", "syncPolicy", "automated") is not None:
        yield Finding(
            "applicationset/rolling-automated",
            "spec.template.spec.syncPolicy.automated",
            "RollingSync removes automated sync from the generated applications",
            "Remove automated; the rollout syncs them.",
        )


def _deletion_order(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    order = reading.text(spec, "strategy", "deletionOrder")
    if not order or order.lower() == "allatonce":
        return
    if order.lower() != "reverse":
        message = f"Argo CD has no deletion order {order!r} and deletes all applications at once"
    elif not (_rolls(spec) and reading.sequence(spec, "strategy", "rollingSync", "steps")):
        message = "deletionOrder Reverse works with RollingSync and steps only"
    else:
        return
    yield Finding(
        "applicationset/deletion-order",
        f"{_STRATEGY}.deletionOrder",
        message,
        "Use AllAtOnce, or Reverse with RollingSync and steps.",
    )


def _missing_key(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    if spec.get("goTemplate") is not True:
        return
    if "missingkey=error" not in reading.texts(spec, "goTemplateOptions"):
        yield Finding(
            "applicationset/missing-key",
            "spec.goTemplateOptions",
            "a variable that does not exist becomes the text <no value>, in names and paths too",
            "Set goTemplateOptions to [missingkey=error].",
        )


def _template_namespace(case: Case) -> Iterator[Finding]:
    namespace = reading.text(case.object, "spec", "template", "metadata", "namespace")
    if namespace and namespace != reading.text(case.object, "metadata", "namespace"):
        yield Finding(
            "applicationset/template-namespace",
            "spec.template.metadata.namespace",
            "generated applications are always created in the ApplicationSet's own namespace",
            "Remove it; for a namespace to deploy to use spec.template.spec.destination.namespace.",
        )


def _finalizer_kept(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    if reading.value(spec, "syncPolicy", "preserveResourcesOnDeletion") is not True:
        return
    if any(
        finalizer.startswith(names.RESOURCES_FINALIZER)
        for finalizer in reading.texts(spec, "template", "metadata", "finalizers")
    ):
        yield Finding(
            "applicationset/finalizer-kept",
            "spec.template.metadata.finalizers",
            "preserveResourcesOnDeletion keeps the objects, and the template's finalizer deletes them",
            "Keep one of the two.",
        )


def _forge_address(case: Case) -> Iterator[Finding]:
    allowed = case.surroundings.settings.allowed_scm_providers
    if not allowed:
        return
    for path, generator in case.once(application_sets.changed_generators):
        for kind in _FORGE_GENERATORS:
            for forge, options in reading.mapping(generator, kind).items():
                address = reading.text(options, "api")
                if address and not any(globs.match(entry, address) == globs.Verdict.YES for entry in allowed):
                    yield Finding(
                        "applicationset/forge-address",
                        f"{path}.{kind}.{forge}.api",
                        f"scm provider {address} is not allowed; Argo CD allows {', '.join(allowed)}",
                        "Use an allowed address, or have it added to the controller's allowed SCM providers.",
                    )


_recommended = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION_SET}),
    profile=Profile.RECOMMENDED,
    action=Action.WARN,
    good=examples.application_set(),
)


def _rollout(
    step: str = "matchExpressions: [{key: env, operator: In, values: [test]}]",
    *,
    kind: str = _ROLLING,
    more: str = "",
    template: str = "",
    metadata: str = "labels: {env: '{{.env}}'}",
) -> str:
    return examples.application_set(
        spec=f"""
        strategy:
          type: {kind}
          rollingSync: {{steps: [{{{step}}}]}}
          {more}
        """,
        metadata=metadata,
        template=template,
    )


_PROJECT = (
    examples.project(spec="sourceRepos: ['*']\ndestinations: [{server: '*', namespace: '*'}]")
    + examples.BEFORE
)
_ALLOWED = f"""\
{_PROJECT}apiVersion: v1
kind: ConfigMap
metadata: {{name: argocd-cmd-params-cm, namespace: argocd}}
data: {{{names.ALLOWED_SCM_PROVIDERS_KEY}: 'https://git.example.com'}}
{examples.BEFORE}"""


def _forge(address: str) -> str:
    return examples.application_set(
        generators=f"- scmProvider: {{gitea: {{owner: shop, api: '{address}'}}}}",
        name="'shop-{{.repository}}'",
    )


RULES: tuple[Rule, ...] = (
    _recommended(
        id="applicationset/strategy-type",
        action=Action.DENY,
        reads=(f"{_STRATEGY}.type", f"{_STRATEGY}.rollingSync"),
        title="The strategy is AllAtOnce or RollingSync",
        explanation="Any other text, also in another case, means AllAtOnce, and rollingSync is ignored.",
        bad=_rollout(kind="rollingSync"),
        good=_rollout(),
        check=_strategy_type,
    ),
    _recommended(
        id="applicationset/rolling-steps",
        action=Action.DENY,
        reads=(f"{_STRATEGY}.type", f"{_STRATEGY}.rollingSync.steps"),
        title="RollingSync has steps",
        explanation="Automated sync is removed from the applications, and without steps nothing replaces it.",
        bad=examples.application_set(spec="strategy: {type: RollingSync}"),
        good=_rollout(),
        check=_rolling_steps,
    ),
    _recommended(
        id="applicationset/rolling-operator",
        action=Action.DENY,
        reads=(f"{_STRATEGY}.rollingSync.steps",),
        title="A step selects with In or NotIn",
        explanation="Other operators, Exists and DoesNotExist among them, select nothing.",
        bad=_rollout("matchExpressions: [{key: env, operator: Exists}]"),
        good=_rollout(),
        check=_rolling_operator,
    ),
    _recommended(
        id="applicationset/rolling-amount",
        action=Action.DENY,
        reads=(f"{_STRATEGY}.rollingSync.steps",),
        title="maxUpdate is a number or a percentage",
        explanation="Argo CD ignores a text that is no percentage and updates the whole step at once.",
        bad=_rollout("maxUpdate: '2'"),
        good=_rollout("maxUpdate: 25%"),
        check=_rolling_amount,
    ),
    _recommended(
        id="applicationset/rolling-labels",
        reads=(f"{_STRATEGY}.type", f"{_STRATEGY}.rollingSync.steps", *_LABELS),
        title="Steps select labels that the template sets",
        explanation="Steps look at the labels of the generated applications; those in no step are never synced.",
        bad=_rollout(metadata="labels: {stage: '{{.env}}'}"),
        good=_rollout(),
        check=_rolling_labels,
    ),
    _recommended(
        id="applicationset/rolling-automated",
        reads=(f"{_STRATEGY}.type", "spec.template.spec.syncPolicy.automated"),
        title="A rollout replaces automated sync",
        explanation="RollingSync turns automated sync off in every application it makes.",
        bad=_rollout(template="syncPolicy: {automated: {prune: true}}"),
        good=_rollout(),
        check=_rolling_automated,
    ),
    _recommended(
        id="applicationset/deletion-order",
        reads=(_STRATEGY,),
        title="Reverse deletion needs a rollout",
        explanation="Without RollingSync and steps there is no order to reverse.",
        bad=examples.application_set(spec="strategy: {type: AllAtOnce, deletionOrder: Reverse}"),
        good=_rollout(more="deletionOrder: Reverse"),
        check=_deletion_order,
    ),
    _recommended(
        id="applicationset/missing-key",
        profile=Profile.STRICT,
        opinion="A third of all ApplicationSets do without the option, and their variables exist.",
        reads=("spec.goTemplate", "spec.goTemplateOptions"),
        title="Missing variables are errors",
        explanation="Go templates turn an unknown variable into a text unless missingkey=error is set.",
        bad=examples.application_set(options="goTemplate: true"),
        check=_missing_key,
    ),
    _recommended(
        id="applicationset/template-namespace",
        reads=("metadata.namespace", "spec.template.metadata.namespace"),
        title="The template's namespace is ignored",
        explanation="Applications are created beside their ApplicationSet.",
        bad=examples.application_set(metadata="namespace: shop"),
        check=_template_namespace,
    ),
    _recommended(
        id="applicationset/finalizer-kept",
        reads=("spec.syncPolicy.preserveResourcesOnDeletion", "spec.template.metadata.finalizers"),
        title="Preserve or delete, not both",
        explanation="The finalizer in the template deletes objects with their application; preserving means the opposite.",
        bad=examples.application_set(
            spec="syncPolicy: {preserveResourcesOnDeletion: true}",
            metadata=f"finalizers: [{names.RESOURCES_FINALIZER}]",
        ),
        good=examples.application_set(spec="syncPolicy: {preserveResourcesOnDeletion: true}"),
        check=_finalizer_kept,
    ),
    _recommended(
        id="applicationset/forge-address",
        neighbours=True,
        reads=("spec.generators",),
        title="Code forges are those that Argo CD allows",
        explanation=(
            "An administrator can list the addresses that generators may send credentials to "
            "(applicationsetcontroller.allowed.scm.providers in argocd-cmd-params-cm); the controller refuses others."
        ),
        bad=_ALLOWED + _forge("https://git.example.org"),
        good=_ALLOWED + _forge("https://git.example.com"),
        check=_forge_address,
    ),
)
