{{/*
The kinds of jobs that the controllers know, by their keys in --enabled-extensions. A row says:

  switch     the value that enables it: extension.SWITCH.enable; several rows may share one
  group, version, kind, plural
  suspend    the field that suspends it; without one it is not held at its creation
  managedBy  the field that may name another controller, and the name of the usual one
  starters   owners that only start such jobs. One that names a queue or quota itself is managed
             under them, as under an owner of any unknown kind (a CronJob's need not name one)
  holdable   further conditions in CEL under which such an object survives being suspended: never
             wider than those of the adapter (why_not_suspendable)
  pods       how many pods such a job may have at a time, as CEL: only where one field counts them,
             and with a field that suspends it. The controllers note the grant of such kinds alone
             (JobPodSet.is_sized)
  gets       resources that are read one object at a time: possible owners of such jobs, or objects
             that describe their pods. AppWrappers may own jobs of any kind, so they are always read
  sizes      resources that are watched: their objects say how many pods such jobs have
  limits     restrictions, for the notes

  gates      such jobs are pods that are held by the scheduling gate: the controllers patch and
             delete pods, and never write to the kind itself. The condition in CEL selects the pods
             of the kind for the policy
*/}}
{{- define "koord-queue.kinds" -}}
job:
  switch: batchjob
  group: batch
  version: v1
  kind: Job
  plural: jobs
  suspend: [spec, suspend]
  managedBy: {field: [spec, managedBy], usual: kubernetes.io/job-controller}
  # With completions it has no more pods than these; those of an Indexed Job may be raised as well.
  pods: >-
    (object.spec.?completions.orValue(null) == null
    || object.spec.completions > object.spec.?parallelism.orValue(1)
    ? object.spec.?parallelism.orValue(1) : object.spec.completions)
  # Possible owners of a Job, and of its owners; the controllers verify the ownership.
  gets: [{group: batch, resource: cronjobs}, {group: jobset.x-k8s.io, resource: jobsets}, {group: kubeflow.org, resource: mpijobs}, {group: ray.io, resource: rayjobs}, {group: ray.io, resource: rayclusters}]
tfjob:
  switch: tf
  kind: TFJob
  plural: tfjobs
  {{- include "koord-queue.trainingJob" "training-operator" | nindent 2 }}
pytorchjob:
  switch: pytorch
  kind: PyTorchJob
  plural: pytorchjobs
  {{- include "koord-queue.trainingJob" "training-operator" | nindent 2 }}
xgboostjob:
  switch: xgboost
  kind: XGBoostJob
  plural: xgboostjobs
  {{- include "koord-queue.trainingJob" "training-operator" | nindent 2 }}
paddlejob:
  switch: paddle
  kind: PaddleJob
  plural: paddlejobs
  {{- include "koord-queue.trainingJob" "training-operator" | nindent 2 }}
jaxjob:
  switch: jax
  kind: JAXJob
  plural: jaxjobs
  pods: "object.spec.jaxReplicaSpecs.map(role, object.spec.jaxReplicaSpecs[role].?replicas.orValue(1)).sum()"
  {{- include "koord-queue.trainingJob" "training-operator" | nindent 2 }}
# A cluster serves one of the two MPIJobs, and the controllers find out which.
mpijobv1:
  switch: mpi
  kind: MPIJob
  plural: mpijobs
  {{- include "koord-queue.trainingJob" "training-operator" | nindent 2 }}
mpijob:
  switch: mpi
  kind: MPIJob
  plural: mpijobs
  {{- include "koord-queue.trainingJob" "mpi-operator" | nindent 2 }}
jobset:
  switch: jobset
  group: jobset.x-k8s.io
  version: v1alpha2
  kind: JobSet
  plural: jobsets
  suspend: [spec, suspend]
  managedBy: {field: [spec, managedBy], usual: jobset.sigs.k8s.io/jobset-controller}
  gets: [{group: trainer.kubeflow.org, resource: trainjobs}]
trainjob:
  switch: trainjob
  group: trainer.kubeflow.org
  version: v1alpha1
  kind: TrainJob
  plural: trainjobs
  suspend: [spec, suspend]
  managedBy: {field: [spec, managedBy], usual: trainer.kubeflow.org/trainjob-controller}
  # The demand of a TrainJob is read from the JobSet that is made of it.
  gets: [{group: jobset.x-k8s.io, resource: jobsets}]
rayjob:
  switch: ray
  kind: RayJob
  plural: rayjobs
  {{- include "koord-queue.rayKind" . | nindent 2 }}
  starters: [RayCronJob]
  gets: [{group: ray.io, resource: raycronjobs}]
  holdable:
    - object.spec.?shutdownAfterJobFinishes.orValue(false) == true
    - object.spec.?clusterSelector.orValue({}).size() == 0
  limits: with shutdownAfterJobFinishes, and without clusterSelector
raycluster:
  switch: ray
  kind: RayCluster
  plural: rayclusters
  {{- include "koord-queue.rayKind" . | nindent 2 }}
  gets: [{group: ray.io, resource: rayjobs}, {group: ray.io, resource: rayservices}]
rayservice:
  switch: rayservice
  kind: RayService
  plural: rayservices
  {{- include "koord-queue.rayKind" . | nindent 2 }}
sparkapp:
  switch: spark
  group: sparkoperator.k8s.io
  version: v1beta2
  kind: SparkApplication
  plural: sparkapplications
  suspend: [spec, suspend]
  onlyAtBirth: true
  holdable:
    {{- include "koord-queue.sparkHoldable" . | nindent 4 }}
workflow:
  switch: argo
  group: argoproj.io
  version: v1alpha1
  kind: Workflow
  plural: workflows
  suspend: [spec, suspend]
  starters: [CronWorkflow]
  gets: [{group: argoproj.io, resource: cronworkflows}]
  holdable:
    {{- include "koord-queue.workflowHoldable" . | nindent 4 }}
  limits: with the annotation koord-queue/min-resources
appwrapper:
  switch: appwrapper
  group: workload.codeflare.dev
  version: v1beta2
  kind: AppWrapper
  plural: appwrappers
  suspend: [spec, suspend]
  managedBy: {field: [spec, managedBy], usual: workload.codeflare.dev/appwrapper-controller}
pod:
  switch: pod
  group: ""
  version: v1
  kind: Pod
  plural: pods
  gates: object.metadata.?ownerReferences.orValue([]).all(owner, !owner.?controller.orValue(false) || owner.kind == 'ReplicaSet') && !variables.isOfGroup && !variables.isOfLeaderWorkerSet
  gets: [{group: apps, resource: replicasets}, {group: apps, resource: deployments}]
  limits: those of Deployments, too
podgroup:
  switch: podgroup
  group: scheduling.sigs.k8s.io
  version: v1alpha1
  kind: PodGroup
  plural: podgroups
  gates: variables.isOfGroup
  sizes: [{group: scheduling.sigs.k8s.io, resource: podgroups}, {group: scheduling.x-k8s.io, resource: podgroups}]
  limits: and pods of other groups
statefulset:
  switch: statefulset
  group: apps
  version: v1
  kind: StatefulSet
  plural: statefulsets
  gates: object.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false) && owner.kind == 'StatefulSet' && owner.apiVersion.startsWith('apps/')) && !variables.isOfGroup && !variables.isOfLeaderWorkerSet
  sizes: [{group: apps, resource: statefulsets}]
leaderworkerset:
  switch: leaderworkerset
  group: leaderworkerset.x-k8s.io
  version: v1
  kind: LeaderWorkerSet
  plural: leaderworkersets
  gates: variables.isOfLeaderWorkerSet && !variables.isOfGroup
  sizes: [{group: leaderworkerset.x-k8s.io, resource: leaderworkersets}]
  gets: [{group: apps, resource: statefulsets}]
{{- end }}

{{/* The common part of the kinds of kubeflow.org. Takes the operator's name. */}}
{{- define "koord-queue.trainingJob" -}}
group: kubeflow.org
version: {{ eq . "mpi-operator" | ternary "v2beta1" "v1" }}
suspend: [spec, runPolicy, suspend]
managedBy: {field: [spec, runPolicy, managedBy], usual: kubeflow.org/{{ . }}}
{{- end }}

{{- define "koord-queue.rayKind" -}}
group: ray.io
version: v1
suspend: [spec, suspend]
managedBy: {field: [spec, managedBy], usual: ray.io/kuberay-operator}
{{- end }}

{{/*
The demand of a SparkApplication is known if its sizes, factors and numbers can be parsed. Forms that
only Spark may accept (blanks, an empty setting) are not held at their creation.
*/}}
{{- define "koord-queue.sparkHoldable" -}}
{{- $size := `r'^[0-9]{1,15}([bBkKmMgGtTpP]|[kKmMgGtTpP][bB])?$'` }}
{{- $factor := `r'^[0-9]{1,9}([.][0-9]{1,17})?$'` }}
- >-
  [object.spec.?driver, object.spec.?executor].all(role,
  [role.?memory, role.?memoryOverhead].all(size, size.orValue('') == ''
  || size.value().matches({{ $size }})))
- >-
  object.spec.?memoryOverheadFactor.orValue('') == ''
  || object.spec.memoryOverheadFactor.matches({{ $factor }})
- >-
  [object.spec.?sparkConf.orValue({})].all(conf, conf.all(name,
  name in ['spark.driver.memory', 'spark.driver.memoryOverhead', 'spark.driver.minMemoryOverhead',
  'spark.executor.memory', 'spark.executor.memoryOverhead', 'spark.executor.minMemoryOverhead',
  'spark.executor.pyspark.memory', 'spark.memory.offHeap.size']
  ? conf[name].matches({{ $size }}) :
  name in ['spark.driver.memoryOverheadFactor', 'spark.executor.memoryOverheadFactor',
  'spark.kubernetes.memoryOverheadFactor']
  ? conf[name].matches({{ $factor }}) :
  !(name in ['spark.executor.instances', 'spark.dynamicAllocation.initialExecutors',
  'spark.dynamicAllocation.minExecutors']) || conf[name].matches(r'^[0-9]{1,9}$')))
{{- end }}

{{/*
A Workflow needs the annotation that declares its demand, in a form that is unambiguous: a line for
each resource, or the same between braces.
*/}}
{{- define "koord-queue.workflowHoldable" -}}
{{- $name := `(cpu|memory|ephemeral-storage|pods|[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?/[a-zA-Z]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?)` }}
{{- $amount := `([1-9][0-9]{0,12}|[1-9][0-9]{0,8}([.][0-9]{1,3})?(m|k|Ki|M|Mi)?|[1-9][0-9]{0,5}([.][0-9]{1,3})?(G|Gi)|[1-9][0-9]{0,2}([.][0-9]{1,3})?(T|Ti))` }}
{{- $quoted := printf `("%s"|%s)` $amount $amount }}
{{- $lines := printf `(%s: {1,8}%s *(\n|$))+` $name $quoted }}
{{- $pair := printf `[ \n]*"%s" *: *"%s"[ \n]*` $name $amount }}
{{- $json := printf `\{%s(,%s)*\}[ \n]*` $pair $pair }}
- >-
  [object.metadata.?annotations[?'koord-queue/min-resources'].or(
  object.metadata.?annotations[?'kube-queue/min-resources']).orValue('')].all(text,
  text.size() <= 4096 && text.matches(r'^({{ $lines }}|{{ $json }})$'))
{{- end }}

{{/*
The enabled rows, as JSON by key: those of the table, and those that are declared. None in shadow mode:
nothing is held there.
*/}}
{{- define "koord-queue.enabledKinds" -}}
{{- $on := dict }}
{{- if not .Values.shadow.enabled }}
{{- range $key, $row := include "koord-queue.kinds" . | fromYaml }}
{{- if (index $.Values.extension $row.switch).enable }}
{{- $_ := set $on $key $row }}
{{- end }}
{{- end }}
{{- range dig "kinds" list .Values.controllers.config }}
{{- $row := include "koord-queue.declaredKind" . | fromYaml }}
{{- $_ := set $on $row.key $row }}
{{- end }}
{{- end }}
{{- toJson $on }}
{{- end }}

{{/*
A declaration as a row. It is held at its creation if all of its paths lead through maps only: a job
whose pods cannot be read would not be released.
*/}}
{{- define "koord-queue.declaredKind" -}}
{{- $plain := `^[.]spec([.][A-Za-z_][A-Za-z0-9_-]*)+$` }}
{{- $simple := regexMatch $plain (.suspend | default "") }}
{{- $holdable := list }}
{{- $counts := list }}
{{- range .podSets }}
{{- $count := .count | default 1 }}
{{- $simple = and $simple (regexMatch $plain .template) }}
{{- $holdable = concat $holdable (include "koord-queue.standsInMaps" .template | fromJsonArray) }}
{{- $holdable = append $holdable (printf "type(%s.orValue(0)) == map" (include "koord-queue.optionalField" (splitList "." .template | rest))) }}
{{- if kindIs "string" $count }}
{{- $counts = append $counts $count }}
{{- $simple = and $simple (regexMatch $plain $count) }}
{{- $holdable = concat $holdable (include "koord-queue.standsInMaps" $count | fromJsonArray) }}
{{- $holdable = append $holdable (printf "[%s.orValue(1)].all(count, type(count) == int && count >= 0)" (include "koord-queue.optionalField" (splitList "." $count | rest))) }}
{{- end }}
{{- end }}
key: {{ .key | default (lower .kind) | toJson }}
declared: true
group: {{ splitList "/" .apiVersion | first | toJson }}
version: {{ splitList "/" .apiVersion | last | toJson }}
kind: {{ .kind | toJson }}
plural: {{ .plural | toJson }}
{{- if $simple }}
suspend: {{ splitList "." .suspend | rest | toJson }}
holdable: {{ toJson $holdable }}
{{- if eq (len $counts) 1 }}
{{- $count := printf "%s.orValue(1)" (include "koord-queue.optionalField" (splitList "." (first $counts) | rest)) }}
pods: {{ printf "(type(%s) == int ? %s : 2147483647)" $count $count | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The condition that all parents on a path are maps, as a JSON list: reading into anything else is an
error. Takes the path.
*/}}
{{- define "koord-queue.standsInMaps" -}}
{{- $names := splitList "." . | rest }}
{{- $conditions := list }}
{{- range $depth := untilStep 2 (len $names) 1 }}
{{- $conditions = append $conditions (printf "type(%s.orValue({})) == map" (include "koord-queue.optionalField" (slice $names 0 $depth))) }}
{{- end }}
{{- toJson $conditions }}
{{- end }}

{{/* A field that may be missing, as CEL. Takes the names of the path. */}}
{{- define "koord-queue.optionalField" -}}
object{{ range . }}[?'{{ . }}']{{ end }}
{{- end }}

{{/* The enabled rows that are held by gates, as JSON by key. */}}
{{- define "koord-queue.gatedKinds" -}}
{{- $gated := dict }}
{{- range $key, $row := include "koord-queue.enabledKinds" . | fromJson }}
{{- if $row.gates }}
{{- $_ := set $gated $key $row }}
{{- end }}
{{- end }}
{{- toJson $gated }}
{{- end }}

{{/* Keys of the enabled extensions, separated by commas, without declared ones. */}}
{{- define "koord-queue.enabledExtensions" -}}
{{- $keys := list }}
{{- range $key, $row := include "koord-queue.enabledKinds" . | fromJson }}
{{- if not $row.declared }}
{{- $keys = append $keys $key }}
{{- end }}
{{- end }}
{{- join "," $keys }}
{{- end }}

{{/* Not empty when there is any kind for the controllers to serve. */}}
{{- define "koord-queue.hasControllers" -}}
{{- if include "koord-queue.enabledKinds" . | fromJson }}true{{ end }}
{{- end }}

{{/*
A line for each kind. If there is a cluster to ask, kinds that it does not serve yet are marked. Takes
{root, rows}.
*/}}
{{- define "koord-queue.listKinds" -}}
{{- $served := .root.Capabilities.APIVersions }}
{{- $asked := $served.Has "batch/v1/Job" }}
{{- range $key := keys .rows | sortAlpha }}
{{- $row := index $.rows $key }}
{{- $version := printf "%s/%s" $row.group $row.version | trimPrefix "/" }}
{{ $row.kind }} ({{ $version }}){{ with $row.limits }}, {{ . }}{{ end }}
{{- if and $asked (not ($served.Has (printf "%s/%s" $version $row.kind))) }}; waited for, not served here yet{{ end }}
{{- end }}
{{- end }}
