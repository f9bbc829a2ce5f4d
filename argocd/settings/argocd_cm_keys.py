"""The keys of argocd-cm, by the code that reads them; `*` stands for what users name themselves.

One line each: the key, the form of its value where not every text will do, and the releases that read it where not
all since 2.13 do. Other rules look at a value whose form is `switch`, `yaml`, `account` or `customization`.
"""

TABLE = """
accounts.* account
additionalUrls yaml
admin.enabled boolean
application.allowedNodeLabels since=3.1
application.instanceLabelKey
application.links yaml
application.resourceTrackingMethod
application.sync.impersonation.enabled switch
application.sync.impersonation.enforced switch
application.sync.requireOverridePrivilegeForRevisionSync boolean since=3.3
cluster.inClusterEnabled switch
commit.author.email since=3.4
commit.author.name since=3.4
dex.config yaml
exec.enabled switch
exec.shells
extension.config yaml
extension.config.* yaml
ga.anonymizeusers switch
ga.trackingid
globalProjects yaml
helm.enable switch
helm.repositories until=2.14
helm.valuesFileSchemes
help.chatText
help.chatUrl
help.download.*
installationID
jsonnet.enable switch
kustomize.buildOptions
kustomize.buildOptions.*
kustomize.enable switch
kustomize.path.*
kustomize.version.*
oidc.config yaml
oidc.tls.insecure.skip.verify switch
passwordPattern expression
project.links yaml
repositories until=2.14
repository.credentials until=2.14
resource.compareoptions yaml
resource.customLabels
resource.customizations customization
resource.customizations.* customization
resource.excludeEventLabelKeys
resource.exclusions yaml
resource.ignoreResourceUpdatesEnabled boolean
resource.includeEventLabelKeys
resource.inclusions yaml
resource.links yaml
resource.respectRBAC strict|normal
resource.sensitive.mask.annotations since=2.14
server.maxPodLogsToRender integer
server.rbac.disableApplicationFineGrainedRBACInheritance boolean since=2.14
server.rbac.log.enforce.enable until=2.14
sourceHydrator.commitMessageTemplate since=3.2
sourceHydrator.readmeMessageTemplate since=3.5
statusbadge.enabled switch
statusbadge.url
timeout.hard.reconciliation duration
timeout.reconciliation duration
timeout.reconciliation.jitter duration
ui.bannercontent
ui.bannerpermanent switch
ui.bannerposition
ui.bannerurl url
ui.cssurl
url url
users.anonymous.enabled switch
users.session.duration days
webhook.maxPayloadSizeMB integer
webhook.refresh.jitter days since=3.5
webhook.refresh.jitter.threshold integer since=3.5
"""
