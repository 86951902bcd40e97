{{/* Labels of every object. */}}
{{- define "belfry.labels" -}}
app.kubernetes.io/part-of: belfry
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels of what belongs to one of the two processes: (list $ "controller"). */}}
{{- define "belfry.labelsOf" -}}
app.kubernetes.io/name: belfry-{{ index . 1 }}
{{ include "belfry.labels" (index . 0) }}
{{- end }}

{{- define "belfry.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}
