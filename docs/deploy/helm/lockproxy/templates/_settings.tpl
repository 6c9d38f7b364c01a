{{/* A value as a line of the config file takes it: in quotes where it is more than a plain word. */}}
{{- define "lockproxy.word" -}}
{{- if regexMatch "^[A-Za-z0-9_./:,@%+=*-]+$" . -}}
{{- . -}}
{{- else -}}
"{{ . | replace "\\" "\\\\" | replace "\"" "\\\"" }}"
{{- end -}}
{{- end -}}

{{/* Mistakes that would otherwise be seen in the log of a pod that does not start. */}}
{{- define "lockproxy.check" -}}
{{- $s := .Values.settings -}}
{{- $p := .Values.passwords -}}
{{- if not $s.upstream -}}
{{- fail "settings.upstream is empty: give any nodes of the upstream, as in redis-0.redis:6379,redis-1.redis:6379" -}}
{{- end -}}
{{- $open := or (eq (index $s "client-auth" | default "") "upstream") (eq (index $s "protected-mode" | default "") "no") -}}
{{- if not (or $p.clients $open) -}}
{{- fail "passwords.clients is empty: give what clients say with AUTH, or set client-auth: upstream" -}}
{{- end -}}
{{- $open = or (index $s "admin-tls-ca") (eq (index $s "admin-protected-mode" | default "") "no") -}}
{{- if not (or $p.admin $open) -}}
{{- fail "passwords.admin is empty: give the password of the admin HTTP, or set admin-tls-ca" -}}
{{- end -}}
{{- end -}}

{{- define "lockproxy.conf" -}}
listen 0.0.0.0:6380
admin 0.0.0.0:6390
{{- range $name, $value := .Values.settings }}
{{- if $value }}
{{ $name }} {{ include "lockproxy.word" $value }}
{{- end }}
{{- end }}
{{- if .Values.passwords.clients }}
requirepass-file /etc/lockproxy/clients-password
{{- end }}
{{- range $name, $value := omit .Values.passwords "clients" }}
{{- if $value }}
{{ $name }}-password-file /etc/lockproxy/{{ $name }}-password
{{- end }}
{{- end }}
{{- end -}}
