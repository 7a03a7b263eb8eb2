import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'csv-parse/sync'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { CommandError, UsageError } from '../../../services/client/terminal.ts'
import type { RunState, RunStore } from '../../../services/client/run-state.ts'
import type { SubmitDeps, SubmitSettings } from '../../../services/client/run.ts'
import { insufficientBalance } from '../../../services/client/send-jobs.ts'
import {
  interruptRun, priceLines, submitFile, sumPreflights,
} from '../../../services/client/submit.ts'
import { newFolder } from '../../support/folder.ts'
import { createFakeService, type Moment, refusal, verdictOf } from './fake-service.ts'

const folder = newFolder('submit-')
afterAll(() => rmSync(folder, { recursive: true }))

const input = join(folder, 'contacts.csv')
const output = join(folder, 'verified.csv')
const stateFile = `${output}.progress.json`
const HEADER = 'Name;Phone;Status'
const LINES = Array.from({ length: 10 }, (_, row) => `"Name; ${row}";+1212736500${row};x`)

beforeEach(() => {
  for (const file of [output, stateFile, `${output}.part`]) rmSync(file, { force: true })
  writeFileSync(input, `${[HEADER, ...LINES].join('\r\n')}\r\n`)
})

const settings: SubmitSettings = {
  input,
  output,
  service: 'phone-validation',
  forceFresh: false,
  metadata: {},
  guarded: false,
  rowsPerJob: 4,
  parallel: 2,
  restart: false,
  yes: true,
  account: { baseUrl: 'http://there', key: 'abc' },
}

type Service = ReturnType<typeof createFakeService>

function run (service: Service, more: Partial<SubmitSettings> = {}, deps = {}) {
  const messages: string[] = []
  const all: SubmitDeps = {
    client: service.client,
    say: line => { messages.push(line) },
    pause: async () => {},
    pollEveryMs: 0,
    ...deps,
  }
  return { messages, done: submitFile({ ...settings, ...more }, all) }
}

const stateNow = () => JSON.parse(readFileSync(stateFile, 'utf8')) as RunState
const expected = [
  `${HEADER};e164;verified_status;reason;duplicate_of`,
  ...LINES.map((line, row) => {
    const [first] = [0, 4, 8].filter(start => start <= row).slice(-1) as [number]
    const original = row > first ? String(first + 1) : ''
    return `${line};${verdictOf(`+1212736500${row}`)};valid;;${original}`
  }),
].map(line => `${line}\r\n`).join('')

describe('a submitted file', () => {
  it('is copied line by line with the results appended', async () => {
    const service = createFakeService()
    const { messages, done } = run(service, { country: 'US', metadata: { list: 'a' } })
    expect(await done).toEqual({
      output,
      rows: 10,
      byStatus: { valid: 10 },
      chargedMicros: 50,
      releasedMicros: 0,
      jobs: [4, 4, 2].map((rows, index) => ({ id: `job_${index + 1}`, status: 'completed', rows })),
      completed: true,
    })
    expect(readFileSync(output, 'utf8')).toBe(expected)
    expect(existsSync(stateFile) || existsSync(`${output}.part`)).toBe(false)
    expect(service.jobs[0]?.body).toEqual({
      service: 'phone-validation',
      inputs: [0, 1, 2, 3].map(row => `+1212736500${row}`),
      countryCode: 'US',
      forceFresh: false,
      metadata: { list: 'a' },
    })
    expect(messages).toContain('Contact column: Phone.')
    expect(messages).toContain('Maximum price: $0.00005. Balance: $1,000.00 available.')
    expect(messages).toContain('Limitations: the verdict is about the range of the number, not ' +
      'about the number itself.')
  })

  it('gets the selected columns, escaped on request', async () => {
    writeFileSync(input, 'note,phone\n=1+1,+12127365000\n"a\nb",-1\n')
    await run(createFakeService(), { only: 'reason,status', guarded: true, column: 'PHONE' }).done
    expect(parse(readFileSync(output))).toEqual([
      ['note', 'phone', 'reason', 'status'],
      ["'=1+1", '+12127365000', '', 'valid'], ['a\nb', '-1', '', 'valid'],
    ])
  })
})

describe('a clean list', () => {
  const clean = { rowsPerJob: 100, status: ['valid'], dropDuplicates: true }

  it('has the wanted lines of the file only', async () => {
    writeFileSync(input, 'note,phone\na,+12127365000\nb,+12127365000\n')
    const { rows } = await run(createFakeService(), { ...clean, only: 'status' }).done
    expect([rows, readFileSync(output, 'utf8')])
      .toEqual([2, 'note,phone,status\na,+12127365000,valid\n'])
  })

  it('is resumed with the same filters only', async () => {
    const at = (moment: Moment, times: number) =>
      moment === 'wait' && times === 1 ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service, clean).done).rejects.toThrow(Killed)
    service.change({})
    await expect(run(service, { ...clean, dropDuplicates: false }).done).rejects
      .toThrow('--drop-duplicates was given and is not given')
    await run(service, clean).done
    expect(readFileSync(output, 'utf8').split('\r\n')[0]).toContain('status')
  })
})

class Killed extends Error {}

const kills: readonly (readonly [Moment | 'rename', number])[] = [
  ['quote', 2], ['POST', 1], ['POST', 2], ['after POST', 1], ['after POST', 3], ['wait', 1],
  ['wait', 4], ['download', 1], ['download', 3], ['rename', 1],
]

describe('an interrupted submit run', () => {
  it.each(kills)('at %s number %i resumes with one job per range of rows', async (name, number) => {
    const kill = (moment: Moment, times: number) =>
      moment === name && times === number ? new Killed() : undefined
    const service = createFakeService({ at: kill })
    const rename = (action: () => void) => {
      if (name === 'rename') throw new Killed()
      action()
    }
    await expect(run(service, {}, { rename }).done).rejects.toThrow(Killed)
    expect(existsSync(output)).toBe(false)
    service.change({})
    const { completed, chargedMicros } = await run(service).done
    expect([completed, chargedMicros]).toEqual([true, 50])
    expect(service.jobs.map(({ inputs }) => inputs.length)).toEqual([4, 4, 2])
    expect(readFileSync(output, 'utf8')).toBe(expected)
    expect(existsSync(stateFile)).toBe(false)
  })

  it('after the rename of the output only removes its state', async () => {
    const service = createFakeService()
    const rename = (action: () => void) => {
      action()
      throw new Killed()
    }
    await expect(run(service, {}, { rename }).done).rejects.toThrow(Killed)
    const before = service.requests.length
    expect(await run(service).done).toMatchObject({ rows: 10, byStatus: { valid: 10 } })
    expect(service.requests.length).toBe(before)
    expect(existsSync(stateFile)).toBe(false)
  })

  it('has stored its keys privately before it sent anything', async () => {
    const at = (moment: Moment) => {
      if (moment !== 'POST') return undefined
      expect(stateNow().jobs[0])
        .toMatchObject({ sentAtMs: expect.any(Number), confirmedMicros: 20 })
      expect(statSync(stateFile).mode & 0o777).toBe(0o600)
      return new Killed()
    }
    const service = createFakeService({ at })
    await expect(run(service).done).rejects.toThrow(Killed)
    const key = stateNow().jobs[0]?.idempotencyKey
    service.change({})
    await run(service).done
    expect(service.jobs[0]?.key).toBe(key)
  })

  it('joins all jobs again when the unfinished output was removed', async () => {
    const at = (moment: Moment, times: number) =>
      moment === 'download' && times === 2 ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service).done).rejects.toThrow(Killed)
    expect(stateNow().joined.jobs).toBe(1)
    rmSync(`${output}.part`)
    service.change({})
    expect((await run(service).done).byStatus).toEqual({ valid: 10 })
    expect(readFileSync(output, 'utf8')).toBe(expected)
  })

  it('does not resume with another file, other options or the key of another tenant', async () => {
    const at = (moment: Moment, times: number) =>
      moment === 'wait' && times === 1 ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service, { parallel: 1 }).done).rejects.toThrow(Killed)
    service.change({})
    await expect(run(service, { service: 'email-validation', country: 'DE' }).done).rejects
      .toThrow('--service was phone-validation and is email-validation; --country was not given ' +
        'and is DE. To resume, run the original command on the original file; or start over with ' +
        '--restart')
    const otherService = createFakeService()
    const account = { baseUrl: 'http://there', key: 'other' }
    await expect(run(otherService, { account }).done).rejects
      .toThrow('this key cannot read its job job_1')
    writeFileSync(input, 'phone\n1\n')
    await expect(run(service).done).rejects
      .toThrow('The input is not the file of the unfinished run')
    expect(service.jobs).toHaveLength(1)
    writeFileSync(input, `${[HEADER, ...LINES].join('\r\n')}\r\n`)
    await run(service, { account }).done
    expect(readFileSync(output, 'utf8')).toBe(expected)
  })

  it('starts over with --restart', async () => {
    const at = (moment: Moment, times: number) =>
      moment === 'wait' && times === 1 ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service, { parallel: 1 }).done).rejects.toThrow(Killed)
    service.change({})
    const { messages, done } = run(service, { restart: true, rowsPerJob: 100 })
    expect((await done).jobs.map(({ id }) => id)).toEqual(['job_2'])
    expect(messages).toContain('Jobs of the earlier run continue and will be charged: job_1')
  })

  it('does not repeat a request whose key the service may have expired', async () => {
    const at = (moment: Moment) => moment === 'after POST' ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service).done).rejects.toThrow(Killed)
    service.change({})
    const now = () => Date.now() + 24 * 3_600_000
    await expect(run(service, {}, { now }).done).rejects
      .toThrow('rows 1 to 4 was sent 24 h 0 min ago and its response was lost')
    expect(service.jobs).toHaveLength(1)
    await run(service).done
    expect(service.jobs).toHaveLength(3)
  })

  it('reports the jobs that continue', async () => {
    let store: RunStore | undefined
    const at = (moment: Moment) => moment === 'wait' ? new Killed() : undefined
    const deps = { onRun: (given: RunStore) => { store = given } }
    await expect(run(createFakeService({ at }), {}, deps).done).rejects.toThrow(Killed)
    expect(interruptRun(settings)).toBe('Interrupted. No job was sent, nothing will be charged.')
    expect(existsSync(stateFile)).toBe(true)
    expect(interruptRun(settings, store).split('\n')).toEqual([
      'Interrupted. Run the same command again to resume; nothing is paid twice.',
      `The state of the run is in ${stateFile}.`,
      'These jobs continue and will be charged: job_1, job_2. "verification-jobs cancel JOB" ' +
        'cancels one.',
    ])
  })
})

describe('the maximum price of a submission', () => {
  const prompt = (answer: boolean) => {
    const questions: string[] = []
    const confirm = async (question: string) => {
      questions.push(question)
      return answer
    }
    return { questions, confirm }
  }

  it('is confirmed once, before anything is sent', async () => {
    const { questions, confirm } = prompt(true)
    const at = (moment: Moment, times: number) =>
      moment === 'POST' && times === 2 ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service, { yes: false }, { confirm }).done).rejects.toThrow(Killed)
    expect(questions).toEqual(['Verify for at most $0.00005? [y/N] '])
    service.change({})
    await run(service, { yes: false }, { confirm }).done
    expect(questions).toHaveLength(1)
  })

  it('is confirmed again when it has risen', async () => {
    const { questions, confirm } = prompt(true)
    const at = (moment: Moment, times: number) =>
      moment === 'POST' && times === 2 ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service, { yes: false, parallel: 1 }, { confirm }).done).rejects
      .toThrow(Killed)
    service.change({ priceMicros: 7 })
    await run(service, { yes: false }, { confirm }).done
    expect(questions[1]).toBe('Verify for at most $0.000014? [y/N] ')
  })

  it('leaves no state behind when the user declines it', async () => {
    const service = createFakeService()
    await expect(run(service, { yes: false }, { confirm: prompt(false).confirm }).done).rejects
      .toThrow(new CommandError('You declined the price. No further job was sent or charged.'))
    expect([service.jobs, existsSync(stateFile)]).toEqual([[], false])
  })

  it('needs --yes without a terminal', async () => {
    await expect(run(createFakeService(), { yes: false }).done).rejects.toThrow(UsageError)
  })

  it('above the balance is an error with the missing amount', async () => {
    const service = createFakeService({ availableMicros: 20 })
    await expect(run(service).done).rejects.toThrow('402 insufficient_balance: the maximum price ' +
      'is $0.00005, the available balance $0.00002. Top up at least $0.00003')
    const later = createFakeService({
      at: (moment, times) => moment === 'POST' && times === 2
        ? refusal(402, {
          code: 'insufficient_balance', message: 'm', requiredMicros: 20, availableMicros: 1,
        })
        : undefined,
    })
    await expect(run(later).done).rejects.toThrow('Top up at least $0.000019')
    later.change({})
    await run(later, {}, { now: () => Date.now() + 48 * 3_600_000 }).done
    expect(later.jobs).toHaveLength(3)
  })
})

describe('a failed submission', () => {
  it('is retried after temporary errors', async () => {
    const refused = refusal(429, { code: 'concurrent_jobs_limit', message: 'm' })
    const service = createFakeService({
      at: (moment, times) => {
        if (moment === 'POST' && times < 3) return refused.clone()
        if (moment === 'after POST' && times === 1) return new TypeError('fetch failed')
        if (moment === 'wait' && times === 2) return refusal(503, { code: 'c', message: 'm' })
        return moment === 'download' && times === 2 ? new TypeError('terminated') : undefined
      },
    })
    const { messages, done } = run(service)
    expect((await done).completed).toBe(true)
    expect(service.jobs).toHaveLength(3)
    expect(readFileSync(output, 'utf8')).toBe(expected)
    expect(messages.filter(line => line.includes('waiting for one to end'))).toHaveLength(1)
  })

  it('of a job is reported in the summary', async () => {
    const summary = await run(createFakeService({ endAs: 'cancelled' })).done
    expect([summary.completed, summary.jobs[0]?.status]).toEqual([false, 'cancelled'])
    expect(readFileSync(output, 'utf8')).toBe(expected)
  })

  it.each<[string, Partial<SubmitSettings>, string]>([
    ['an existing output', { output: input.replace('contacts', 'other') }, 'already exists'],
    ['the input as output', { output: input }, 'is the input file'],
    ['a forbidden service', { service: 'whatsapp' }, 'may not use the service whatsapp'],
    ['an unknown contact column', { column: 'Tel' }, 'The columns are: Name, Phone, Status.'],
    ['an unknown result column', { only: 'status,color' }, 'there is no color'],
    ['a missing file', { input: join(folder, 'none.csv') }, 'does not exist'],
    ['a folder', { input: folder }, 'is not a regular file'],
  ])('because of %s sends nothing', async (...[, more, why]) => {
    writeFileSync(join(folder, 'other.csv'), 'here')
    const service = createFakeService()
    await expect(run(service, more).done).rejects.toThrow(why)
    expect(service.jobs).toEqual([])
  })

  it('is reported when the file changes during the run', async () => {
    const at = (moment: Moment, times: number) => {
      if (moment !== 'download' || times > 1) return undefined
      writeFileSync(input, readFileSync(input, 'utf8').replaceAll('65', '66'))
      return undefined
    }
    await expect(run(createFakeService({ at })).done).rejects.toThrow('has changed during the run')
  })
})

describe('the quote of a submission', () => {
  const preflight = {
    totalRows: 1_500,
    invalidRows: 100,
    duplicateRows: 200,
    cacheHits: 300,
    freshChecks: 900,
    maxQuoteMicros: 2_400_000,
  }

  it('shows the sum of all jobs', () => {
    const total = sumPreflights([preflight, preflight])
    expect(priceLines(total, { jobs: 2, availableMicros: 7_000_000 }))
      .toEqual([
        '3,000 rows in 2 jobs:',
        '  invalid                      200  free',
        '  duplicates                   400  free',
        '  cached                       600  free while cached',
        '  to verify                  1,800  charged for a verdict',
        'Maximum price: $4.80. Balance: $7.00 available.',
      ])
  })

  it('above the balance states the missing amount', () => {
    expect(insufficientBalance(5_000_000, 4_999_999).message).toBe('402 insufficient_balance: ' +
      'the maximum price is $5.00, the available balance $4.999999. Top up at least $0.000001 ' +
      'and run the same command again.')
  })
})
