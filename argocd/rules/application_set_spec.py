"""ApplicationSets that Argo CD's API server or controller refuses, in whole or application by application."""

from collections.abc import Iterator
from functools import partial

from argocd import reading
from argocd.applications import application_sets, destinations, parameters
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples

_GENERATORS = ("spec.generators",)


def _templated_project(case: Case) -> Iterator[Finding]:
    project = reading.text(case.object, "spec", "template", "spec", "project")
    if application_sets.is_templated(project) and parameters.is_written_by_users(case, project):
        yield Finding(
            "applicationset/templated-project",
            "spec.template.spec.project",
            "the Argo CD API does not currently support creating ApplicationSets with templated `project` fields",
            "Name the project, or take it from a list: who writes the generator's data could otherwise choose any.",
        )


def _unrecognized_generator(case: Case) -> Iterator[Finding]:
    indexes = application_sets.unrecognized(reading.mapping(case.object, "spec"))
    if not indexes:
        return
    name = reading.text(case.object, "metadata", "name")
    found = application_sets.unrecognized_names(case.object)
    called = f": {', '.join(found)}" if found else ""
    yield Finding(
        "applicationset/unrecognized-generator",
        f"spec.generators[{indexes[0]}]",
        f"ApplicationSet {name} contains unrecognized generators{called}",
        f"Use one of {', '.join(application_sets.GENERATORS)}; the API server drops keys that it does not know.",
    )


def _combination(case: Case) -> Iterator[Finding]:
    for problem in application_sets.combination_problems(case.once(application_sets.changed_at_top)):
        yield Finding(
            "applicationset/combination",
            problem.path,
            problem.message,
            "A matrix has two generators, a merge two or more and mergeKeys; either can be nested once.",
        )


def _git_empty(case: Case) -> Iterator[Finding]:
    for path, generator in case.once(application_sets.changed_generators):
        git = generator.get("git")
        if git is not None and not any(reading.sequence(git, key) for key in ("directories", "files")):
            yield Finding(
                "applicationset/git-empty",
                f"{path}.git",
                "a git generator without directories and files generates nothing",
                "List the directories or the files to look for.",
            )


def _list_values(case: Case) -> Iterator[Finding]:
    spec = reading.mapping(case.object, "spec")
    if spec.get("goTemplate") is True:
        return
    for path, generator in case.once(application_sets.changed_generators):
        for index, element in enumerate(reading.sequence(generator, "list", "elements")):
            for key, value in reading.mapping(element).items():
                if _is_text_map(value) if key == "values" else isinstance(value, str):
                    continue
                yield Finding(
                    "applicationset/list-values",
                    f"{path}.list.elements[{index}].{key}",
                    "a list element's values must be strings unless goTemplate is true",
                    "Put the value in quotation marks, or set spec.goTemplate to true.",
                )


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _name_missing(case: Case) -> Iterator[Finding]:
    spec = reading.mapping(case.object, "spec")
    if application_sets.name_template(spec) or spec.get("templatePatch"):
        return
    if any(_own_name(generator) for _, generator in case.once(application_sets.generators_of)):
        return
    yield Finding(
        "applicationset/name-missing",
        "spec.template.metadata.name",
        f"ApplicationSet {reading.text(case.object, 'metadata', 'name')} contains an application with no name; "
        "a name must be set in the template's metadata.name or via a templatePatch "
        "(generateName is not supported)",
        "Set a name with a variable of the generator in it.",
    )


def _own_name(generator: object) -> bool:
    return any(
        reading.text(generator, kind, "template", "metadata", "name") for kind in application_sets.GENERATORS
    )


def _constant_name(case: Case) -> str:
    """A name without a variable, where nothing else gives names."""
    spec = reading.mapping(case.object, "spec")
    name = application_sets.name_template(spec)
    return "" if application_sets.is_templated(name) or spec.get("templatePatch") else name


def _repeats_constant(case: Case) -> bool:
    """Whether lists alone give the constant name to several applications."""
    found = case.once(parameters.generated_of)
    unnamed = (each for each in found if not reading.text(each.own, "metadata", "name"))
    return sum(len(each.sets or ()) for each in unnamed) > 1


def _name_repeated(case: Case) -> Iterator[Finding]:
    seen: set[str] = set()
    constant = _constant_name(case)
    if constant and case.once(_repeats_constant):
        yield Finding(
            "applicationset/name-repeated",
            parameters.NAME,
            f"ApplicationSet {reading.text(case.object, 'metadata', 'name')} contains applications with "
            f"duplicate name: {constant}",
            "Use a variable of the list in the name; Argo CD keeps the first application.",
        )
    for path, name in case.once(parameters.generated_names):
        if not name or not isinstance(name, str) or path == parameters.NAME:
            continue
        if name in seen:
            yield Finding(
                "applicationset/name-repeated",
                path,
                f"ApplicationSet {reading.text(case.object, 'metadata', 'name')} contains applications with "
                f"duplicate name: {name}",
                "Make the elements differ in what the name is made of; Argo CD keeps the first application.",
            )
        seen.add(name)


def _name_constant(case: Case) -> Iterator[Finding]:
    spec = reading.mapping(case.object, "spec")
    name = _constant_name(case)
    if name and application_sets.may_give_several(spec) and not case.once(_repeats_constant):
        counted = application_sets.gives_several(spec)
        condition = "" if counted else "if the generators give more than one, "
        yield Finding(
            "applicationset/name-constant",
            "spec.template.metadata.name",
            f"{condition}every application would be called {name}, and Argo CD keeps the first of each name",
            "Use a variable of the generator in the name."
            if counted
            else "Use a variable of the generator in the name, or select what there is one of.",
        )


def _destination(case: Case) -> Iterator[Finding]:
    spec = reading.mapping(case.object, "spec")
    if spec.get("templatePatch"):
        return
    destination = reading.mapping(spec, "template", "spec", "destination")
    if any(application_sets.is_templated(reading.text(destination, key)) for key in ("name", "server")):
        return
    message = destinations.contradiction(destination)
    if not message and destinations.missing(destination):
        if any(_own_destination(generator) for _, generator in case.once(application_sets.generators_of)):
            return
        message = destinations.MISSING
    if message:
        yield Finding(
            "applicationset/destination",
            "spec.template.spec.destination",
            f"application destination spec is invalid: {message}",
            "Set one of name and server.",
        )


def _own_destination(generator: object) -> bool:
    return any(
        reading.mapping(generator, kind, "template", "spec", "destination")
        for kind in application_sets.GENERATORS
    )


def _project_empty(case: Case) -> Iterator[Finding]:
    template = reading.mapping(case.object, "spec", "template", "spec")
    if "project" in template and not (
        reading.text(template, "project") or reading.value(case.object, "spec", "templatePatch")
    ):
        yield Finding(
            "applicationset/project-empty",
            "spec.template.spec.project",
            "an empty project is not replaced by default in an ApplicationSet, and no application is made",
            "Name a project.",
        )


def _project_unknown(case: Case) -> Iterator[Finding]:
    project = reading.text(case.object, "spec", "template", "spec", "project")
    if not project or application_sets.is_templated(project):
        return
    if case.surroundings.neighbours.project(project) == {}:
        yield Finding(
            "applicationset/project-unknown",
            "spec.template.spec.project",
            f"application references project {project} which does not exist",
            "Create the project in Argo CD's namespace, in the same apply or before.",
        )


_parity = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION_SET}),
    profile=Profile.PARITY,
    action=Action.DENY,
    good=examples.application_set(),
)
_refused = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION_SET}),
    profile=Profile.RECOMMENDED,
    action=Action.DENY,
    refused_by_argocd=True,
    good=examples.application_set(),
)

_GIT = "git: {repoURL: https://git.example.com/shop.git, revision: main"
_PERMISSIVE = "sourceRepos: ['*']\ndestinations: [{server: '*', namespace: '*'}]"
_LIST = "list: {elements: [{env: test}, {env: live}]}"

RULES: tuple[Rule, ...] = (
    _parity(
        id="applicationset/templated-project",
        action=Action.WARN,
        reads=("spec.template.spec.project", "spec.generators", "spec.goTemplate"),
        title="The project does not come from data that its users write",
        explanation=(
            "Argo CD's API server refuses every templated project, and its documentation has such ApplicationSets "
            "applied with kubectl or from Git. They are safe where a list or the clusters name the project. Where a "
            "repository, a branch, a pull request or a plugin does, whoever writes there chooses the project and its "
            "permissions."
        ),
        bad=examples.application_set(
            generators=f"- {_GIT}, files: [{{path: 'apps/*/config.json'}}]}}",
            name="'shop-{{.path.basename}}'",
            project="'{{.project}}'",
        ),
        good=examples.application_set(project="'shop-{{.env}}'"),
        check=_templated_project,
    ),
    _parity(
        id="applicationset/unrecognized-generator",
        reads=_GENERATORS,
        title="Every generator is one that Argo CD knows",
        explanation=(
            "The CRD drops unknown keys without a word, which leaves an empty entry; the name that was meant is "
            "found in kubectl's last-applied annotation if there is one."
        ),
        bad=examples.application_set(generators=f"- {_LIST}\n- {{}}"),
        check=_unrecognized_generator,
    ),
    _refused(
        id="applicationset/combination",
        reads=_GENERATORS,
        title="A matrix has two generators, a merge has keys",
        explanation=(
            "The controller stops at a matrix that has not exactly two generators, a merge with fewer than two or "
            "without mergeKeys, an entry without exactly one generator, and a second level of nesting. "
            "No application is made or changed then."
        ),
        bad=examples.application_set(generators=f"- matrix: {{generators: [{{{_LIST}}}]}}"),
        good=examples.application_set(
            generators=f"- matrix: {{generators: [{{{_LIST}}}, {{clusters: {{}}}}]}}"
        ),
        check=_combination,
    ),
    _refused(
        id="applicationset/git-empty",
        reads=_GENERATORS,
        title="A git generator looks for something",
        explanation="Without directories or files a git generator fails, and the whole ApplicationSet with it.",
        bad=examples.application_set(generators=f"- {_GIT}}}"),
        good=examples.application_set(generators=f"- {_GIT}, directories: [{{path: apps/*}}]}}"),
        check=_git_empty,
    ),
    _refused(
        id="applicationset/list-values",
        reads=("spec.generators", "spec.goTemplate"),
        title="List elements hold strings",
        explanation="Without goTemplate the controller refuses a list element with a number, a boolean or a list.",
        bad=examples.application_set(
            options="",
            name="'shop-{{env}}'",
            generators="- list: {elements: [{env: test, replicas: 2}]}",
        ),
        good=examples.application_set(
            options="",
            name="'shop-{{env}}'",
            generators="- list: {elements: [{env: test, replicas: '2', values: {color: blue}}]}",
        ),
        check=_list_values,
    ),
    _refused(
        id="applicationset/name-missing",
        reads=("spec.template.metadata.name", "spec.templatePatch", "spec.generators"),
        title="The template names its applications",
        explanation="An application without a name cannot be created; generateName is not supported.",
        bad=examples.application_set(name="", metadata="labels: {team: shop}"),
        check=_name_missing,
    ),
    _refused(
        id="applicationset/name-repeated",
        reads=("spec.template.metadata.name", "spec.templatePatch", "spec.generators", "spec.goTemplate"),
        title="List elements give different names",
        explanation="Of several generated applications with one name Argo CD keeps the first and skips the others.",
        bad=examples.application_set(
            generators="- list: {elements: [{env: test}, {env: test, region: east}]}"
        ),
        check=_name_repeated,
    ),
    _refused(
        id="applicationset/name-constant",
        profile=Profile.STRICT,
        action=Action.WARN,
        opinion="Many ApplicationSets are written for a generator that gives one result, such as one cluster or one branch.",
        reads=("spec.template.metadata.name", "spec.templatePatch", "spec.generators"),
        title="The applications' names differ",
        explanation="A name without a variable is the same for every result of the generators.",
        bad=examples.application_set(generators="- clusters: {}", name="shop"),
        check=_name_constant,
    ),
    _refused(
        id="applicationset/destination",
        reads=("spec.template.spec.destination", "spec.templatePatch", "spec.generators"),
        title="The template's destination names one cluster",
        explanation="The controller skips every generated application whose destination has both or none of name and server.",
        bad=examples.application_set(destination="namespace: shop"),
        check=_destination,
    ),
    _refused(
        id="applicationset/project-empty",
        action=Action.WARN,
        reads=("spec.template.spec.project", "spec.templatePatch"),
        title="The template names a project",
        explanation="In an Application an empty project means default; in an ApplicationSet the controller looks for ''.",
        bad=examples.application_set(project="''"),
        check=_project_empty,
    ),
    _parity(
        id="applicationset/project-unknown",
        action=Action.WARN,
        neighbours=True,
        reads=("spec.template.spec.project",),
        title="The project exists",
        explanation="Applications of a project that does not exist are skipped until somebody creates it.",
        bad=examples.project(name="warehouse", spec=_PERMISSIVE)
        + examples.BEFORE
        + examples.application_set(),
        good=examples.project(spec=_PERMISSIVE) + examples.BEFORE + examples.application_set(),
        check=_project_unknown,
    ),
)
