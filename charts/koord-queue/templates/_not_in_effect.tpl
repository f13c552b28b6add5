{{/* One line for each value of upstream's charts that is set and has no effect here. */}}
{{- define "koord-queue.notInEffect" -}}
{{- $lines := list }}
{{- $controller := .Values.controller }}
{{- $namespace := .Values.installation.namespace }}
{{- if and $namespace (ne $namespace .Release.Namespace) }}
{{- $lines = append $lines (printf "installation.namespace=%s: everything is in the release's namespace, %s" $namespace .Release.Namespace) }}
{{- end }}
{{- range $name := list "koord-queue-controllers" "jobextensions" }}
{{- $old := index $.Values.extension $name }}
{{- if or $old.repository $old.tag }}
{{- $lines = append $lines (printf "extension.%s.repository and tag: one image holds all programs (image.repository, image.tag)" $name) }}
{{- end }}
{{- end }}
{{- if and $controller.queueGroupPlugin (ne (lower $controller.queueGroupPlugin) "elasticquotav2") }}
{{- $lines = append $lines (printf "controller.queueGroupPlugin=%s: pluginConfigs.plugins names the plugins" $controller.queueGroupPlugin) }}
{{- end }}
{{- if $controller.enableBlockingMode }}
{{- $lines = append $lines "controller.enableBlockingMode: label the ElasticQuotas koord-queue/queue-policy=Block; for ElasticQuotaTrees set StrictPriority=true in scheduler.extraEnv" }}
{{- end }}
{{- if $controller.enableStrictPriority }}
{{- $lines = append $lines "controller.enableStrictPriority: label the ElasticQuotas koord-queue/queue-policy=Priority; for ElasticQuotaTrees set StrictConsistency=true in scheduler.extraEnv" }}
{{- end }}
{{- if not $controller.defaultPreemptible }}
{{- $lines = append $lines "controller.defaultPreemptible=false: label the jobs quota.scheduling.koordinator.sh/preemptible=false" }}
{{- end }}
{{- with .Values.admissionCheckController.image }}
{{- if or .repository .tag }}
{{- $lines = append $lines "admissionCheckController.image.repository and tag: one image holds all programs (image.repository, image.tag)" }}
{{- end }}
{{- end }}
{{- range $name, $key := dict "jobRunningTimeout" "runningTimeout" "jobBackoffTime" "backoffTimeout" }}
{{- $value := toString (index $.Values $name) }}
{{- if not (has $value (list "" "0" "0s")) }}
{{- $lines = append $lines (printf "%s=%s: set controllers.config.job.%s" $name $value $key) }}
{{- end }}
{{- end }}
{{- range $lines }}
{{- printf "  - %s\n" . }}
{{- end }}
{{- end }}
