import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { priceLines, shortOf, sumOf } from '../../../services/client/agree.ts'
import { ApiError } from '../../../services/client/api-error.ts'
import { ownHolder, runsElsewhere } from '../../../services/client/holder.ts'
import { isLostConnection, patiently } from '../../../services/client/patience.ts'
import { writePrivately } from '../../../services/client/private-file.ts'
import { newState, openRunStore, readState } from '../../../services/client/run-state.ts'
import { newFolder } from '../../support/folder.ts'

const folder = newFolder('run-')
afterAll(() => rmSync(folder, { recursive: true }))
const stateFile = join(folder, 'state.json')

const slice = { firstRow: 0, rows: 2, from: 5, to: 9 }
const state = () => newState({
  file: {
    bytes: 9, digest: 'd', encoding: 'utf-8', dialect: { delimiter: ',', ends: 'lf', startByte: 0 },
  },
  options: { '--service': 'whatsapp' },
  account: { baseUrl: 'http://there', key: 'k' },
}, {
  column: 0,
  width: 1,
  rows: 4,
  header: { from: 0, to: 5 },
  lineEnd: '\n',
  slices: [slice, { ...slice, firstRow: 2 }],
})

describe('the state of a run', () => {
  it('is written with every change and read again', () => {
    const initial = state()
    const store = openRunStore(stateFile, initial)
    expect(readState(stateFile)).toEqual(initial)
    expect(initial.parts[0]).toMatchObject({
      ...slice, idempotencyKey: expect.stringMatching(/^[0-9a-f-]{14}4/),
    })
    expect(initial.parts[0]?.idempotencyKey).not.toBe(initial.parts[1]?.idempotencyKey)
    store.updatePart(1, { sentAtMs: 17 })
    store.update({ joined: { ...initial.joined, parts: 1 } })
    const read = readState(stateFile)
    expect([read?.parts.map(({ sentAtMs }) => sentAtMs), read?.joined.parts])
      .toEqual([[undefined, 17], 1])
    expect(read).toEqual(store.state())
    store.remove()
    expect(readState(stateFile)).toBeUndefined()
  })

  it('of another release or half a file is not understood', () => {
    for (const text of ['{"version":2}', '{"ver']) {
      writeFileSync(stateFile, text)
      expect(() => readState(stateFile)).toThrow('or begin anew with --restart')
    }
    rmSync(stateFile)
  })

  it('is not taken up while its process lives', async () => {
    const other = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60000); console.log(1)'])
    await once(other.stdout, 'data')
    const first = state()
    const holder = { pid: other.pid ?? 0, started: started(other.pid ?? 0) }
    writePrivately(stateFile, JSON.stringify({ ...first, holder }))
    expect(() => openRunStore(stateFile, { ...first, holder })).toThrow(`Process ${other.pid} is`)
    expect(runsElsewhere({ ...holder, started: 'before the machine was restarted' })).toBe(false)
    other.kill('SIGKILL')
    await once(other, 'exit')
    const store = openRunStore(stateFile, { ...first, holder })
    expect(store.state().holder).toEqual(ownHolder())
    expect(runsElsewhere(ownHolder())).toBe(false)
    store.remove()
  })
})

/** As another run would have noted it. */
function started (pid: number): string {
  const real = process.pid
  Object.defineProperty(process, 'pid', { value: pid })
  try {
    return ownHolder().started
  } finally {
    Object.defineProperty(process, 'pid', { value: real })
  }
}

describe('a private file', () => {
  it('is its owner\'s, and replaced in one step', () => {
    const file = join(folder, 'private')
    writePrivately(file, 'long before')
    writePrivately(file, 'now')
    expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual(['now', 0o600])
    expect(existsSync(`${file}.new`)).toBe(false)
  })
})

describe('patience', () => {
  const refusal = (status: number, code: string) =>
    new ApiError(new Response(null, { status }), JSON.stringify({ error: { code, message: 'm' } }))

  async function tried (error: unknown, times: number) {
    const said: string[] = []
    let nowMs = 0
    let tries = 0
    const action = async () => {
      if (++tries > times) return 'done'
      throw error
    }
    const outcome = await patiently(action, {
      say: line => { said.push(line) },
      now: () => nowMs,
      pause: async ms => { nowMs += ms },
    }).catch((failure: unknown) => failure)
    return { outcome, said, tries, nowMs }
  }

  it('waits longer each time, and says why once', async () => {
    const { outcome, said, nowMs } = await tried(refusal(503, 'temporarily_unavailable'), 6)
    expect([outcome, nowMs]).toEqual(['done', 1_000 + 2_000 + 4_000 + 8_000 + 15_000 + 15_000])
    expect(said)
      .toEqual(['The service cannot serve this now (503 temporarily_unavailable); trying again.'])
    expect((await tried(new TypeError('fetch failed'), 1)).said)
      .toEqual(['The service does not answer; trying again.'])
  })

  it('ends after 15 minutes, and after 12 hours without a place for a job', async () => {
    const away = refusal(503, 'c')
    expect(await tried(away, Infinity)).toMatchObject({ outcome: away, nowMs: 900_000 })
    const full = refusal(429, 'concurrent_jobs_limit')
    expect(await tried(full, Infinity)).toMatchObject({ outcome: full, nowMs: 43_200_000 })
  })

  it.each([refusal(404, 'c'), refusal(500, 'c'), new TypeError('x is not a function')])(
    'is not for %s', async error => {
      expect(await tried(error, Infinity)).toMatchObject({ outcome: error, tries: 1, said: [] })
      expect(isLostConnection(error)).toBe(false)
    })
})

describe('what is agreed to', () => {
  const preflight = {
    totalRows: 1_500,
    invalidRows: 100,
    duplicateRows: 200,
    cacheHits: 300,
    freshChecks: 900,
    maxQuoteMicros: 2_400_000,
  }

  it('is the sum of all jobs', () => {
    expect(priceLines(sumOf([preflight, preflight]), { jobs: 2, availableMicros: 7_000_000 }))
      .toEqual([
        '3,000 rows in 2 jobs:',
        '  invalid                      200  free',
        '  duplicates                   400  free',
        '  known already                600  free while still known',
        '  to be checked              1,800  paid when there is a verdict',
        'Maximum price: $4.80. Balance: $7.00 available.',
      ])
  })

  it('cannot be more than there is', () => {
    expect(shortOf(5_000_000, 4_999_999).message).toBe('402 insufficient_balance: the maximum ' +
      'price is $5.00 and $4.999999 is available; $0.000001 is missing. Top the balance up and ' +
      'run the same command again.')
  })
})
