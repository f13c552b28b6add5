{{/* Takes {root, component, name, serviceAccount}: name is that of the role. */}}
{{- define "koord-queue.clusterRoleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "koord-queue.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .serviceAccount }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- define "koord-queue.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "koord-queue.metadata" . | nindent 2 }}
  namespace: {{ .root.Release.Namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .serviceAccount }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* Rights to write events, on objects that users look at. */}}
{{- define "koord-queue.eventRules" -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* Rights to review the tokens of clients, and what these clients may read. */}}
{{- define "koord-queue.reviewRules" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}

{{/* "create" cannot be restricted to a name: the name is in the body. Takes the lease's name. */}}
{{- define "koord-queue.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ . }}]
  verbs: [get, patch]
{{- end }}

{{/*
metadata of a role for users. Takes {root, name, into}: into is the role of the cluster that includes
it, if rights are aggregated; "" for none.
*/}}
{{- define "koord-queue.userRole" -}}
{{- $labels := dict }}
{{- if and .into .root.Values.rbac.aggregate }}
{{- $_ := set $labels (printf "rbac.authorization.k8s.io/aggregate-to-%s" .into) "true" }}
{{- end }}
{{- include "koord-queue.metadata" (merge (dict "component" "users" "labels" $labels) .) }}
{{- end }}
