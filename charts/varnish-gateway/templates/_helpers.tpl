{{- define "varnish-gateway.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 54 | trimSuffix "-" }}-operator
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 54 | trimSuffix "-" }}-operator
{{- end -}}
{{- end }}

{{- define "varnish-gateway.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "varnish-gateway.name" .) }}
{{- end }}

{{- /* As varnish_gateway.operator names it: one Lease for each class. */}}
{{- define "varnish-gateway.lease" -}}
varnish-gateway-operator-{{ .Values.gatewayClass.name }}
{{- end }}

{{- define "varnish-gateway.image" -}}
{{- $image := index .root.Values.images .which -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "varnish-gateway.labels" -}}
{{ include "varnish-gateway.selector" . }}
app.kubernetes.io/part-of: varnish-gateway
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "varnish-gateway.selector" -}}
app.kubernetes.io/name: varnish-gateway-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* What no schema can say. */}}
{{- define "varnish-gateway.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) -}}
{{- fail "replicas: more than one operator needs leaderElection.enabled, or they all write" -}}
{{- end -}}
{{- if and .Values.gatewayClass.parameters (not .Values.gatewayClass.create) -}}
{{- fail "gatewayClass.parameters: they are for the class that this chart makes; set gatewayClass.create or leave them out" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled: a ServiceMonitor needs metrics.service.enabled" -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name: name the ServiceAccount to use, or set serviceAccount.create" -}}
{{- end -}}
{{- end }}
