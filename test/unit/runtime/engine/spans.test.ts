import { describe, expect, it } from 'vitest'
import type { RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import {
  type Decision, decisionSpans, type Emission, inMessageSpan,
} from '../../../../services/runtime/engine/stage.ts'
import { inSpan, SpanKind } from '../../../../services/runtime/platform/tracing.ts'
import { idOf, placeIn, spansOf } from '../../../support/tracing.ts'
import { rawMessage } from './engine-bench.ts'

const location = { stage: 'settle', group: 'settle.small' } as const

const message = (offset: number, headers: Record<string, string>): RawMessage =>
  ({ ...rawMessage(offset), headers: { tenant: 't', chunkRows: '2', ...headers } })

const about = (job: string) =>
  ({ topic: 'jobs.settled', lane: 'small', value: { job } }) as unknown as Emission

const decision = (
  raws: readonly RawMessage[], emits: readonly Emission[], more: Partial<Decision> = {}
) => ({ completes: raws.map(raw => ({ raw })), emits, ...more }) as unknown as Decision

async function carriedOut (
  decisions: readonly Decision[], context: { readonly deadLettered?: readonly RawMessage[] } = {}
) {
  let emits: readonly Emission[] = []
  const spans = await spansOf(async () => {
    const made = decisionSpans(location, decisions, context)
    emits = made.emits
    await made.around(async () => {})
  })
  return { spans, traces: emits.map(({ trace }) => trace?.traceparent?.slice(3, 52)) }
}

const a = message(1, { job: 'a', chunk: '7', ...placeIn(1, 1) })
const b = message(2, { job: 'b', ...placeIn(2, 2) })

describe('the spans of decisions', () => {
  it('do not exist without tracing, and emissions are unchanged', () => {
    const emission = about('a')
    expect(decisionSpans(location, [decision([a], [emission])], {}).emits[0]).toBe(emission)
  })

  it('are one per job of a decision', async () => {
    const { spans, traces } = await carriedOut([decision([a, b], [about('b'), about('a')])])
    expect(spans.map(span => [span.name, span.kind, span.spanContext().traceId])).toEqual([
      ['settle process', SpanKind.CONSUMER, idOf(1)],
      ['settle process', SpanKind.CONSUMER, idOf(2)],
    ])
    const places = spans.map(span => `${span.spanContext().traceId}-${span.spanContext().spanId}`)
    expect(traces).toEqual([places[1], places[0]])
  })

  it('have the first message as parent and at most 32 links', async () => {
    const others = Array.from({ length: 40 }, (_, index) =>
      message(index, { job: 'a', ...placeIn(1, 3) }))
    const { spans: [span] } = await carriedOut([decision([a, ...others], [])])
    expect(span?.parentSpanContext?.spanId).toBe(idOf(1, 16))
    expect(span?.links.map(link => link.context.spanId)).toEqual(Array(32).fill(idOf(3, 16)))
    expect(span?.attributes).toMatchObject({
      job: 'a', tenant: 't', rows: 82, 'messaging.batch.message_count': 41,
    })
  })

  it('have ids and counts', async () => {
    const { spans: [span] } = await carriedOut([decision([a], [])])
    expect(span?.attributes).toEqual({
      'messaging.system': 'kafka',
      'messaging.operation.name': 'process',
      'messaging.operation.type': 'process',
      'messaging.destination.name': 'rows.submitted.small',
      'messaging.destination.partition.id': '0',
      'messaging.kafka.offset': 1,
      'messaging.batch.message_count': 1,
      'messaging.consumer.group.name': 'settle.small',
      tenant: 't',
      job: 'a',
      chunk: 7,
      rows: 2,
    })
  })

  it('start a trace for messages without one, and continue it for dead letters', async () => {
    const plain = await carriedOut([decision([message(1, { job: 'c' })], [about('c')])])
    expect(plain.spans[0]?.parentSpanContext).toBeUndefined()
    expect(plain.traces).toEqual([expect.stringMatching(/^[0-9a-f]{32}-[0-9a-f]{16}$/)])
    const { spans, traces } = await carriedOut(
      [decision([], [about('a')])], { deadLettered: [a] })
    expect(spans[0]?.attributes['error.type']).toBe('dead_letter')
    expect(traces[0]?.slice(0, 32)).toBe(idOf(1))
  })

  it('fail with the decision', async () => {
    const [span] = await spansOf(async () => {
      const { around } = decisionSpans(location, [decision([a], [])], {})
      const failing = around(async () => { throw new RangeError('too large') })
      await expect(failing).rejects.toThrow('too large')
    })
    expect(span?.attributes['error.type']).toBe('RangeError')
  })

  it('exist before the decision if a provider is called', async () => {
    const ask = () => inSpan({ name: 'ask', kind: SpanKind.CLIENT }, async () => {})
    const spans = await spansOf(async () => {
      await inMessageSpan('settle', a, ask)
      await decisionSpans(location, [decision([a], [])], {}).around(async () => {})
    })
    expect(spans.map(({ name }) => name)).toEqual(['ask', 'settle process'])
    expect(spans[0]?.parentSpanContext?.spanId).toBe(spans[1]?.spanContext().spanId)
    expect(await inMessageSpan('settle', a, async () => 'plain')).toBe('plain')
  })
})
