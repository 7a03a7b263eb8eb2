import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../../deploy/local/ports.ts'
import { installCollector } from './tools.ts'
import { createPart } from '../stacks/processes.ts'
import { newFolder } from '../folder.ts'
import { listen } from '../listen.ts'

/** A span as the collector passed it on, with what matters here. */
export type ExportedSpan = {
  readonly service: string
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  /** '' for the first span of a trace. */
  readonly parentSpanId: string
  /** 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: number
  readonly links: readonly { readonly traceId: string, readonly spanId: string }[]
  readonly attributes: Readonly<Record<string, string | number>>
  readonly isError: boolean
}

export type Collector = {
  /** The value of OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly endpoint: string
  readonly spans: () => readonly ExportedSpan[]
  /** Everything that was passed on, as it came. */
  readonly text: () => string
  /** Resolves with what the action finds in the spans, once it finds something. */
  readonly until: <T>(find: (spans: readonly ExportedSpan[]) => T | undefined) => Promise<T>
  readonly stop: () => Promise<void>
}

const WITHIN_MS = 30_000

/** A real OpenTelemetry Collector, which passes the spans it takes on to the test as JSON. */
export async function startCollector (): Promise<Collector> {
  const program = await installCollector(console.log)
  const receiver = await startReceiving()
  const dataDir = newFolder('verification-jobs-collector-')
  const address = `127.0.0.1:${await freePort()}`
  const config = `${dataDir}/collector.yaml`
  writeFileSync(config, JSON.stringify(configOf(address, receiver.port)))
  const ready = () => fetch(`http://${address}/v1/traces`, { method: 'POST' })
    .then(() => true, () => false)
  const part = createPart({
    name: 'collector',
    command: program,
    args: ['--config', `file:${config}`],
    dataDir,
    ready,
    graceMs: 5_000,
  })
  await part.up()
  const stop = async () => {
    await part.stop()
    await receiver.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
  const { spans, text, until } = receiver
  return { endpoint: `http://${address}`, spans, text, until, stop }
}

/** JSON is YAML as well. */
function configOf (endpoint: string, port: number): object {
  const onward = { endpoint: `http://127.0.0.1:${port}`, encoding: 'json', compression: 'none' }
  return {
    receivers: { otlp: { protocols: { http: { endpoint } } } },
    exporters: { otlp_http: onward },
    service: {
      telemetry: { metrics: { level: 'none' } },
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlp_http'] } },
    },
  }
}

async function startReceiving () {
  const bodies: string[] = []
  const all: ExportedSpan[] = []
  const heard = new EventTarget()
  const server = createServer((request, response) => {
    text(request).then(body => {
      bodies.push(body)
      all.push(...spansIn(JSON.parse(body) as Exported))
      response.setHeader('content-type', 'application/json').end('{}')
      heard.dispatchEvent(new Event('spans'))
    }, () => response.destroy())
  })
  const port = await listen(server)
  const until = async <T>(find: (spans: readonly ExportedSpan[]) => T | undefined) => {
    const untilMs = Date.now() + WITHIN_MS
    for (;;) {
      const found = find(all)
      if (found !== undefined) return found
      const leftMs = untilMs - Date.now()
      if (leftMs <= 0) throw new Error(`not among ${all.length} spans: ${String(find)}`)
      await Promise.race([once(heard, 'spans'), sleep(Math.min(leftMs, 1_000))])
    }
  }
  return {
    port,
    spans: () => all,
    text: () => bodies.join('\n'),
    until,
    stop: async () => {
      server.closeAllConnections()
      await new Promise<void>(resolve => server.close(() => resolve()))
    },
  }
}

type Value = { readonly stringValue?: string, readonly intValue?: string | number }
type Attribute = { readonly key: string, readonly value: Value }
type Exported = {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] }
    readonly scopeSpans: readonly { readonly spans: readonly RawSpan[] }[]
  }[]
}
type RawSpan = Pick<ExportedSpan, 'name' | 'traceId' | 'spanId' | 'kind'> &
  Partial<Pick<ExportedSpan, 'parentSpanId' | 'links'>> & {
    readonly attributes?: readonly Attribute[]
    readonly status?: { readonly code?: number }
  }

function spansIn ({ resourceSpans }: Exported): readonly ExportedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(attributesOf(resource.attributes)['service.name'])
    return scopeSpans.flatMap(({ spans }) => spans.map(span => spanOf(span, service)))
  })
}

function spanOf (
  { name, traceId, spanId, kind, parentSpanId = '', links = [], attributes = [], status }: RawSpan,
  service: string
): ExportedSpan {
  return {
    service,
    name,
    traceId,
    spanId,
    kind,
    parentSpanId,
    links: links.map(link => ({ traceId: link.traceId, spanId: link.spanId })),
    attributes: attributesOf(attributes),
    isError: status?.code === 2,
  }
}

function attributesOf (attributes: readonly Attribute[]): Record<string, string | number> {
  return Object.fromEntries(attributes.map(({ key, value }) =>
    [key, value.stringValue ?? Number(value.intValue)]))
}
