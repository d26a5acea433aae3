{{/* The beginning of each object's name. */}}
{{- define "imq.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}{{ if not (contains "imq" .Release.Name) }}-imq{{ end }}
{{- end }}

{{/* The labels by which objects find the pods of this release; with a component, those of one process. */}}
{{- define "imq.selector" -}}
app.kubernetes.io/name: imq
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "imq.labels" -}}
{{ include "imq.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Rights of a pod: none, as in deploy/kubernetes/imq.yaml. */}}
{{- define "imq.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  {{- with .Values.pods.user }}
  runAsUser: {{ . }}
  runAsGroup: {{ . }}
  {{- end }}
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.pods.volumes }}
volumes: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.pods.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.pods.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.pods.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The image and rights of a container. */}}
{{- define "imq.container" -}}
{{- $image := .Values.image -}}
image: {{ if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
imagePullPolicy: {{ $image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- with .Values.pods.volumeMounts }}
volumeMounts: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Settings that are no secrets, as variables. A file's path is no secret. */}}
{{- define "imq.settings" -}}
{{- range $name, $value := .Values.settings }}
{{- if or (regexMatch "_SECRET(_KEY)?$" $name) (and (has $name (list "IMQ_GITHUB_PRIVATE_KEY" "IMQ_SINKS")) (not (hasPrefix "/" $value))) }}
{{- fail (printf "settings.%s is a secret, which everyone who reads the Deployment would see: enter it in one of the Secrets that `secrets` names" $name) }}
{{- end }}
{{- if eq $name "IMQ_TRUSTED_PROXIES" }}
{{- fail "settings.IMQ_TRUSTED_PROXIES would be set twice: set web.trustedProxies" }}
{{- end }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
