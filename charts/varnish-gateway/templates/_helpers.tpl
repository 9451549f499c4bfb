{{- define "varnish-gateway.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 54 | trimSuffix "-" }}-operator
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 54 | trimSuffix "-" }}-operator
{{- end -}}
{{- end }}

{{- /* A Service has a name of 63 characters at most. */}}
{{- define "varnish-gateway.invalidation" -}}
{{ include "varnish-gateway.name" . | trunc 50 | trimSuffix "-" }}-invalidation
{{- end }}

{{- define "varnish-gateway.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "varnish-gateway.name" .) }}
{{- end }}

{{- /* The operator uses one Lease per class and derives the same name. */}}
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

{{- /* Rules that values.schema.json can't express. */}}
{{- define "varnish-gateway.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) -}}
{{- fail "replicas: more than one replica needs leaderElection.enabled; without it all of them write" -}}
{{- end -}}
{{- if and .Values.gatewayClass.parameters (not .Values.gatewayClass.create) -}}
{{- fail "gatewayClass.parameters: these apply to the class that this chart creates; set gatewayClass.create or remove them" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled: a ServiceMonitor needs metrics.service.enabled" -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name: name the ServiceAccount to use, or set serviceAccount.create" -}}
{{- end -}}
{{- end }}
