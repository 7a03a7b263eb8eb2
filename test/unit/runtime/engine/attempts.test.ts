import { beforeEach, describe, expect, it } from 'vitest'
import { createAttempts } from '../../../../services/runtime/engine/dead-letters.ts'

const partition = { group: 'verify.bulk', topic: 'rows.live', partition: 3 }
const texts = new Map<string, string>()
const store = {
  read: async (name: string) => texts.get(name),
  write: async (name: string, text: string) => { texts.set(name, text) },
  remove: async (name: string) => { texts.delete(name) },
}
const warnings: unknown[] = []
const log = { warn: (about: unknown) => { warnings.push(about) } } as unknown as
  Parameters<typeof createAttempts>[0]['log']
let started = 0
let hasFailed = false
beforeEach(() => {
  texts.clear()
  warnings.length = 0
  hasFailed = false
})

/** Starts a process, which dies without a word unless `stop` is called. */
function startProcess (using: typeof store = store) {
  const owner = String(started++)
  const attempts = createAttempts({ store: using, process: owner, hasFailed: () => hasFailed, log })
  const controller = new AbortController()
  const begin = (offset: bigint) => attempts.begin(partition, offset, controller.signal)
  const stop = async () => {
    controller.abort()
    await attempts.settled()
  }
  return { begin, stop }
}

describe('the attempts at a partition', () => {
  it('begin again after progress, and after a process that gave the partition up', async () => {
    for (const offset of [7n, 7n, 8n, 8n]) {
      expect((await startProcess().begin(offset)).isCareful()).toBe(false)
    }
    const stopped = startProcess()
    await stopped.begin(8n)
    await stopped.stop()
    expect([...texts]).toEqual([])
    expect((await startProcess().begin(8n)).isCareful()).toBe(false)
  })

  it('count a process that stops because it failed', async () => {
    hasFailed = true
    for (let start = 0; start < 2; start++) {
      const failed = startProcess()
      await failed.begin(7n)
      await failed.stop()
    }
    expect((await startProcess().begin(7n)).isCareful()).toBe(true)
  })

  it('end their care after 100 messages, and twice as many after each further start', async () => {
    for (const expected of [0, 0, 100, 200, 400]) {
      const attempts = await startProcess().begin(7n)
      let count = 0
      while (attempts.isCareful()) {
        await attempts.decideAlone({ offset: BigInt(7 + count) }, async () => {})
        count += 1
      }
      expect(count).toBe(expected)
    }
  })

  it('are not those of a process that has taken the partition over', async () => {
    const former = startProcess()
    await former.begin(7n)
    await startProcess().begin(7n)
    await former.stop()
    expect((await startProcess().begin(7n)).isCareful()).toBe(true)
  })

  it('are not counted without the store', async () => {
    const fail = async () => { throw new Error('no connection') }
    const failing = { read: fail, write: fail, remove: fail }
    for (let start = 0; start < 4; start++) {
      expect((await startProcess(failing).begin(7n)).isCareful()).toBe(false)
    }
    expect(warnings).toHaveLength(8)
  })
})
