{{/* A file of manifests/ with the release's namespace instead of the one that is written there. */}}
{{- define "optimus.file" -}}
{{- $root := index . 0 -}}
{{- $root.Files.Get (index . 1) | required (printf "the chart lacks %s" (index . 1)) | replace "optimus-system" $root.Release.Namespace -}}
{{- end -}}

{{/* The documents of a file as they are, each after a line "---". */}}
{{- define "optimus.documents" -}}
{{- range regexSplit "(?m)^---\\n" (include "optimus.file" .) -1 }}
---
{{ . | trim }}
{{- end }}
{{- end -}}

{{/* The data of the ConfigMap of settings: the defaults, then what the values say. */}}
{{- define "optimus.settings" -}}
{{- $data := dict -}}
{{- $base := .Files.Get "manifests/settings.env" -}}
{{- range splitList "\n" $base -}}
{{- if and . (not (hasPrefix "#" .)) -}}
{{- $pair := splitn "=" 2 . -}}
{{- $_ := set $data $pair._0 $pair._1 -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.placement.mode "cluster-scheduler" -}}
{{- $_ := set $data "OPTIMUS_SCHEDULER_NAME" "default-scheduler" -}}
{{- $_ := set $data "OPTIMUS_EXTENDER_LEADER_LEASE" "kube-system/kube-scheduler" -}}
{{- else if ne (include "optimus.leaseNamespace" .) "kube-system" -}}
{{- $_ := set $data "OPTIMUS_EXTENDER_LEADER_LEASE" (printf "%s/optimus-scheduler" (include "optimus.leaseNamespace" .)) -}}
{{- end -}}
{{- if .Values.preemption.enabled -}}
{{- $_ := set $data "OPTIMUS_EXTENDER_PREEMPT" "true" -}}
{{- end -}}
{{- if ne .Release.Namespace "optimus-system" -}}
{{- $_ := set $data "OPTIMUS_LEADER_LEASE" (printf "%s/optimus-autoscaler" .Release.Namespace) -}}
{{- end -}}
{{- range $name, $value := .Values.settings -}}
{{- $_ := set $data $name (toString $value) -}}
{{- end -}}
{{- toYaml $data -}}
{{- end -}}

{{- define "optimus.leaseNamespace" -}}
{{- if eq .Values.placement.leaseNamespace "own" }}{{ .Release.Namespace }}{{ else }}{{ .Values.placement.leaseNamespace }}{{ end -}}
{{- end -}}

{{- define "optimus.schedulerConfig" -}}
{{- $name := eq .Values.placement.mode "advisory" | ternary "advisory" "kube-scheduler-config" -}}
{{- .Files.Get (printf "scheduler-config/%s.yaml" $name) -}}
{{- end -}}

{{/* Sets what the values say of the pods of a workload, in place. */}}
{{- define "optimus.setPod" -}}
{{- $root := index . 0 -}}
{{- $template := index . 1 -}}
{{- $values := index . 2 -}}
{{- $pod := $template.spec -}}
{{- $checksum := include "optimus.settings" $root | sha256sum -}}
{{- $_ := set $template.metadata "annotations" (dict "checksum/settings" $checksum) -}}
{{- range $key, $value := $root.Values.podSecurityContext -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $pod.securityContext $key -}}
{{- else -}}
{{- $_ := set $pod.securityContext $key $value -}}
{{- end -}}
{{- end -}}
{{- with $root.Values.imagePullSecrets -}}
{{- $_ := set $pod "imagePullSecrets" . -}}
{{- end -}}
{{- with $values.nodeSelector -}}
{{- $_ := set $pod "nodeSelector" (merge (deepCopy .) ($pod.nodeSelector | default dict)) -}}
{{- end -}}
{{- with $values.tolerations -}}
{{- $_ := set $pod "tolerations" (concat $pod.tolerations .) -}}
{{- end -}}
{{- range concat ($pod.initContainers | default list) $pod.containers -}}
{{- if eq .name "kube-scheduler" -}}
{{- /* The cluster's version without what its provider appends, as in v1.36.3-gke.100. */ -}}
{{- $version := regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" $root.Capabilities.KubeVersion.Version -}}
{{- $_ := set . "image" (printf "%s:%s" $root.Values.kubeScheduler.repository ($root.Values.kubeScheduler.tag | default $version)) -}}
{{- else -}}
{{- $_ := set . "image" (printf "%s:%s" $root.Values.image.repository ($root.Values.image.tag | default $root.Chart.AppVersion)) -}}
{{- $_ := set . "resources" (mergeOverwrite (deepCopy .resources) $values.resources) -}}
{{- end -}}
{{- with $root.Values.image.pullPolicy -}}
{{- $_ := set $.__container "imagePullPolicy" . -}}
{{- end -}}
{{- end -}}
{{- end -}}
