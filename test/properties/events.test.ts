import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ALL, createEventScene, END, ROWS } from '../support/webhooks/event-scene.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const RUNS = 40

it('each subscribed endpoint gets one end event, and progress that only grows', async () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('advance' as const), rows: fc.integer({ min: 1, max: 6 }) }),
    fc.record({ do: fc.constant('deliver' as const), from: fc.integer({ min: 1, max: 5 }) }),
    fc.record({ do: fc.constant('attempt' as const), isAnswered: fc.boolean() }),
    fc.record({ do: fc.constant('restart' as const) })
  )
  let scenes = 0
  await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 30 }), async steps => {
    await redis.flushall()
    const scene = createEventScene(redis, ++scenes)
    for (const one of steps) {
      if (one.do === 'advance') scene.advance(one.rows)
      if (one.do === 'deliver') await scene.deliver(one.from)
      if (one.do === 'attempt') await scene.attempt(one.isAnswered)
      if (one.do === 'restart') scene.restartSettle()
    }
    scene.advance(ROWS)
    await scene.deliver(1_000)
    while (await scene.attempt(true) > 0);
    const delivered = await scene.delivered()
    const ends = delivered.filter(([, type]) => type === 'job.completed')
    expect(ends.map(([endpoint]) => endpoint).sort()).toEqual([ALL, END])
    expect(delivered.filter(([to, type]) => to === END && type !== 'job.completed'))
      .toEqual([])
    const progress = scene.sent.filter(({ body }) => body.type === 'job.progress')
    expect(progress.filter(({ isLate }) => isLate)).toEqual([])
    const percents = progress.map(({ body }) => (body.data as { progressPercent: number })
      .progressPercent)
    expect(percents).toEqual(percents.toSorted((a, b) => a - b))
  }), { numRuns: RUNS })
})
