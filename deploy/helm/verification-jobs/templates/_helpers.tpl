{{/* What is known of every program: made from the topology and the programs' settings. */}}
{{- define "verification-jobs.programs" -}}
{{- .Files.Get "files/programs.json" -}}
{{- end -}}

{{/* A file whose queries look at one namespace, with this one: (dict "root" $ "file" ...). */}}
{{- define "verification-jobs.ofNamespace" -}}
{{- .root.Files.Get .file | replace "<namespace>" .root.Release.Namespace -}}
{{- end -}}

{{- define "verification-jobs.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "verification-jobs.fullname" -}}
{{- $name := include "verification-jobs.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that select all pods of this release. */}}
{{- define "verification-jobs.selector" -}}
app.kubernetes.io/name: {{ include "verification-jobs.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "verification-jobs.labels" -}}
{{ include "verification-jobs.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "verification-jobs.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "verification-jobs.secretName" -}}
{{- .Values.secrets.existingSecret | default (include "verification-jobs.fullname" .) -}}
{{- end -}}

{{/*
Every workload by name, as JSON: defaults and its own values put together, the program it runs, and
the consumer groups it is a member of, by its lanes and services.
*/}}
{{- define "verification-jobs.workloads" -}}
{{- $programs := include "verification-jobs.programs" . | fromJson -}}
{{- $all := dict -}}
{{- range $name, $own := .Values.stages -}}
{{- $workload := mergeOverwrite (deepCopy $.Values.defaults) (deepCopy ($own | default dict)) -}}
{{- $stage := $workload.stage | default $name -}}
{{- $program := get $programs $stage -}}
{{- if not $program -}}{{- fail (printf "stages.%s: there is no program %q" $name $stage) -}}{{- end -}}
{{- range $setting := list "lanes" "services" -}}
{{- if and (get $workload $setting) (not (hasKey $program.settings ($setting | upper))) -}}
{{- fail (printf "stages.%s: %s can't be limited to some %s" $name $stage $setting) -}}
{{- end -}}
{{- end -}}
{{- $groups := list -}}
{{- range $program.groups -}}
{{- $inLane := or (not $workload.lanes) (not .lane) (has .lane $workload.lanes) -}}
{{- $inService := or (not $workload.services) (not .service) (has .service $workload.services) -}}
{{- if and $inLane $inService -}}{{- $groups = append $groups . -}}{{- end -}}
{{- end -}}
{{- if $workload.enabled -}}
{{- $_ := set $all $name (merge (dict "stage" $stage "program" $program "groups" $groups) $workload) -}}
{{- end -}}
{{- end -}}
{{- $all | toJson -}}
{{- end -}}

{{/*
The settings of one program: (dict "root" $ "program" ... "user" ... "config" ... "given" ...). At
brokers that want users it signs in as `user`, with that user's password from the secret. What
`secretKeys` names is taken from there by another key than its own name.
*/}}
{{- define "verification-jobs.env" -}}
{{- $plain := dict -}}
{{- range $key, $value := .root.Values.config -}}
{{- if or (hasKey $.program.settings $key) (hasKey $.program.secrets $key) -}}
{{- $_ := set $plain $key $value -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := .config -}}
{{- if not (or (hasKey $.program.settings $key) (hasKey $.program.secrets $key)) -}}
{{- fail (printf "%s reads no setting %s" $.program.program $key) -}}
{{- end -}}
{{- $_ := set $plain $key $value -}}
{{- end -}}
{{- range $key, $value := .given -}}{{- $_ := set $plain $key $value -}}{{- end -}}
{{- $user := $plain.KAFKA_SASL_USERNAME | default .user -}}
{{- /* provision creates its rules for users whose names have the prefix, and is a user of its own. */ -}}
{{- $prefix := ternary "" ($plain.TOPIC_PREFIX | default "") (eq .user "admin") -}}
{{- $name := $plain.KAFKA_SASL_USERNAME | default (print $prefix .user) -}}
{{- if ne ($plain.KAFKA_SASL_MECHANISM | default "oauthbearer") "oauthbearer" -}}{{- $_ := set $plain "KAFKA_SASL_USERNAME" $name -}}{{- end -}}
{{- range $key, $value := $plain }}
- name: {{ $key }}
  value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
{{- end }}
{{- range $key, $_ := .secretKeys }}
{{- if not (hasKey $.program.secrets $key) -}}
{{- fail (printf "%s reads no secret %s" $.program.program $key) -}}
{{- end -}}
{{- end }}
{{- $keys := merge (dict "KAFKA_SASL_PASSWORD" (printf "KAFKA_PASSWORD_%s" ($user | upper | replace "-" "_" | replace "." "_"))) (.secretKeys | default dict) }}
{{- range $key, $need := .program.secrets }}
{{- if not (hasKey $plain $key) }}
- name: {{ $key }}
  valueFrom:
    secretKeyRef:
      name: {{ include "verification-jobs.secretName" $.root }}
      key: {{ get $keys $key | default $key }}
      {{- if eq $need "optional" }}
      optional: true
      {{- end }}
{{- end }}
{{- end }}
{{- range $key, $need := .program.settings }}
{{- if and (eq $need "required") (not (hasKey $plain $key)) }}
{{- fail (printf "config.%s is missing: %s does not start without" $key $.program.program) }}
{{- end }}
{{- end }}
{{- if include "verification-jobs.hasRootKeys" .program }}
{{- range $key, $value := .root.Values.rootKeys.env }}
- name: {{ $key }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- with .root.Values.tls.caSecret.name }}
- name: NODE_EXTRA_CA_CERTS
  value: /etc/verification-jobs/ca/ca.crt
{{- end }}
{{- end -}}

{{/* Not empty for a program that has a class of root keys. */}}
{{- define "verification-jobs.hasRootKeys" -}}
{{- range $key, $_ := .secrets -}}{{- if hasSuffix "_ROOT_KEYS" $key -}}yes{{- end -}}{{- end -}}
{{- end -}}

{{- define "verification-jobs.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "verification-jobs.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "verification-jobs.mounts" -}}
- name: scratch
  mountPath: /tmp
{{- if .Values.tls.caSecret.name }}
- name: ca
  mountPath: /etc/verification-jobs/ca
  readOnly: true
{{- end }}
{{- end -}}

{{- define "verification-jobs.volumes" -}}
- name: scratch
  emptyDir:
    sizeLimit: 128Mi
{{- with .Values.tls.caSecret }}
{{- if .name }}
- name: ca
  secret:
    secretName: {{ .name }}
    items:
      - key: {{ .key }}
        path: ca.crt
{{- end }}
{{- end }}
{{- end -}}
