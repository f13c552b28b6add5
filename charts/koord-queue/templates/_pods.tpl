{{/*
A Deployment without its name. Takes {root, component, settings, command, args, ports, config,
serviceAccount, volumes, mounts, resources, sidecars, recreate}: settings are the component's values, config is
the text of its configuration file, volumes and mounts are added to those that every pod has,
and sidecars is a list of arguments of "koord-queue.container", each with a name.
*/}}
{{- define "koord-queue.deploymentSpec" -}}
{{- $values := .root.Values -}}
replicas: {{ int .settings.replicas }}
{{- if and $values.leaderElection.enabled (not .recreate) }}
strategy:
  type: RollingUpdate
  rollingUpdate:
    # The new pod fills its caches before the old one gives up the lease.
    maxSurge: 1
    maxUnavailable: 0
{{- else }}
strategy:
  # Two pods that write would start too many jobs without election, or would share a volume: the old
  # pod ends first.
  type: Recreate
{{- end }}
selector:
  matchLabels:
    {{- include "koord-queue.selectorLabels" . | nindent 4 }}
template:
  metadata:
    labels:
      {{- include "koord-queue.podLabels" . | nindent 6 }}
    annotations:
      {{- include "koord-queue.podAnnotations" . | nindent 6 }}
  spec:
    {{- include "koord-queue.podSpec" . | nindent 4 }}
{{- end }}

{{/* Selector labels win: a label of the user's cannot make the Deployment lose its pods. */}}
{{- define "koord-queue.podLabels" -}}
{{- include "koord-queue.labels" (merge (dict "labels" .settings.podLabels) .) }}
{{- end }}

{{- define "koord-queue.podAnnotations" -}}
{{- $own := dict "kubectl.kubernetes.io/default-container" .component "checksum/config" (sha256sum .config) }}
{{- include "koord-queue.annotations" (dict "root" .root "annotations" (merge $own .settings.podAnnotations)) }}
{{- end }}

{{- define "koord-queue.podSpec" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ .serviceAccount }}
automountServiceAccountToken: true
enableServiceLinks: false
terminationGracePeriodSeconds: {{ int $values.terminationGracePeriodSeconds }}
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- toYaml $values.podSecurityContext | nindent 2 }}
containers:
  - name: {{ .component }}
    {{- include "koord-queue.container" . | nindent 4 }}
  {{- range .sidecars }}
  - name: {{ .name }}
    {{- include "koord-queue.container" . | nindent 4 }}
  {{- end }}
volumes:
  - name: config
    configMap:
      name: {{ .name }}
  - name: tmp
    emptyDir:
      sizeLimit: 64Mi
  {{- with .volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $selected := dict "labelSelector" (dict "matchLabels" (include "koord-queue.selectorLabels" $ | fromYaml)) }}
  {{- list (ternary . (merge $selected .) (hasKey . "labelSelector")) | toYaml | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{/*
A container without its name. Takes {root, settings, command, args, ports, mounts, resources}, config
if it reads one, and for all but a pod's first container: healthPort, portPrefix.
*/}}
{{- define "koord-queue.container" -}}
{{- $values := .root.Values -}}
{{- $prefix := .portPrefix | default "" -}}
{{- $health := printf "%shealth" $prefix -}}
image: {{ include "koord-queue.image" .root | quote }}
imagePullPolicy: {{ $values.image.pullPolicy }}
command:
  - {{ .command }}
args:
  {{- toYaml (concat .args .settings.extraArgs) | nindent 2 }}
{{- with .settings.extraEnv }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: {{ $health }}
    containerPort: {{ .healthPort | default 8081 }}
    protocol: TCP
  {{- range .ports }}
  - name: {{ $prefix }}{{ .name }}
    containerPort: {{ .port }}
    protocol: TCP
  {{- end }}
livenessProbe:
  httpGet:
    path: /livez
    port: {{ $health }}
  initialDelaySeconds: 15
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ $health }}
  initialDelaySeconds: 2
  periodSeconds: 5
  timeoutSeconds: 5
resources:
  {{- toYaml .resources | nindent 2 }}
securityContext:
  {{- toYaml $values.containerSecurityContext | nindent 2 }}
volumeMounts:
  {{- if .config }}
  - name: config
    mountPath: /etc/koord-queue
    readOnly: true
  {{- end }}
  - name: tmp
    mountPath: /tmp
  {{- with .mounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/*
Arguments that scheduler and controllers take, as a list. Takes {root, lease, metricsPort, qps,
burst}.
*/}}
{{- define "koord-queue.commonArguments" -}}
- --config=/etc/koord-queue/config.yaml
- --queue-namespace={{ .root.Release.Namespace }}
{{ include "koord-queue.programArguments" . }}
{{- end }}

{{/* Arguments of the programs that write. Takes the same, and healthPort if it is not a pod's first. */}}
{{- define "koord-queue.programArguments" -}}
{{- $values := .root.Values -}}
{{ include "koord-queue.processArguments" . }}
- --metrics-secure={{ $values.metrics.secure }}
- --leader-elect={{ $values.leaderElection.enabled }}
{{- if $values.leaderElection.enabled }}
- --leader-elect-lease-name={{ .lease }}
- --leader-elect-lease-namespace={{ .root.Release.Namespace }}
- --leader-elect-lease-duration={{ int $values.leaderElection.leaseDurationSeconds }}
- --leader-elect-renew-deadline={{ int $values.leaderElection.renewDeadlineSeconds }}
- --leader-elect-retry-period={{ int $values.leaderElection.retryPeriodSeconds }}
{{- end }}
- --kube-api-qps={{ .qps }}
- --kube-api-burst={{ int64 .burst }}
{{- end }}

{{/* Arguments that need no API server. Takes {root, metricsPort}, and healthPort as above. */}}
{{- define "koord-queue.processArguments" -}}
{{- $values := .root.Values -}}
- --health-address=:{{ .healthPort | default 8081 }}
- --metrics-address=:{{ .metricsPort }}
{{- if $values.metrics.tls.secretName }}
- --metrics-tls-certificate=/etc/koord-queue-metrics-tls/tls.crt
- --metrics-tls-key=/etc/koord-queue-metrics-tls/tls.key
{{- end }}
- --log-format={{ $values.log.format }}
- --log-level={{ $values.log.level }}
{{- end }}

{{/* Volume or mount of a TLS secret. Takes {name, secret}. */}}
{{/* Where a program's debug API listens. Takes {debugApi, port}. */}}
{{- define "koord-queue.debugArguments" -}}
{{- if .debugApi.expose }}
- --debug-address=:{{ .port }}
- --debug-tls-certificate=/etc/koord-queue-debug-tls/tls.crt
- --debug-tls-key=/etc/koord-queue-debug-tls/tls.key
{{- else }}
- --debug-address=127.0.0.1:{{ .port }}
{{- with .debugApi.hosts }}
- --debug-hosts={{ join "," . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "koord-queue.tlsVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
{{- end }}

{{- define "koord-queue.tlsMount" -}}
- name: {{ .name }}
  mountPath: /etc/koord-queue-{{ .name }}
  readOnly: true
{{- end }}
