"""In which profiles a rule speaks, and why, in words for its page and for `tiphys explain`."""

from argocd.judging.case import Action, Profile, Rule


def where_and_why(rule: Rule) -> str:
    if rule.profile is Profile.STRICT:
        return f"Speaks in strict alone, as an opinion. {rule.opinion}"
    if rule.neighbours:
        return "Speaks in every profile, where the other objects are known."
    if rule.profile is Profile.PARITY:
        return "Speaks in every profile: Argo CD itself does not accept it."
    if rule.action is Action.DENY:
        return "Speaks in recommended and strict: Argo CD accepts it, and then ignores, misreads or trips over it."
    return "Speaks in recommended and strict: Argo CD accepts it, and it is seldom what was meant."
