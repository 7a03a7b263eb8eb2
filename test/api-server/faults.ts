type Labels = Readonly<Record<string, string>>
type Selector = { readonly matchLabels?: Labels }
type KeyRef = { readonly name: string, readonly key: string, readonly optional?: boolean }
type Port = number | string

type Container = {
  readonly name: string
  readonly image: string
  readonly args: readonly string[]
  readonly env?: readonly {
    readonly name: string
    readonly value?: string
    readonly valueFrom?: { readonly secretKeyRef?: KeyRef, readonly configMapKeyRef?: KeyRef }
  }[]
  readonly ports?: readonly { readonly name: string, readonly containerPort: number }[]
  readonly resources: { readonly requests?: { readonly cpu?: string } }
} & Readonly<Partial<Record<'startupProbe' | 'livenessProbe' | 'readinessProbe', {
  readonly httpGet?: { readonly port: Port }
}>>>

type Volume = {
  readonly secret?: {
    readonly secretName: string
    readonly optional?: boolean
    readonly items?: readonly { readonly key: string }[]
  }
  readonly configMap?: { readonly name: string }
  readonly persistentVolumeClaim?: { readonly claimName: string }
}

type NetworkRule = {
  readonly from?: readonly { readonly podSelector?: Selector }[]
  readonly ports?: readonly { readonly port: Port }[]
}

type Backend = {
  readonly service: { readonly name: string, readonly port: { readonly name: string } }
}

/** What these checks read of an object of Kubernetes, whatever its kind. */
export type Manifest = {
  readonly kind: string
  readonly metadata: { readonly name: string, readonly labels?: Labels }
  readonly data?: Labels
  readonly endpoints?: readonly unknown[]
  readonly ports?: readonly { readonly name: string }[]
  readonly spec?: {
    readonly containers?: readonly Container[]
    readonly volumes?: readonly Volume[]
    readonly imagePullSecrets?: readonly { readonly name: string }[]
    readonly serviceAccountName?: string
    readonly restartPolicy?: string
    readonly selector?: Selector | Labels
    readonly podSelector?: Selector
    readonly ingress?: readonly NetworkRule[]
    readonly ports?: readonly { readonly name?: string }[]
    readonly podMetricsEndpoints?: readonly { readonly port: string }[]
    readonly tls?: readonly { readonly secretName: string }[]
    readonly rules?: readonly {
      readonly http: { readonly paths: readonly { readonly backend: Backend }[] }
    }[]
    readonly scaleTargetRef?: { readonly name: string }
    readonly triggers?: readonly { readonly type: string }[]
    readonly minReplicaCount?: number
    readonly maxReplicaCount?: number
    readonly replicas?: number
  }
  readonly status?: {
    readonly availableReplicas?: number
    readonly conditions?: readonly { readonly type: string }[]
    readonly expectedPods?: number
  }
}

/** All objects of a namespace, to look up what one of them names. */
class Objects {
  readonly #all: readonly Manifest[]
  constructor (all: readonly Manifest[]) {
    this.#all = all
  }

  ofKind (kind: string): readonly Manifest[] {
    return this.#all.filter(object => object.kind === kind)
  }

  podsOf ({ matchLabels = {} }: Selector = {}): readonly Manifest[] {
    return this.ofKind('Pod').filter(({ metadata: { labels = {} } }) =>
      Object.entries(matchLabels).every(([name, value]) => labels[name] === value))
  }

  /** Names the object if it is missing, or lacks the key. */
  lacks (kind: string, { name, key, optional = false }: Partial<KeyRef>): readonly string[] {
    const object = this.ofKind(kind).find(({ metadata }) => metadata.name === name)
    const isThere = object !== undefined && (key === undefined || key in (object.data ?? {}))
    return isThere || optional ? [] : [`${kind} ${name}${key === undefined ? '' : ` with ${key}`}`]
  }

  lacksPort (pods: readonly Manifest[], ports: readonly Port[]): readonly string[] {
    const has = (pod: Manifest, port: Port) => pod.spec?.containers?.some(container =>
      hasPort(container, port))
    return ports.filter(port => !pods.every(pod => has(pod, port))).map(port => `port ${port}`)
  }
}

const hasPort = ({ ports = [] }: Container, port: Port) =>
  ports.some(({ name, containerPort }) => name === port || containerPort === port)

function missingOfContainer (container: Container, objects: Objects): readonly string[] {
  const { env = [], startupProbe, livenessProbe, readinessProbe } = container
  const signsIn = env.some(({ name }) => name === 'KAFKA_SASL_USERNAME')
  const ports = [startupProbe, livenessProbe, readinessProbe]
    .flatMap(probe => probe?.httpGet?.port ?? [])
  const missing = ports.filter(port => !hasPort(container, port))
    .map(port => `port ${port} of a probe`)
  for (const { name, valueFrom: { secretKeyRef, configMapKeyRef } = {} } of env) {
    // Optional, because brokers need not want users.
    const isRequired = signsIn && name === 'KAFKA_SASL_PASSWORD'
    if (secretKeyRef !== undefined) {
      missing.push(...objects.lacks('Secret', isRequired
        ? { ...secretKeyRef, optional: false }
        : secretKeyRef))
    }
    if (configMapKeyRef !== undefined) missing.push(...objects.lacks('ConfigMap', configMapKeyRef))
  }
  return missing
}

function missingOfVolume (volume: Volume, objects: Objects): readonly string[] {
  const { secret, configMap, persistentVolumeClaim: claim } = volume
  const missing = [{}, ...secret?.items ?? []].flatMap(item => secret === undefined
    ? []
    : objects.lacks('Secret', { ...item, name: secret.secretName }))
  if (configMap !== undefined) missing.push(...objects.lacks('ConfigMap', configMap))
  if (claim !== undefined) {
    missing.push(...objects.lacks('PersistentVolumeClaim', { name: claim.claimName }))
  }
  return missing
}

type Missing = (
  spec: NonNullable<Manifest['spec']>, objects: Objects, object: Manifest
) => readonly string[]

/** By kind: what an object of it needs and does not find. */
const MISSING: Readonly<Record<string, Missing>> = {
  Pod: (spec, objects) => [
    ...objects.lacks('ServiceAccount', { name: spec.serviceAccountName ?? '' }),
    ...(spec.imagePullSecrets ?? []).flatMap(({ name }) => objects.lacks('Secret', { name })),
    ...(spec.volumes ?? []).flatMap(volume => missingOfVolume(volume, objects)),
    ...(spec.containers ?? []).flatMap(container => missingOfContainer(container, objects)),
  ],
  PodDisruptionBudget: (_, __, { status }) => (status?.expectedPods ?? 0) > 0 ? [] : ['a pod'],
  NetworkPolicy: ({ podSelector, ingress = [] }, objects) => {
    const pods = objects.podsOf(podSelector)
    return [
      ...pods.length === 0 ? ['a pod'] : [],
      ...ingress.flatMap(({ from = [], ports = [] }) => [
        ...objects.lacksPort(pods, ports.map(({ port }) => port)),
        // Peers of this namespace alone.
        ...from.filter(peer => Object.keys(peer).join() === 'podSelector' &&
          objects.podsOf(peer.podSelector).length === 0).map(() => 'a pod that connects'),
      ]),
    ]
  },
  Service: ({ ports = [] }, objects, { metadata }) => {
    const served = objects.ofKind('EndpointSlice')
      .filter(({ metadata: { labels } }) =>
        labels?.['kubernetes.io/service-name'] === metadata.name)
      .filter(({ endpoints }) => (endpoints ?? []).length > 0)
      .flatMap(slice => slice.ports ?? [])
    // The only port of a service need not have a name, which is '' in its slices.
    return ports.filter(({ name = '' }) => !served.some(port => port.name === name))
      .map(({ name = '' }) => `an endpoint of its port ${name}`)
  },
  PodMonitor: ({ selector, podMetricsEndpoints = [] }, objects) => {
    // Tasks have no metrics.
    const pods = objects.podsOf(selector as Selector)
      .filter(({ spec }) => spec?.restartPolicy === 'Always')
    return [
      ...pods.length === 0 ? ['a pod'] : [],
      ...objects.lacksPort(pods, podMetricsEndpoints.map(({ port }) => port)),
    ]
  },
  Ingress: ({ tls = [], rules = [] }, objects) => [
    ...tls.flatMap(({ secretName: name }) =>
      ['tls.crt', 'tls.key'].flatMap(key => objects.lacks('Secret', { name, key }))),
    ...rules.flatMap(({ http }) => http.paths).map(({ backend }) => backend.service)
      .filter(({ name, port }) => !objects.ofKind('Service').some(service =>
        service.metadata.name === name &&
        service.spec?.ports?.some(other => other.name === port.name)))
      .map(({ name, port }) => `port ${port.name} of Service ${name}`),
  ],
  ScaledObject: ({ scaleTargetRef, triggers = [] }, objects) => {
    const name = scaleTargetRef?.name ?? ''
    const hasShare = objects.ofKind('Pod').filter(pod => pod.metadata.name.startsWith(`${name}-`))
      .every(pod => pod.spec?.containers?.every(({ resources }) => resources.requests?.cpu))
    return [
      ...objects.lacks('Deployment', { name }),
      ...triggers.some(({ type }) => type === 'cpu') && !hasShare ? ['a request of cpu'] : [],
    ]
  },
}

/** What objects name and do not find among all objects of their namespace. */
export function faultsIn (all: readonly Manifest[]): readonly string[] {
  const objects = new Objects(all)
  return all.flatMap(object => (MISSING[object.kind]?.(object.spec ?? {}, objects, object) ?? [])
    .map(what => `${object.kind} ${object.metadata.name} needs ${what}`))
}
