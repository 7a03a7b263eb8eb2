import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { freePort } from '../../deploy/local/ports.ts'
import { logPath } from '../../deploy/local/process.ts'
import { STAGES as ALL_STAGES } from '../../services/topology.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { installCollector } from '../support/deploy/tools.ts'
import { eventually } from '../support/eventually.ts'
import { newFolder } from '../support/folder.ts'
import { ask, startEnvironment } from '../support/stacks/environment.ts'
import { createPart } from '../support/stacks/processes.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'

/** A span as the collector passed it on, with what matters here. */
type ExportedSpan = {
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

/** A real OpenTelemetry Collector, which passes the spans it takes on to the test as JSON. */
async function startCollector () {
  const program = await installCollector(console.log)
  const receiver = await startReceiver(response => {
    response.setHeader('content-type', 'application/json').end('{}')
  })
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
  const spans = () => receiver.received.flatMap(({ body }) => spansIn(JSON.parse(body) as Exported))
  return {
    endpoint: `http://${address}`,
    spans,
    /** Everything that was passed on, as it came. */
    text: () => receiver.received.map(({ body }) => body).join('\n'),
    /** Resolves with what the action finds in the spans, once it finds something. */
    until: <T>(find: (all: readonly ExportedSpan[]) => T | undefined) => eventually(() => {
      const found = find(spans())
      if (found !== undefined) return found
      throw new Error(`not among ${spans().length} spans: ${String(find)}`)
    }),
    stop: async () => {
      await part.stop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
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

const STAGES = ['normalize', 'lookup', 'verify', 'settle', 'deliver'] as const
/** What a client says of its own trace. */
const CLIENTS = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' }
const ROWS = 300

const collector = closeAfterAll(await startCollector())
const receiver = await startReceiver((response, _received, count) => {
  response.writeHead(count === 1 ? 503 : 200).end()
})
const environment = closeAfterAll(await startEnvironment({
  WEBHOOK_ALLOW_HTTP: 'true',
  WEBHOOK_ALLOW_LOOPBACK: 'true',
  WEBHOOK_WAITS_MS: '[50,50]',
  LOG_LEVEL: 'debug',
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
}, { apart: ALL_STAGES }))

/** Posts a job whose webhook goes to a path of its own; its receiver takes the second attempt. */
async function post (path: string): Promise<string> {
  const { status, json } = await ask(`${environment.baseUrl}/jobs?note=a-secret`, {
    key: environment.keys.live,
    headers: { traceparent: `00-${CLIENTS.traceId}-${CLIENTS.spanId}-01` },
    body: {
      service: 'phone-validation',
      inputs: Array.from({ length: ROWS }, (_, row) => `+1415555${String(2_000 + row)}`),
      forceFresh: true,
      webhook_url: `http://127.0.0.1:${receiver.port}/${path}`,
    },
  })
  expect(status).toBe(202)
  return json.id
}

const named = (spans: readonly ExportedSpan[], name: string) =>
  spans.filter(span => span.name === name)

/** The trace of a job, once the last of its spans has come and all parents are there. */
async function traceOf (job: string): Promise<readonly ExportedSpan[]> {
  return await collector.until(all => {
    const root = all.find(span => span.kind === 2 && span.attributes.job === job)
    const trace = all.filter(({ traceId }) => traceId === root?.traceId)
    const isWhole = named(trace, 'webhook attempt').length === 2 && lost(trace).length === 0 &&
      ['publish', 'ledger'].every(stage => named(trace, `${stage} process`).length > 0)
    return isWhole ? trace : undefined
  })
}

/** Spans whose parent is not in the trace. */
function lost (trace: readonly ExportedSpan[]): readonly ExportedSpan[] {
  const ids = new Set(trace.map(({ spanId }) => spanId))
  return trace.filter(({ parentSpanId }) => parentSpanId !== '' && !ids.has(parentSpanId))
}

type Line = Readonly<Record<string, unknown>>

const linesOf = (process: string): readonly Line[] =>
  readFileSync(logPath({ dataDir: environment.services.dataDir, name: `${process}-1` }), 'utf8')
    .split('\n').filter(line => line.startsWith('{')).map(line => JSON.parse(line) as Line)

describe('traces', () => {
  let job: string
  let trace: readonly ExportedSpan[]
  beforeAll(async () => {
    job = await post('traced')
    await receiver.until(2, '/traced')
    trace = await traceOf(job)
  })

  it('cover a job from the request to its webhook in one trace', () => {
    const ofJob = collector.spans().filter(({ attributes }) => attributes.job === job)
    expect(new Set(ofJob.map(({ traceId }) => traceId)).size).toBe(1)
    const [root, ...others] = trace.filter(({ parentSpanId }) => parentSpanId === '')
    expect([root?.name, root?.service, others]).toEqual(['POST /api/v1/jobs', 'ingest', []])
    for (const stage of STAGES) {
      const spans = named(trace, `${stage} process`)
      expect(spans.length, stage).toBeGreaterThan(0)
      expect(new Set(spans.map(({ service, kind }) => `${service} ${kind}`)))
        .toEqual(new Set([`${stage} 5`]))
    }
  })

  it('are linked in the order of the messages', () => {
    const parentNames = (name: string) => new Set(named(trace, name).map(({ parentSpanId }) =>
      trace.find(({ spanId }) => spanId === parentSpanId)?.name))
    expect(parentNames('rows.submitted send')).toEqual(new Set(['POST /api/v1/jobs']))
    expect(parentNames('normalize process')).toEqual(new Set(['rows.submitted send']))
    expect(parentNames('lookup process')).toEqual(new Set(['normalize process']))
    expect(parentNames('verify process')).toEqual(new Set(['lookup process']))
    expect(parentNames('provider ask')).toEqual(new Set(['verify process']))
    expect(parentNames('deliver process')).toEqual(new Set(['settle process']))
    expect(parentNames('webhook attempt')).toEqual(new Set(['settle process']))
    const providerCalls = named(trace, 'provider ask')
    const spans = providerCalls.map(({ attributes }) => attributes)
    expect(spans.reduce((sum, { rows }) => sum + Number(rows), 0)).toBe(ROWS)
    expect(spans.every(({ provider }) => /^\d+$/.test(String(provider)))).toBe(true)
    const attempts = named(trace, 'webhook attempt').map(({ attributes, isError }) =>
      [attributes.attempt, attributes['http.response.status_code'], isError])
    expect(attempts.sort()).toEqual([[1, 503, true], [2, 200, false]])
  })

  it('take what a client says of its own trace for a link', () => {
    const [root] = named(trace, 'POST /api/v1/jobs')
    expect(root?.links).toEqual([CLIENTS])
    expect(root?.traceId).not.toBe(CLIENTS.traceId)
    expect(collector.spans().filter(({ traceId }) => traceId === CLIENTS.traceId)).toEqual([])
  })

  it('say nothing of inputs, addresses or queries', () => {
    for (const secret of [
      '415555', 'traced', 'a-secret', String(receiver.port), environment.keys.live,
    ]) {
      expect(collector.text(), secret).not.toContain(secret)
    }
  })

  it('are named by a line of each log, with the job', () => {
    const [root] = trace
    for (const stage of ['ingest', ...STAGES]) {
      const lines = linesOf(stage).filter(line => line.job === job)
      expect(lines.length, stage).toBeGreaterThan(0)
      expect(new Set(lines.map(({ traceId }) => traceId)), stage).toEqual(new Set([root?.traceId]))
    }
    const [accepted] = linesOf('ingest').filter(({ msg }) => msg === 'job accepted')
    expect(accepted?.requestId).toMatch(/^req_/)
  })

  it('delay no work when there is no collector', async () => {
    await collector.stop()
    const other = await post('alone')
    await environment.live.waitForEnd(other)
    await receiver.until(2, '/alone')
    const lost = () => linesOf('ingest').filter(({ msg }) => String(msg).startsWith('spans lost'))
    await expect.poll(() => lost().length, { timeout: 30_000 }).toBe(1)
  })
})
