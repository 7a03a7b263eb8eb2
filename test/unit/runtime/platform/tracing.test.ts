import { describe, expect, it } from 'vitest'
import { createLog } from '../../../../services/runtime/platform/log.ts'
import { startTracing } from '../../../../services/runtime/platform/tracing-sdk.ts'
import {
  addSpanAttributes, inSpan, isTracing, readTraceId, SpanKind, toSpanLinks, traceFields,
  traceHeaders,
  withTrace,
} from '../../../../services/runtime/platform/tracing.ts'
import { idOf, placeIn, spansOf } from '../../../support/tracing.ts'

const plan = { name: 'a', kind: SpanKind.INTERNAL }

it('tracing that is disabled runs all actions and adds no header', async () => {
  expect(isTracing()).toBe(false)
  expect(await inSpan(plan, async span => [span, traceHeaders()])).toEqual([undefined, {}])
  expect(withTrace(placeIn(1, 2), () => [traceHeaders(), traceFields()])).toEqual([{}, {}])
  addSpanAttributes({ job: 'j' })
  expect(toSpanLinks([placeIn(1, 2)])).toEqual([])
})

describe('tracing', () => {
  it('continues the trace of the headers and propagates it', async () => {
    let handed = {}
    const spans = await spansOf(() => withTrace(placeIn(1, 2), () => inSpan(plan, async () => {
      addSpanAttributes({ job: 'j' })
      await inSpan({ ...plan, name: 'b' }, async () => { handed = traceHeaders() })
    })))
    const [inner, outer] = spans
    expect(spans.map(({ name }) => name)).toEqual(['b', 'a'])
    expect(outer?.parentSpanContext).toMatchObject({ traceId: idOf(1), spanId: idOf(2, 16) })
    expect(outer?.attributes).toEqual({ job: 'j' })
    const [trace, own] = [idOf(1), inner?.spanContext().spanId]
    expect(handed).toEqual({ traceparent: `00-${trace}-${own}-01` })
    expect(inner?.resource.attributes).toMatchObject({
      'service.name': 'sample', 'service.instance.id': 'sample-1', 'service.version': '0.1.0',
    })
    expect(isTracing()).toBe(false)
  })

  it('records the name of an error, never its message', async () => {
    const failing = () => inSpan(plan, async () => { throw new TypeError('+12127365000') })
    const [span] = await spansOf(() => expect(failing()).rejects.toThrow('+12127365000'))
    expect(span?.attributes).toEqual({ 'error.type': 'TypeError' })
    expect(JSON.stringify([span?.status, span?.events])).not.toContain('212')
  })

  it.each([
    ['always_off', 1, 0], ['traceidratio', 0, 0], ['parentbased_traceidratio', 1, 1],
    ['parentbased_always_off', 1, 0],
  ])('with the sampler %s and ratio %d keeps %d of one trace', async (sampler, ratio, kept) => {
    expect(await spansOf(() => inSpan(plan, async () => {}), { sampler, ratio }))
      .toHaveLength(kept)
  })

  it('adds the id of the active trace to the log', async () => {
    const lines: string[] = []
    const log = createLog('x', { destination: { write: line => lines.push(line) } })
    await spansOf(() => {
      log.info('outside')
      withTrace(placeIn(3, 4), () => log.info('inside'))
    })
    expect(lines.map(line => (JSON.parse(line) as { traceId?: string }).traceId))
      .toEqual([undefined, idOf(3)])
    expect([readTraceId(placeIn(5, 6)), readTraceId({})]).toEqual([idOf(5), undefined])
  })

  it('logs lost spans once with their number', async () => {
    const logged: object[] = []
    const exporter = {
      export: (_: unknown, done: (result: { code: number }) => void) => done({ code: 1 }),
      shutdown: async () => {},
    }
    const log = { warn: (about: object) => { logged.push(about) } } as never
    const stop = startTracing({
      name: 'x', instance: 'x', log, sampler: 'always_on', ratio: 1, exporter,
    })
    await inSpan(plan, async () => {})
    await inSpan(plan, async () => {})
    await stop()
    expect(logged).toEqual([{ lost: 2 }])
  })
})
