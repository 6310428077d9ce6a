{{/* The objects are those of manifests/. These helpers say which of its files are rendered, and change what values name. */}}

{{- define "optimus.leaseNamespace" -}}
{{- .Values.placement.leaseNamespace | default .Release.Namespace -}}
{{- end -}}

{{/* The files of manifests/ that these values ask for, as a YAML list. */}}
{{- define "optimus.files" -}}
{{- $behind := eq .Values.placement.mode "cluster-scheduler" -}}
{{- $files := list "rbac-autoscaler" "rbac-scheduler" "rbac-doctor" "autoscaler" -}}
{{- if .Values.crds.enabled }}{{ $files = concat $files (list "crds/crd-trainingprofiles" "crds/crd-workloadprofiles") }}{{ end -}}
{{- if .Values.admission.enabled }}{{ $files = concat $files (list "admission-policy" "admission/annotations") }}{{ end -}}
{{- if .Values.admission.defaults }}{{ $files = append $files "admission/defaults/policy" }}{{ end -}}
{{- if gt (int .Values.autoscaler.replicas) 1 }}{{ $files = append $files "disruption-autoscaler" }}{{ end -}}
{{- if and (not $behind) (gt (int .Values.scheduler.replicas) 1) }}{{ $files = append $files "disruption-scheduler" }}{{ end -}}
{{- $files = append $files ($behind | ternary "cluster-scheduler/extender" "scheduler") -}}
{{- /* In kube-system it would limit the critical pods of the whole cluster. */ -}}
{{- if and .Values.quota.enabled (ne .Release.Namespace "kube-system") }}{{ $files = append $files "quota-scheduler" }}{{ end -}}
{{- if .Values.userRoles.enabled }}{{ $files = append $files "user-roles/rbac" }}{{ end -}}
{{- if .Values.networkPolicy.enabled }}{{ $files = append $files "network-policy/policies" }}{{ end -}}
{{- if .Values.page.exposed }}{{ $files = concat $files (list "page/service" "page/network-policy") }}{{ end -}}
{{- with .Values.monitoring -}}
{{- if .podMonitor.enabled }}{{ $files = append $files "monitoring/pod-monitor" }}{{ end -}}
{{- if .prometheusRule.enabled }}{{ $files = append $files "monitoring/prometheus-rule" }}{{ end -}}
{{- if .kubeStateMetrics.enabled }}{{ $files = append $files "monitoring/rbac-kube-state-metrics" }}{{ end -}}
{{- end -}}
{{- toYaml $files -}}
{{- end -}}

{{/* The literals of the ConfigMap of settings in a kustomization, as a YAML map. */}}
{{- define "optimus.literals" -}}
{{- $data := dict -}}
{{- range (index (.root.Files.Get (printf "manifests/%skustomization.yaml" .folder) | fromYaml).configMapGenerator 0).literals -}}
{{- $pair := splitn "=" 2 . -}}
{{- $_ := set $data $pair._0 $pair._1 -}}
{{- end -}}
{{- toYaml $data -}}
{{- end -}}

{{/* The data of the ConfigMap of settings. What the values say comes last. */}}
{{- define "optimus.settings" -}}
{{- $data := include "optimus.literals" (dict "root" . "folder" "") | fromYaml -}}
{{- if ne .Release.Namespace "optimus-system" -}}
{{- $_ := set $data "OPTIMUS_LEADER_LEASE" (printf "%s/optimus-autoscaler" .Release.Namespace) -}}
{{- end -}}
{{- if eq .Values.placement.mode "cluster-scheduler" -}}
{{- $data = merge (include "optimus.literals" (dict "root" . "folder" "cluster-scheduler/") | fromYaml) $data -}}
{{- end -}}
{{- if .Values.preemption.enabled -}}
{{- $data = merge (include "optimus.literals" (dict "root" . "folder" "preemption/") | fromYaml) $data -}}
{{- end -}}
{{- if .Values.placement.mtls -}}
{{- $data = merge (include "optimus.literals" (dict "root" . "folder" "mtls/") | fromYaml) $data -}}
{{- end -}}
{{- range $name, $value := .Values.settings -}}
{{- /* Helm reads every number as a float, which would be written 3.3554432e+07. */ -}}
{{- if and (kindIs "float64" $value) (eq (float64 (int64 $value)) $value) }}{{ $value = int64 $value }}{{ end -}}
{{- $_ := set $data $name (toString $value) -}}
{{- end -}}
{{- toYaml $data -}}
{{- end -}}

{{- define "optimus.schedulerConfig" -}}
{{- $text := .Files.Get (printf "scheduler-config/%s.yaml" (eq .Values.placement.mode "advisory" | ternary "advisory" "kube-scheduler-config")) -}}
{{- if .Values.placement.mtls -}}
{{- $with := .Files.Get "manifests/mtls/scheduler-config.yaml" | fromYaml -}}
{{- $extender := index ((index $with.data "kube-scheduler-config.yaml") | fromYaml).extenders 0 -}}
{{- $tls := printf "urlPrefix: %s\n    enableHTTPS: true\n    tlsConfig:" $extender.urlPrefix -}}
{{- range list "serverName" "caFile" "certFile" "keyFile" -}}
{{- $tls = printf "%s\n      %s: %s" $tls . (get $extender.tlsConfig .) -}}
{{- end -}}
{{- $text = regexReplaceAll "urlPrefix: http://\\S+" $text $tls -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/* "yes" for an object that these values leave out. */}}
{{- define "optimus.isLeftOut" -}}
{{- $name := .object.metadata.name -}}
{{- $behind := eq .root.Values.placement.mode "cluster-scheduler" -}}
{{- if and (eq $name "optimus-scheduler-lease") $behind }}yes{{ end -}}
{{- if eq $name "optimus-scheduler-authentication-reader" -}}
{{- if or $behind (ne (include "optimus.leaseNamespace" .root) "kube-system") }}yes{{ end -}}
{{- end -}}
{{- $rights := .root.Values.rights -}}
{{- if and (eq $name "optimus-autoscaler-completion") (not $rights.completion) }}yes{{ end -}}
{{- if and (eq .object.kind "ClusterRoleBinding") (has $name (list "optimus-autoscaler-logs" "optimus-autoscaler-completion")) -}}
{{- if not $rights.allNamespaces }}yes{{ end -}}
{{- end -}}
{{- end -}}

{{/* Changes an object, in place, to what the values say. */}}
{{- define "optimus.adjust" -}}
{{- $root := .root -}}
{{- $object := .object -}}
{{- $values := $root.Values -}}
{{- if has $object.kind (list "CustomResourceDefinition" "PriorityClass") -}}
{{- $_ := set $object.metadata "annotations" (merge (dict "helm.sh/resource-policy" "keep") $object.metadata.annotations) -}}
{{- else if eq $object.kind "PodMonitor" -}}
{{- $_ := set $object.metadata "labels" (merge (deepCopy $values.monitoring.podMonitor.labels) $object.metadata.labels) -}}
{{- else if eq $object.kind "PrometheusRule" -}}
{{- $_ := set $object.metadata "labels" (merge (deepCopy $values.monitoring.prometheusRule.labels) $object.metadata.labels) -}}
{{- else if eq $object.metadata.name "optimus-scheduler-lease" -}}
{{- $_ := set $object.metadata "namespace" (include "optimus.leaseNamespace" $root) -}}
{{- else if has $object.metadata.name (list "optimus-annotations" "optimus-defaults") -}}
{{- if has $object.kind (list "ValidatingAdmissionPolicy" "MutatingAdmissionPolicy") -}}
{{- $settings := include "optimus.settings" $root | fromYaml -}}
{{- range $object.spec.variables -}}
{{- if eq .name "scheduler" }}{{ $_ := set . "expression" (squote $settings.OPTIMUS_SCHEDULER_NAME) }}{{ end -}}
{{- end -}}
{{- else if and $values.admission.deny (eq $object.kind "ValidatingAdmissionPolicyBinding") -}}
{{- $_ := set $object.spec "validationActions" (list "Deny") -}}
{{- end -}}
{{- else if or (eq $object.kind "Deployment") (eq $object.kind "DaemonSet") -}}
{{- $own := eq $object.metadata.name "optimus-autoscaler" | ternary $values.autoscaler $values.scheduler -}}
{{- if eq $object.kind "Deployment" }}{{ $_ := set $object.spec "replicas" $own.replicas }}{{ end -}}
{{- include "optimus.adjustPod" (dict "root" $root "template" $object.spec.template "own" $own) -}}
{{- end -}}
{{- end -}}

{{- define "optimus.adjustPod" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $own := .own -}}
{{- $pod := .template.spec -}}
{{- /* Names do not change with the content here, as they do with kustomize; this starts new pods. */ -}}
{{- $read := printf "%s%s%s" (include "optimus.settings" $root) (toYaml $values.config) (include "optimus.schedulerConfig" $root) -}}
{{- $_ := set .template.metadata "annotations" (dict "checksum/settings" (sha256sum $read)) -}}
{{- range list "runAsUser" "runAsGroup" -}}
{{- $id := get $values.podSecurityContext . -}}
{{- if kindIs "invalid" $id }}{{ $_ := unset $pod.securityContext . }}
{{- else if not (toString $id) }}{{ $_ := unset $pod.securityContext . }}
{{- else }}{{ $_ := set $pod.securityContext . (int $id) }}{{ end -}}
{{- end -}}
{{- with $values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end -}}
{{- with $own.nodeSelector }}{{ $_ := set $pod "nodeSelector" (merge (deepCopy .) ($pod.nodeSelector | default dict)) }}{{ end -}}
{{- with $own.tolerations }}{{ $_ := set $pod "tolerations" (concat $pod.tolerations .) }}{{ end -}}
{{- range concat ($pod.initContainers | default list) $pod.containers -}}
{{- if eq .name "kube-scheduler" -}}
{{- /* Providers append to the version, as in v1.36.3-gke.100; images have none of that. */ -}}
{{- $version := regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" $root.Capabilities.KubeVersion.Version -}}
{{- $_ := set . "image" (printf "%s:%s" $values.kubeScheduler.repository ($values.kubeScheduler.tag | default $version)) -}}
{{- $namespace := include "optimus.leaseNamespace" $root -}}
{{- if ne $namespace "kube-system" }}{{ $_ := set . "args" (append .args (printf "--leader-elect-resource-namespace=%s" $namespace)) }}{{ end -}}
{{- else -}}
{{- $_ := set . "image" (printf "%s:%s" $values.image.repository ($values.image.tag | default $root.Chart.AppVersion)) -}}
{{- $_ := set . "resources" $own.resources -}}
{{- /* Behind the cluster's own scheduler the Lease is that one's. */ -}}
{{- $namespace := include "optimus.leaseNamespace" $root -}}
{{- $another := and (eq .name "extender") (ne $values.placement.mode "cluster-scheduler") (ne $namespace "kube-system") -}}
{{- if and $another (not (hasKey $values.settings "OPTIMUS_EXTENDER_LEADER_LEASE")) -}}
{{- $lease := dict "name" "OPTIMUS_EXTENDER_LEADER_LEASE" "value" (printf "%s/optimus-scheduler" $namespace) -}}
{{- $_ := set . "env" (append .env $lease) -}}
{{- end -}}
{{- if and $values.page.exposed (eq .name "autoscaler") -}}
{{- $args := list -}}
{{- range .args }}{{ $args = append $args (hasPrefix "--page-listen=" . | ternary "--page-listen=$(POD_IP):8090" .) }}{{ end -}}
{{- $_ := set . "args" $args -}}
{{- end -}}
{{- end -}}
{{- if $values.image.pullPolicy }}{{ $_ := set . "imagePullPolicy" $values.image.pullPolicy }}{{ end -}}
{{- end -}}
{{- end -}}
