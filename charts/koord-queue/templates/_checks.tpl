{{/* Not empty when queues are strict. */}}
{{- define "koord-queue.isStrict" -}}
{{- if or .Values.strictDequeue.enabled .Values.controller.enableResourceCheckWithScheduler }}true{{ end }}
{{- end }}

{{/* Not empty when the controllers ask the API server for pods, by dry run. */}}
{{- define "koord-queue.previewsPods" -}}
{{- if and (include "koord-queue.hasControllers" .) (dig "admissionPreview" false .Values.controllers.config) }}true{{ end }}
{{- end }}

{{/* Not empty when the controllers delete pods of lost nodes. */}}
{{- define "koord-queue.deletesLostPods" -}}
{{- if and (include "koord-queue.hasControllers" .) (dig "deleteLostPods" false .Values.controllers.config) }}true{{ end }}
{{- end }}

{{/*
Fails if another release runs the queue in this cluster: both would decide about all units and jobs. It
is known by the binding of its scheduler's role, which a shadow does not have. `helm template` sees no
cluster.
*/}}
{{- define "koord-queue.checkAlone" -}}
{{- if and .Values.rbac.create (not .Values.shadow.enabled) }}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" "").items }}
{{- $labels := .metadata.labels | default dict }}
{{- $partOf := index $labels "app.kubernetes.io/part-of" | default "" }}
{{- $component := index $labels "app.kubernetes.io/component" | default "" }}
{{- if and (eq $partOf "koord-queue") (eq $component "scheduler") (hasSuffix "-scheduler" .roleRef.name) }}
{{- $release := index $labels "app.kubernetes.io/instance" | default "" }}
{{- $namespace := (index .subjects 0).namespace }}
{{- if or (ne $release $.Release.Name) (ne $namespace $.Release.Namespace) }}
{{- fail (printf "release %s in namespace %s runs Koord-Queue in this cluster already, and two would both decide about all units. Upgrade that one, or uninstall it first: helm uninstall %s --namespace %s (units stay, unless its crds.keep is false). If it is gone, delete what it has left: kubectl delete clusterrolebinding %s" $release $namespace $release $namespace .metadata.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Fails if the values ask for something that would silently not be in effect. */}}
{{- define "koord-queue.check" -}}
{{- if .Values.isNeedNotebookExtension }}
{{- fail "isNeedNotebookExtension: this version does not have notebook jobs; they would start without the queue" }}
{{- end }}
{{- if .Values.controller.enableVisibilityServer }}
{{- fail "controller.enableVisibilityServer: this version does not have the aggregated visibility API; use the debug API (debugApi.expose)" }}
{{- end }}
{{- if and (include "koord-queue.previewsPods" .) (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "controllers.config.admissionPreview needs Kubernetes 1.30 (this is %s): it needs the right to create pods, and older versions have no ValidatingAdmissionPolicy that limits it to dry runs" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- include "koord-queue.checkImage" . }}
{{- include "koord-queue.checkReplicas" . }}
{{- include "koord-queue.checkShadow" . }}
{{- include "koord-queue.checkPlugins" . }}
{{- include "koord-queue.checkParking" . }}
{{- include "koord-queue.checkGrowth" . }}
{{- include "koord-queue.checkUsers" . }}
{{- if and .Values.debugApi.expose (not .Values.debugApi.tls.secretName) }}
{{- fail "debugApi.expose needs debugApi.tls.secretName: bearer tokens are sent to it" }}
{{- end }}
{{- if and (include "koord-queue.hasControllers" .) .Values.controllers.debugApi.expose (not .Values.controllers.debugApi.tls.secretName) }}
{{- fail "controllers.debugApi.expose needs controllers.debugApi.tls.secretName: bearer tokens are sent to it" }}
{{- end }}
{{- if and (not .Values.shadow.enabled) (eq (toString .Values.admissionPolicy.enabled) "true") (not (include "koord-queue.kindsHeldAtBirth" . | fromJson)) }}
{{- fail "admissionPolicy.enabled needs a kind of job that is queued and can be suspended (extension): without one, jobs that the policy suspends would never be released" }}
{{- end }}
{{- end }}

{{/* Fails for a registry of the documentation: names below example.com are nobody's (RFC 2606). */}}
{{- define "koord-queue.checkImage" -}}
{{- $image := include "koord-queue.image" . }}
{{- $registry := splitList "/" $image | first }}
{{- if regexMatch "(^|[.])example[.](com|net|org)(:[0-9]+)?$" $registry }}
{{- fail (printf "the image would be %s, and %s only stands for a registry in the documentation: push the image (make image) to one that the nodes can reach, and name that in global.imagePrefix" $image $registry) }}
{{- end }}
{{- end }}

{{/* Fails for what a program that only reads cannot do. */}}
{{- define "koord-queue.checkShadow" -}}
{{- if .Values.shadow.enabled }}
{{- range $name, $on := dict "insight.enabled" .Values.insight.enabled "admissionCheckController.enabled" .Values.admissionCheckController.enabled "debugApi.expose" .Values.debugApi.expose "strictDequeue.enabled" (include "koord-queue.isStrict" .) }}
{{- if $on }}
{{- fail (printf "shadow.enabled goes without %s: the shadow only reads, and decides nothing" $name) }}
{{- end }}
{{- end }}
{{- if and .Values.shadow.record.existingClaim (gt (int .Values.scheduler.replicas) 1) }}
{{- fail "shadow.record.existingClaim needs scheduler.replicas of 1: two pods would write the same record" }}
{{- end }}
{{- range .Values.shadow.kinds }}
{{- $row := index (include "koord-queue.kinds" $ | fromYaml) . }}
{{- if or (not $row) (and $row.gates (not (has . (list "pod" "podgroup")))) }}
{{- fail (printf "shadow.kinds: %s is no kind of job that can be followed" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "koord-queue.checkReplicas" -}}
{{- if not .Values.leaderElection.enabled }}
{{- range $name := list "scheduler" "controllers" }}
{{- if gt (int (index $.Values $name).replicas) 1 }}
{{- fail (printf "%s.replicas above 1 needs leaderElection.enabled: two replicas that write would start too many jobs" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.insight }}
{{- if and .enabled .record.existingClaim (gt (int $.Values.scheduler.replicas) 1) }}
{{- fail "insight.record.existingClaim needs scheduler.replicas of 1: two pods would write the same record" }}
{{- end }}
{{- end }}
{{- if and .Values.insight.visibility.enabled (not .Values.insight.enabled) }}
{{- fail "insight.visibility.enabled needs insight.enabled: the insight program serves the aggregated API" }}
{{- end }}
{{- with .Values.insight.page }}
{{- if and .enabled (not $.Values.insight.enabled) }}
{{- fail "insight.page.enabled needs insight.enabled: the insight program serves the page" }}
{{- end }}
{{- if and .expose (not .tls.secretName) }}
{{- fail "insight.page.expose needs insight.page.tls.secretName: tokens are sent to it" }}
{{- end }}
{{- end }}
{{- with .Values.leaderElection }}
{{- if or (le (int .leaseDurationSeconds) (int .renewDeadlineSeconds)) (le (mul 10 .renewDeadlineSeconds) (mul 12 .retryPeriodSeconds)) }}
{{- fail "leaderElection: leaseDurationSeconds must be greater than renewDeadlineSeconds, and renewDeadlineSeconds greater than 1.2 times retryPeriodSeconds" }}
{{- end }}
{{- if lt (int .leaseDurationSeconds) (add 4 .retryPeriodSeconds | int) }}
{{- fail "leaderElection: leaseDurationSeconds must be at least retryPeriodSeconds plus 4 seconds for a write" }}
{{- end }}
{{- end }}
{{- end }}

{{/* The scheduler's plugins, as a JSON list of names. */}}
{{- define "koord-queue.pluginNames" -}}
{{- $names := list }}
{{- range .Values.pluginConfigs.plugins }}
{{- $names = append $names .name }}
{{- end }}
{{- $names | default (list "Priority" "ElasticQuotaV2") | toJson }}
{{- end }}

{{/*
The kinds of quotas that units are compared with, as lines of a list, in the order of their plugins;
with their number where Helm sees the cluster. Who may not list them in all namespaces may not create the
scheduler's role either.
*/}}
{{- define "koord-queue.listQuotas" -}}
{{- $kinds := dict
      "ElasticQuotaV2" (list "scheduling.sigs.k8s.io/v1alpha1" "ElasticQuota")
      "ElasticQuota" (list "scheduling.sigs.k8s.io/v1beta1" "ElasticQuotaTree")
      "ResourceQuota" (list "v1" "ResourceQuota") }}
{{- $seesCluster := and .Values.rbac.create (lookup "v1" "Namespace" "" "kube-system") }}
{{- range $plugin := include "koord-queue.pluginNames" . | fromJsonArray }}
{{- with index $kinds $plugin }}
- {{ index . 1 }}s (plugin {{ $plugin }})
{{- if not (or (eq (index . 0) "v1") ($.Capabilities.APIVersions.Has (join "/" .))) }}, which this cluster does not serve: until it does, jobs wait (NoQuota).
  pluginConfigs.plugins can name a plugin of other quotas (docs/quotas.md).
{{- else if $seesCluster }}
{{- with (lookup (index . 0) (index . 1) "" "").items }}: this cluster has {{ len . }}.
{{- else }}: this cluster has none yet. Jobs wait until there is one for them (NoQuota).
{{- end }}
{{- else }}.
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What users may miss, as lines of a list: values that are off, and what each would add. */}}
{{- define "koord-queue.listOff" -}}
{{- $rows := list
      (list .Values.insight.enabled "insight.enabled" "when a job starts, what a change does over a time, what was decided before")
      (list .Values.insight.page.enabled "insight.page.enabled" "all of it in a browser")
      (list .Values.insight.visibility.enabled "insight.visibility.enabled" "kubectl get pendingunits")
      (list .Values.admissionCheckController.enabled "admissionCheckController.enabled" "nodes from the cluster-autoscaler before a job starts")
      (list .Values.metrics.serviceMonitor.enabled "metrics.serviceMonitor.enabled" "scrapes by the Prometheus operator")
      (list .Values.monitoring.rules.enabled "monitoring.rules.enabled" "alerts")
      (list .Values.monitoring.dashboards.enabled "monitoring.dashboards.enabled" "dashboards for Grafana") }}
{{- range $rows }}
{{- if not (index . 0) }}
- {{ index . 1 }}: {{ index . 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Fails, before anything is changed, if the scheduler would refuse the values at startup. */}}
{{- define "koord-queue.checkPlugins" -}}
{{- $names := include "koord-queue.pluginNames" . | fromJsonArray }}
{{- $arguments := .Values.pluginConfigs.pluginConfigs | default dict }}
{{- range $name := keys $arguments | sortAlpha }}
{{- if not (has $name $names) }}
{{- fail (printf "pluginConfigs.pluginConfigs.%s: no such plugin in pluginConfigs.plugins (%s)" $name (join ", " $names)) }}
{{- end }}
{{- end }}
{{- $mode := dig "ElasticQuotaV2" "mode" "runtime" $arguments }}
{{- if and (has "ElasticQuotaV2" $names) (ne (float64 .Values.oversellrate) 1.0) (ne $mode "max") }}
{{- fail (printf "oversellrate: a rate other than 1 needs the quota mode max (pluginConfigs.pluginConfigs.ElasticQuotaV2.mode is %s)" $mode) }}
{{- end }}
{{- end }}
