{{/*
Whose a CRD in the cluster is: "ours" (this release's, or nobody's yet), "same" (somebody else's, and
as this chart has it: it can stay as it is), "differs" (somebody else's, and another). Helm refuses to
touch what another release, or kubectl, has made. `helm template` sees no cluster: all are ours there.
Takes {root, crd}.
*/}}
{{- define "koord-queue.crdState" -}}
{{- $live := lookup .crd.apiVersion .crd.kind "" .crd.metadata.name }}
{{- $made := dig "metadata" "annotations" dict $live }}
{{- $release := .root.Release }}
{{- if or (not $live) .root.Values.crds.takeOwnership }}ours
{{- else if and (eq (index $made "meta.helm.sh/release-name" | default "") $release.Name) (eq (index $made "meta.helm.sh/release-namespace" | default "") $release.Namespace) }}ours
{{- else if eq (include "koord-queue.crdMeaning" $live) (include "koord-queue.crdMeaning" .crd) }}same
{{- else }}differs
{{- end }}
{{- end }}

{{/* What counts of a CRD, as text to be compared: the server fills in the rest. */}}
{{- define "koord-queue.crdMeaning" -}}
{{- range .spec.versions }}
{{- pick . "name" "served" "storage" "schema" "subresources" "additionalPrinterColumns" "selectableFields" | toJson }}
{{- end }}
{{- toJson (.spec.names.shortNames | default list) }}
{{- end }}

{{/* Takes {root, name}. */}}
{{- define "koord-queue.refuseCrd" -}}
{{- $live := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .name }}
{{- $made := dig "metadata" "annotations" dict $live }}
{{- $whose := "Helm did not install it" }}
{{- with index $made "meta.helm.sh/release-name" }}
{{- $whose = printf "it belongs to release %s in namespace %s" . (index $made "meta.helm.sh/release-namespace") }}
{{- end }}
{{- fail (printf "the CRD %s is in the cluster, is not as this chart has it, and is not this release's (%s). Either let this release take it over: --set crds.takeOwnership=true --take-ownership --force-conflicts (Helm 3: without the last); or keep it up to date yourself: kubectl apply --server-side --force-conflicts -f crds/, and --set crds.enabled=false" .name $whose) }}
{{- end }}

{{/* The names of CRDs that stay as somebody else has installed them, one per line. */}}
{{- define "koord-queue.crdsOfOthers" -}}
{{- if .Values.crds.enabled }}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" }}
{{- $crd := $.Files.Get $path | fromYaml }}
{{- if eq (include "koord-queue.crdState" (dict "root" $ "crd" $crd)) "same" }}
{{- printf "%s\n" $crd.metadata.name }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
