"""The keys of argocd-cmd-params-cm, by Argo CD's manifests and the flags that read them.

One line each: the key, the form of its value where not every text will do, and the releases that read it where not
all since 2.13 do.
"""

TABLE = """
application.namespaces
applicationsetcontroller.allowed.scm.providers
applicationsetcontroller.concurrent.reconciliations.max integer:1..
applicationsetcontroller.debug folded-boolean
applicationsetcontroller.dryrun folded-boolean
applicationsetcontroller.enable.git.submodule folded-boolean
applicationsetcontroller.enable.github.api.metrics folded-boolean since=3.1
applicationsetcontroller.enable.leader.election folded-boolean
applicationsetcontroller.enable.new.git.file.globbing folded-boolean
applicationsetcontroller.enable.policy.override folded-boolean
applicationsetcontroller.enable.progressive.syncs folded-boolean
applicationsetcontroller.enable.scm.providers folded-boolean
applicationsetcontroller.enable.tokenref.strict.mode folded-boolean since=2.14
applicationsetcontroller.global.preserved.annotations
applicationsetcontroller.global.preserved.labels
applicationsetcontroller.grpc.enable.txt.service.config folded-boolean since=3.4
applicationsetcontroller.k8s.client.burst integer:0.. since=3.4
applicationsetcontroller.k8s.client.max.idle.connections integer:0.. since=3.4
applicationsetcontroller.k8s.client.qps number since=3.4
applicationsetcontroller.k8s.tcp.idle.timeout duration since=3.4
applicationsetcontroller.k8s.tcp.keepalive duration since=3.4
applicationsetcontroller.k8s.tcp.timeout duration since=3.4
applicationsetcontroller.k8s.tls.handshake.timeout duration since=3.4
applicationsetcontroller.log.format json|text
applicationsetcontroller.log.level level
applicationsetcontroller.namespaces
applicationsetcontroller.policy sync|create-only|create-update|create-delete
applicationsetcontroller.profile.enabled true|false since=3.2
applicationsetcontroller.repo.server.ca.cert.path since=3.5
applicationsetcontroller.repo.server.client.cert.key.path since=3.5
applicationsetcontroller.repo.server.client.cert.path since=3.5
applicationsetcontroller.repo.server.plaintext folded-boolean
applicationsetcontroller.repo.server.strict.tls folded-boolean
applicationsetcontroller.repo.server.timeout.seconds integer:0..
applicationsetcontroller.requeue.after duration:1s..8760h since=2.14
applicationsetcontroller.scm.root.ca.path
applicationsetcontroller.status.max.resources.count integer:0.. since=3.1
applicationsetcontroller.webhook.parallelism.limit integer:1..1000
commit.server since=3.0
commitserver.grpc.enable.txt.service.config folded-boolean since=3.4
commitserver.listen.address since=2.14
commitserver.log.format json|text since=2.14
commitserver.log.level level since=2.14
commitserver.metrics.listen.address since=2.14
controller.app.state.cache.expiration duration:..10h
controller.cluster.cache.batch.events.processing folded-boolean since=2.14
controller.cluster.cache.events.processing.interval duration since=2.14
controller.default.cache.expiration duration
controller.diff.server.side folded-boolean
controller.grpc.enable.txt.service.config folded-boolean since=3.4
controller.hydration.processors integer:1.. since=3.5
controller.ignore.normalizer.jq.timeout duration
controller.k8s.client.burst integer:0.. since=3.4
controller.k8s.client.max.idle.connections integer:0.. since=3.4
controller.k8s.client.qps number since=3.4
controller.k8s.tcp.idle.timeout duration since=3.4
controller.k8s.tcp.keepalive duration since=3.4
controller.k8s.tcp.timeout duration since=3.4
controller.k8s.tls.handshake.timeout duration since=3.4
controller.k8sclient.retry.base.backoff
controller.k8sclient.retry.max integer:0..
controller.kubectl.parallelism.limit integer:0..
controller.log.format json|text
controller.log.level level
controller.metrics.cache.expiration duration
controller.operation.processors integer:0..
controller.profile.enabled true|false
controller.repo.error.grace.period.seconds
controller.repo.server.ca.cert.path since=3.5
controller.repo.server.client.cert.key.path since=3.5
controller.repo.server.client.cert.path since=3.5
controller.repo.server.plaintext folded-boolean
controller.repo.server.strict.tls folded-boolean
controller.repo.server.timeout.seconds integer:0..
controller.resource.health.persist folded-boolean
controller.self.heal.backoff.cap.seconds integer:0..
controller.self.heal.backoff.cooldown.seconds integer:0.. since=3.0
controller.self.heal.backoff.factor integer:0..
controller.self.heal.backoff.timeout.seconds integer:0..
controller.self.heal.timeout.seconds integer:0..
controller.sharding.algorithm legacy|round-robin|consistent-hashing
controller.status.processors integer:0..
controller.sync.timeout.seconds integer:0.. since=2.14
controller.sync.wave.delay.seconds integer:0.. since=3.2
dexserver.connector.failure.continue folded-boolean since=3.4
dexserver.disable.tls folded-boolean
dexserver.log.format json|text
dexserver.log.level level
hydrator.enabled folded-boolean since=2.14
log.format.timestamp since=3.0
notificationscontroller.log.format json|text
notificationscontroller.log.level level
notificationscontroller.processors.count integer:1.. since=3.4
notificationscontroller.repo.server.ca.cert.path since=3.5
notificationscontroller.repo.server.client.cert.key.path since=3.5
notificationscontroller.repo.server.client.cert.path since=3.5
notificationscontroller.repo.server.plaintext folded-boolean
notificationscontroller.selfservice.enabled folded-boolean
otlp.address
otlp.attrs since=3.0
otlp.headers pairs
otlp.insecure folded-boolean
redis.compression gzip|none
redis.db integer:0..
redis.server
repo.server
reposerver.allow.oob.symlinks folded-boolean
reposerver.client.ca.path since=3.5
reposerver.default.cache.expiration duration
reposerver.disable.helm.manifest.max.extracted.size folded-boolean
reposerver.disable.oci.manifest.max.extracted.size folded-boolean since=3.1
reposerver.disable.tls folded-boolean
reposerver.enable.builtin.git.config folded-boolean since=3.2
reposerver.enable.git.submodule folded-boolean
reposerver.git.lsremote.parallelism.limit integer:0..
reposerver.git.request.timeout duration
reposerver.grpc.enable.txt.service.config folded-boolean since=3.4
reposerver.grpc.max.size integer:0..
reposerver.helm.manifest.max.extracted.size size
reposerver.helm.user.agent since=3.4
reposerver.include.hidden.directories folded-boolean
reposerver.listen.address
reposerver.log.format json|text
reposerver.log.level level
reposerver.max.combined.directory.manifests.size size
reposerver.metrics.listen.address
reposerver.oci.layer.media.types since=3.1
reposerver.oci.manifest.max.extracted.size size since=3.1
reposerver.parallelism.limit integer:0..
reposerver.plugin.tar.exclusions
reposerver.plugin.use.manifest.generate.paths folded-boolean since=2.14
reposerver.profile.enabled true|false since=3.4
reposerver.repo.cache.expiration duration
reposerver.revision.cache.lock.timeout duration
reposerver.streamed.manifest.max.extracted.size size
reposerver.streamed.manifest.max.tar.size size
reposerver.tls.ciphers
reposerver.tls.maxversion 1.0|1.1|1.2|1.3
reposerver.tls.minversion 1.0|1.1|1.2|1.3
server.api.content.types
server.app.state.cache.expiration duration:..10h
server.basehref
server.connection.status.cache.expiration duration
server.content.security.policy
server.default.cache.expiration duration
server.dex.server
server.dex.server.plaintext folded-boolean
server.dex.server.strict.tls folded-boolean
server.disable.auth folded-boolean
server.enable.gzip folded-boolean
server.enable.proxy.extension folded-boolean
server.glob.cache.size integer:1.. since=3.5
server.grpc.enable.txt.service.config folded-boolean since=3.4
server.http.cookie.maxnumber integer:0..
server.insecure folded-boolean
server.k8s.client.burst integer:0.. since=3.4
server.k8s.client.max.idle.connections integer:0.. since=3.4
server.k8s.client.qps number since=3.4
server.k8s.tcp.idle.timeout duration since=3.4
server.k8s.tcp.keepalive duration since=3.4
server.k8s.tcp.timeout duration since=3.4
server.k8s.tls.handshake.timeout duration since=3.4
server.k8sclient.retry.base.backoff
server.k8sclient.retry.max integer:0..
server.listen.address
server.log.format json|text
server.log.level level
server.login.attempts.expiration duration until=3.0
server.metrics.listen.address
server.oidc.cache.expiration duration
server.profile.enabled true|false
server.repo.server.ca.cert.path since=3.5
server.repo.server.client.cert.key.path since=3.5
server.repo.server.client.cert.path since=3.5
server.repo.server.plaintext folded-boolean
server.repo.server.strict.tls folded-boolean
server.repo.server.timeout.seconds integer:0..
server.rootpath
server.staticassets
server.sync.replace.allowed folded-boolean since=3.0
server.tls.ciphers
server.tls.maxversion 1.0|1.1|1.2|1.3
server.tls.minversion 1.0|1.1|1.2|1.3
server.webhook.parallelism.limit integer:1..1000
server.webhook.refresh.workers integer:1..1000 since=3.5
server.x.frame.options
"""
