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

{{/* What the jobs need that provision before and after the release, each time again. */}}
{{- define "verification-jobs.provisionHooks" -}}
pre-install,pre-upgrade,pre-rollback,post-install,post-upgrade,post-rollback
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
brokers that want users it signs in as `user`, with that user's password from `secret`. What
`secretKeys` names is taken from there by another key than its own name.
*/}}
{{- define "verification-jobs.env" -}}
{{- $plain := dict -}}
{{- range $key, $value := .root.Values.config -}}
{{- if and (not (kindIs "invalid" $value)) (or (hasKey $.program.settings $key) (hasKey $.program.secrets $key)) -}}
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
{{- $hasPassword := has $plain.KAFKA_SASL_MECHANISM (list "plain" "scram-sha-256" "scram-sha-512") -}}
{{- if $hasPassword -}}{{- $_ := set $plain "KAFKA_SASL_USERNAME" $name -}}{{- end -}}
{{- range $key, $value := $plain }}
- name: {{ $key }}
  value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
{{- end }}
{{- range $key, $_ := .secretKeys }}
{{- if not (or (hasKey $.program.secrets $key) (hasKey $.program.settings $key)) -}}
{{- fail (printf "%s reads no secret %s" $.program.program $key) -}}
{{- end -}}
{{- end }}
{{- $keys := merge (dict "KAFKA_SASL_PASSWORD" (printf "KAFKA_PASSWORD_%s" (regexReplaceAll "[^A-Z0-9]" ($user | upper) "_"))) (.secretKeys | default dict) }}
{{- /* Of no use with another mechanism, and refused there. */ -}}
{{- $unused := dict "KAFKA_SASL_PASSWORD" (not $hasPassword) "KAFKA_OAUTH_CLIENT_SECRET" (ne ($plain.KAFKA_SASL_MECHANISM | default "") "oauthbearer") }}
{{- range $key, $need := .program.secrets }}
{{- if not (or (hasKey $plain $key) (get $unused $key)) }}
- name: {{ $key }}
  valueFrom:
    secretKeyRef:
      name: {{ $.secret }}
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

{{/* All addresses of a version of IP but networks of it: (dict "cidr" <all> "networks" ...). */}}
{{- define "verification-jobs.anywhere" -}}
{{- $except := list -}}
{{- range .networks -}}
{{- if eq (contains ":" .) (contains ":" $.cidr) }}{{ $except = append $except . }}{{ end -}}
{{- end -}}
ipBlock: {{ dict "cidr" .cidr "except" $except | toJson }}
{{- end -}}

{{/*
What a pod has whatever it runs: the values of a task are those of `defaults`, and its own.
*/}}
{{- define "verification-jobs.task" -}}
{{- $shared := pick .root.Values.defaults "podLabels" "podAnnotations" "serviceAccountAnnotations" "kafkaCertificate" "redisCertificate" "nodeSelector" "tolerations" "affinity" "priorityClassName" "env" "envFrom" "volumes" "volumeMounts" -}}
{{- mergeOverwrite (deepCopy $shared) (deepCopy .values) | toJson -}}
{{- end -}}

{{/*
The template of a pod that runs a program, of a workload or a task: (dict "root" $ "name"
<deployment or task> "stage" <program by name> "program" ... "user" <at the brokers> "values" ...).
A program with a port of metrics is a service, and is probed; another one ends.
*/}}
{{- define "verification-jobs.pod" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $settings := .program.settings -}}
{{- $fullname := include "verification-jobs.fullname" $root -}}
{{- $isService := hasKey $settings "PORT_METRICS" -}}
{{- $secret := include "verification-jobs.secretName" $root -}}
{{- $isMadeHere := or $root.Values.secrets.create $root.Values.secrets.externalSecret.storeRef.name -}}
{{- if and (eq .name "provision") $isMadeHere }}{{ $secret = printf "%s-provision" $secret }}{{ end -}}
{{- $http := hasKey $settings "PORT_HTTP" -}}
{{- /* :: takes IPv4 as well. */ -}}
{{- $host := ternary "::" "0.0.0.0" $root.Values.network.ipv6 -}}
{{- $given := dict -}}
{{- if $isService }}{{ $_ := set $given "HOST_METRICS" $host }}{{ $_ := set $given "PORT_METRICS" "9464" }}{{ end -}}
{{- if $http }}{{ $_ := set $given "HOST" $host }}{{ $_ := set $given "PORT_HTTP" "8080" }}{{ end -}}
{{- if hasKey $settings "API_URL" }}{{ $_ := set $given "API_URL" (printf "http://%s-ingest/api/v1" $fullname) }}{{ end -}}
{{- if and (hasKey $settings "METRICS_TARGETS") (not (get $values.config "METRICS_TARGETS")) -}}
{{- $_ := set $given "METRICS_TARGETS" (printf "http://%s-metrics:9464/metrics" $fullname) -}}
{{- end -}}
{{- $lists := and (hasKey $settings "LISTS_DIR") (or $root.Values.lists.configMap $root.Values.lists.existingClaim) -}}
{{- if $lists }}{{ $_ := set $given "LISTS_DIR" "/etc/verification-jobs/lists" }}{{ end -}}
{{- $certificates := dict -}}
{{- range $store := list "kafka" "redis" -}}
{{- $file := printf "%s_TLS_CERT_FILE" (upper $store) -}}
{{- $certificate := get $values (printf "%sCertificate" $store) -}}
{{- if and (hasKey $settings $file) $certificate.secret -}}
{{- $_ := set $certificates $store $certificate -}}
{{- $_ := set $given $file (printf "/etc/verification-jobs/%s/tls.crt" $store) -}}
{{- $_ := set $given (printf "%s_TLS_KEY_FILE" (upper $store)) (printf "/etc/verification-jobs/%s/tls.key" $store) -}}
{{- end -}}
{{- end -}}
{{- if hasKey $certificates "kafka" }}{{ $_ := set $given "KAFKA_TLS" "true" }}{{ end -}}
{{- $passwords := list -}}
{{- range $root.Values.secrets.passwordFiles -}}
{{- $file := printf "%s_FILE" . -}}
{{- if hasKey $settings $file -}}
{{- $key := get ($values.secretKeys | default dict) $file | default . -}}
{{- if eq . "KAFKA_SASL_PASSWORD" -}}
{{- $user := $values.config.KAFKA_SASL_USERNAME | default $root.Values.config.KAFKA_SASL_USERNAME | default $.user -}}
{{- $key = printf "KAFKA_PASSWORD_%s" (regexReplaceAll "[^A-Z0-9]" ($user | upper) "_") -}}
{{- end -}}
{{- $passwords = append $passwords (dict "key" $key "path" .) -}}
{{- $_ := set $given $file (printf "/etc/verification-jobs/passwords/%s" .) -}}
{{- end -}}
{{- end -}}
{{- with $values.lanes }}{{ $_ := set $given "LANES" (join "," .) }}{{ end -}}
{{- with $values.services }}{{ $_ := set $given "SERVICES" (join "," .) }}{{ end -}}
{{- range $values.env -}}
{{- if or (hasKey $settings .name) (hasKey $.program.secrets .name) -}}
{{- fail (printf "env: %s is a setting of %s; set it in config or in the secret" .name $.program.program) -}}
{{- end -}}
{{- end -}}
metadata:
  labels:
    {{- include "verification-jobs.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
    verification-jobs/stage: {{ .stage }}
    {{- if and $isService (ne .stage "page") }}
    verification-jobs/pipeline: 'true'
    {{- end }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or $root.Values.secrets.create $values.podAnnotations }}
  annotations:
    {{- if $root.Values.secrets.create }}
    checksum/secret: {{ $root.Values.secrets.values | toJson | sha256sum }}
    {{- end }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  {{- if not $isService }}
  restartPolicy: Never
  {{- end }}
  serviceAccountName: {{ $fullname }}-{{ .name }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  # A service ends within 25 s of SIGTERM; the interface waits before, see preStop.
  terminationGracePeriodSeconds: 45
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    runAsGroup: 1000
    fsGroup: 1000
    seccompProfile:
      type: RuntimeDefault
  {{- if and $isService $values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range $values.topologySpreadConstraints }}
    - {{- toYaml . | nindent 6 }}
      {{- if not .labelSelector }}
      labelSelector:
        matchLabels:
          {{- include "verification-jobs.selector" $root | nindent 10 }}
          app.kubernetes.io/component: {{ $.name }}
      {{- end }}
    {{- end }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .stage }}
      image: {{ include "verification-jobs.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      {{- with $values.command }}
      command:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      args: {{ splitList " " .program.program | toJson }}
      env:
        {{- if hasKey $settings "INSTANCE" }}
        - name: INSTANCE
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        {{- end }}
        {{- with $values.heapLimitMiB }}
        - name: NODE_OPTIONS
          value: --max-old-space-size={{ . }}
        {{- end }}
        {{- include "verification-jobs.env" (dict "root" $root "program" .program "user" .user "config" $values.config "secret" $secret "secretKeys" $values.secretKeys "given" $given) | trim | nindent 8 }}
        {{- with $values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $isService }}
      ports:
        - name: metrics
          containerPort: 9464
        {{- if $http }}
        - name: http
          containerPort: 8080
        {{- end }}
      # Processes that start together on a small or busy node take minutes; a restart would not help.
      startupProbe:
        httpGet: { path: /healthz, port: metrics }
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 150
      # Alive, not ready: while a store is away the process waits, and a restart would not help.
      livenessProbe:
        httpGet: { path: /healthz, port: metrics }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: { path: /readyz, port: metrics }
        periodSeconds: 5
        timeoutSeconds: 3
      {{- if $http }}
      lifecycle:
        # No new request comes once the endpoint is gone everywhere.
        preStop:
          sleep: { seconds: 10 }
      {{- end }}
      {{- end }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      # Whole folders: a file that is mounted alone is never renewed.
      volumeMounts:
        - name: scratch
          mountPath: /tmp
        {{- if $root.Values.tls.caSecret.name }}
        - name: ca
          mountPath: /etc/verification-jobs/ca
          readOnly: true
        {{- end }}
        {{- range $store, $_ := $certificates }}
        - name: {{ $store }}
          mountPath: /etc/verification-jobs/{{ $store }}
          readOnly: true
        {{- end }}
        {{- if $passwords }}
        - name: passwords
          mountPath: /etc/verification-jobs/passwords
          readOnly: true
        {{- end }}
        {{- if $lists }}
        - name: lists
          mountPath: /etc/verification-jobs/lists
          readOnly: true
        {{- end }}
        {{- with $values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: scratch
      emptyDir:
        sizeLimit: 128Mi
    {{- with $root.Values.tls.caSecret }}
    {{- if .name }}
    - name: ca
      secret:
        secretName: {{ .name }}
        items:
          - { key: {{ .key }}, path: ca.crt }
    {{- end }}
    {{- end }}
    {{- range $store, $certificate := $certificates }}
    - name: {{ $store }}
      secret:
        secretName: {{ $certificate.secret }}
        items:
          - { key: {{ $certificate.certKey }}, path: tls.crt }
          - { key: {{ $certificate.keyKey }}, path: tls.key }
    {{- end }}
    {{- if $passwords }}
    - name: passwords
      secret:
        secretName: {{ $secret }}
        items: {{ $passwords | toJson }}
    {{- end }}
    {{- if $lists }}
    - name: lists
      {{- with $root.Values.lists.configMap }}
      configMap:
        name: {{ . }}
      {{- end }}
      {{- with $root.Values.lists.existingClaim }}
      persistentVolumeClaim:
        claimName: {{ . }}
        readOnly: true
      {{- end }}
    {{- end }}
    {{- with $values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
