import { setImmediate as turnOfLoop } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createLoader } from '../../../services/lookup/chunk-loader.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import { eventually } from '../../support/eventually.ts'
import { cachedRecord, chunksOf, incoming, tokenFor } from '../../support/stage-doubles.ts'

const PHONE = '+12127365000'

describe('the loader of chunks', () => {
  it('decrypts and looks up a chunk once, however often it is called', async () => {
    const cache = createCacheDouble()
    cache.entries.set(tokenFor(PHONE).toString('hex'), cachedRecord())
    const scopes: object[] = []
    const load = createLoader({
      find: (scope, tokens) => {
        scopes.push(scope)
        return cache.find(scope, tokens)
      },
    })
    const [chunk] = chunksOf([PHONE, '+12127365001'])
    const [first, second] = await Promise.all([load(chunk!), load(chunk!)])
    expect(first).toBe(second)
    expect(first.records).toEqual([cachedRecord(), undefined])
    expect(first.rows.canonicals).toEqual([PHONE, '+12127365001'])
    expect(scopes).toEqual([{ tenant: 'org_1.live', service: 'phone-validation', version: '1' }])
  })

  /** Chunks of 10 bytes each, and the numbers of those that were opened. */
  function counted (many: number) {
    const opened: number[] = []
    const chunks = Array.from({ length: many }, (_, number) => {
      const [chunk] = chunksOf([PHONE])
      const rows = () => {
        opened.push(number)
        return chunk!.rows()
      }
      const { raw, ...message } = incoming('rows.normalized', chunk!.value, { rows })
      return { ...message, raw: { ...raw, value: Buffer.alloc(10) } }
    })
    return { opened, chunks }
  }
  const roomFor = (chunks: number) => chunks * (1 + 4 * 10)

  it('drops the first chunks when memory is full, and loads them again', async () => {
    const { opened, chunks } = counted(3)
    const load = createLoader(createCacheDouble(), roomFor(2))
    for (const chunk of chunks) await load(chunk)
    await load(chunks[1]!)
    await load(chunks[2]!)
    expect(opened).toEqual([0, 1, 2])
    expect((await load(chunks[0]!)).rows.canonicals).toEqual([PHONE])
    expect(opened).toEqual([0, 1, 2, 0])
    await load(chunks[2]!)
    await load(chunks[1]!)
    expect(opened).toEqual([0, 1, 2, 0, 1])
  })

  it('prefetches while there is memory, and never fails by it', async () => {
    const { opened, chunks } = counted(3)
    const load = createLoader(createCacheDouble(), roomFor(2))
    for (const chunk of chunks) load.prefetch(chunk)
    await load(chunks[1]!)
    expect(opened).toEqual([0, 1])
    load.forget([chunks[0]!])
    load.prefetch(chunks[2]!)
    await load(chunks[2]!)
    expect(opened).toEqual([0, 1, 2])
    const unreadable = { ...chunks[0]!, rows: () => { throw new Error('no rows') } }
    createLoader(createCacheDouble()).prefetch(unreadable)
  })

  it('releases the chunks of a decided job', async () => {
    let opened = 0
    const [chunk] = chunksOf([PHONE])
    const counted = incoming('rows.normalized', chunk!.value, {
      rows: () => {
        opened += 1
        return chunk!.rows()
      },
    })
    const load = createLoader(createCacheDouble())
    await load(counted)
    await load(counted)
    expect(opened).toBe(1)
    load.forget([counted])
    await load(counted)
    expect(opened).toBe(2)
  })

  it('does not look up a job with forceFresh', async () => {
    const load = createLoader({ find: async () => { throw new Error('unexpected call') } })
    const [chunk] = chunksOf([PHONE], { forceFresh: true })
    expect((await load(chunk!)).records).toEqual([])
  })

  it('rejects unreadable rows, and a row count unlike the envelope', async () => {
    const load = createLoader(createCacheDouble())
    const [chunk] = chunksOf([PHONE])
    const unreadable = incoming('rows.normalized', chunk!.value,
      { rows: () => { throw new Error('no rows') } })
    await expect(load(unreadable)).rejects.toThrow('no rows')
    await expect(load({ ...chunk!, value: { ...chunk!.value, rows: 2 } }))
      .rejects.toThrow('1 inputs, 1 canonical forms, expected 2')
  })

  /** A cache whose lookups the test ends. */
  function slowCache () {
    const ends: ((found: readonly undefined[]) => void)[] = []
    const find = () => new Promise<readonly undefined[]>(resolve => { ends.push(resolve) })
    return { ends, find }
  }

  it('looks up two chunks at a time', async () => {
    const { chunks } = counted(4)
    const { ends, find } = slowCache()
    const load = createLoader({ find })
    const loaded = Promise.all(chunks.map(chunk => load(chunk)))
    for (let turn = 0; turn < 10; turn++) await turnOfLoop()
    expect(ends).toHaveLength(2)
    for (let next = 0; next < 4; next++) {
      ends[next]!([undefined])
      for (let turn = 0; turn < 3; turn++) await turnOfLoop()
    }
    expect(await loaded).toHaveLength(4)
  })

  it('waits for all lookups together if the cache hangs', async () => {
    const { chunks } = counted(6)
    const { ends, find } = slowCache()
    const load = createLoader({ find })
    const loaded = Promise.all(chunks.map(chunk => load(chunk)))
    await eventually(() => expect(ends).toHaveLength(6))
    for (const end of ends) end([undefined])
    expect(await loaded).toHaveLength(6)
  })
})
