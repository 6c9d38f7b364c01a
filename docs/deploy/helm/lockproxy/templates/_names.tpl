{{- define "lockproxy.fullname" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) -}}
{{- $name = printf "%s-%s" $name .Chart.Name -}}
{{- end -}}
{{- default $name .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "lockproxy.secret" -}}
{{- default (include "lockproxy.fullname" .) .Values.existingSecret -}}
{{- end -}}

{{/* What a pod of this release has, for good: a selector cannot be changed. */}}
{{- define "lockproxy.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "lockproxy.labels" -}}
{{ include "lockproxy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The scheme of the admin HTTP. */}}
{{- define "lockproxy.scheme" -}}
{{- if index .Values.settings "admin-tls-cert" }}HTTPS{{ else }}HTTP{{ end -}}
{{- end -}}

{{/* Where Prometheus finds the metrics of a pod: of a list of everything, and of the values of the monitor. */}}
{{- define "lockproxy.metrics" -}}
{{- $monitor := index . 1 -}}
{{- with index . 0 -}}
port: admin
path: /metrics
scheme: {{ include "lockproxy.scheme" . | lower }}
interval: {{ $monitor.interval }}
{{- with $monitor.tlsConfig }}
tlsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or .Values.existingSecret .Values.passwords.admin }}
basicAuth:
  username: {name: {{ include "lockproxy.secret" . }}, key: admin-user}
  password: {name: {{ include "lockproxy.secret" . }}, key: admin-password}
{{- end }}
{{- end }}
{{- end -}}
