{{/*
The owner of a CRD: "ours" (this release's, or not installed yet), "same" (installed by others, and
equal to this chart's, so it can stay), "differs" (installed by others, and not equal). Helm refuses to
change what another release, or kubectl, has created. `helm template` sees no cluster: all are ours.
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

{{/* The fields of a CRD to compare, as text; the server sets the others. */}}
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
{{- fail (printf "the CRD %s in the cluster differs from the chart's and does not belong to this release (%s). Either let this release take it over: --set crds.takeOwnership=true --take-ownership --force-conflicts (Helm 3: without the last); or keep it up to date yourself: kubectl apply --server-side --force-conflicts -f crds/, and --set crds.enabled=false" .name $whose) }}
{{- end }}

{{/* The names of CRDs that others have installed and that stay as they are, one per line. */}}
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
