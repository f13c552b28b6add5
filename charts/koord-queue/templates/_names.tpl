{{/* Names and labels. All take the root context, unless a comment says otherwise. */}}

{{- define "koord-queue.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* At most 40 characters: the longest suffix has to fit into the 63 of a Service. */}}
{{- define "koord-queue.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "koord-queue.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "koord-queue.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "koord-queue.controllers.fullname" -}}
{{ include "koord-queue.fullname" . }}-controllers
{{- end }}

{{/* Labels of selectors: never a version, since selectors cannot change. Takes {root, component}. */}}
{{- define "koord-queue.selectorLabels" -}}
app.kubernetes.io/name: {{ include "koord-queue.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of the chart itself: they win over all others. Takes {root, component}. */}}
{{- define "koord-queue.ownLabels" -}}
{{ include "koord-queue.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: koord-queue
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels of every object. Takes {root, component}, and {labels}: those of this object alone. */}}
{{- define "koord-queue.labels" -}}
{{- $own := include "koord-queue.ownLabels" . | fromYaml }}
{{- merge $own (.labels | default dict) .root.Values.commonLabels | toYaml }}
{{- end }}

{{/* Annotations of every object, or nothing. Takes {root}, and {annotations}: those of this object alone. */}}
{{- define "koord-queue.annotations" -}}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* metadata without the namespace. Takes {root, component, name}, and {labels, annotations} as above. */}}
{{- define "koord-queue.metadata" -}}
name: {{ .name }}
labels:
  {{- include "koord-queue.labels" . | nindent 2 }}
{{- with include "koord-queue.annotations" . }}
annotations:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "koord-queue.scheduler.serviceAccount" -}}
{{- with .Values.scheduler.serviceAccount }}
{{- .name | default (ternary (include "koord-queue.fullname" $) "default" .create) }}
{{- end }}
{{- end }}

{{- define "koord-queue.controllers.serviceAccount" -}}
{{- with .Values.controllers.serviceAccount }}
{{- .name | default (ternary (include "koord-queue.controllers.fullname" $) "default" .create) }}
{{- end }}
{{- end }}

{{/* controller.image.* are upstream's names. */}}
{{- define "koord-queue.image" -}}
{{- $old := .Values.controller.image }}
{{- $repository := $old.repository | default .Values.image.repository }}
{{- with .Values.global.imagePrefix }}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) $repository }}
{{- end }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository ($old.tag | default .Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* metadata of an object of `helm test`. Takes the same and {weight}: the lowest comes first. */}}
{{- define "koord-queue.testMetadata" -}}
{{- $hook := dict
      "helm.sh/hook" "test"
      "helm.sh/hook-weight" .weight
      "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded" }}
{{- include "koord-queue.metadata" (merge (dict "annotations" $hook) .) }}
{{- end }}
