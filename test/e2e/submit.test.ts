import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parse } from 'csv-parse/sync'
import { describe, expect, it } from 'vitest'
import type { Run } from '../../services/client/run.ts'
import { withWorkspace } from '../../services/admin/deps.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { balanceOf } from '../support/organizations.ts'
import { startProgram } from '../support/stacks/processes.ts'
import { startEnvironment } from '../support/stacks/environment.ts'
import { newFolder } from '../support/folder.ts'

const ROWS = 3_000
const ROWS_PER_JOB = 800

const folder = newFolder('verification-jobs-submit-')
const input = join(folder, 'contacts.csv')
const output = join(folder, 'verified.csv')
const stateFile = `${output}.progress.json`

type RunState = Run['store']['state']

const environment = closeAfterAll(await startEnvironment())
const webhookSecret = await withWorkspace(environment.env,
  parts => parts.webhookSecrets.show(environment.orgId))

/** A program of the clone; its environment says where the service is. */
const start = (program: string, ...words: readonly string[]) => startProgram(program, words, {
  VERIFICATION_JOBS_URL: environment.baseUrl,
  VERIFICATION_JOBS_KEY: environment.keys.live,
  WEBHOOK_SECRET: webhookSecret,
  PORT: '0',
})

const command = (...words: readonly string[]) =>
  start('services/client/verification-jobs', ...words)

const submitting = (...words: readonly string[]) => command('submit', input,
  '--service', 'phone-validation', '--column', 'phone', '--country', 'US', '-o', output, '--yes',
  '--rows-per-job', String(ROWS_PER_JOB), '--parallel', '2', ...words)

const phones = mixedPhones(ROWS, 8_000_000)
const rows = phones.map((phone, row) =>
  [`${row}`, `Müller, "M" ${row}`, phone, row % 7 === 0 ? '' : `two\nlines ${row}`, 'active'])
const quoted = (cell: string) => `"${cell.replaceAll('"', '""')}"`

/** The state of the run, once it is so; the run writes it in one step. */
async function stateWhen (isSo: (state: RunState) => boolean): Promise<RunState> {
  for (;;) {
    if (existsSync(stateFile)) {
      const state = JSON.parse(readFileSync(stateFile, 'utf8')) as RunState
      if (isSo(state)) return state
    }
    await delay(5)
  }
}

describe('the command with a file', () => {
  it('that is killed again and again pays once and joins every line', async () => {
    const lines = [['id', 'name', 'Phone', 'note', 'status'], ...rows]
    writeFileSync(input, lines.map(cells => `${cells.map(quoted).join(',')}\r\n`).join(''))
    const before = await balanceOf(environment.env, environment.orgId)
    const moments: readonly ((state: RunState) => boolean)[] = [
      ({ jobs }) => jobs[0]?.sentAtMs !== undefined,
      ({ jobs }) => jobs[1]?.id !== undefined,
      ({ jobs }) => jobs[0]?.end !== undefined,
      ({ joined }) => joined.jobs > 0,
    ]
    const deaths: unknown[] = []
    for (const moment of moments) {
      const started = submitting()
      await stateWhen(moment)
      started.kill('SIGKILL')
      deaths.push(await started.signal())
    }
    expect(deaths).toEqual(moments.map(() => 'SIGKILL'))
    const { code, out, errors } = await submitting('--json').ended()
    expect([code, errors]).toEqual([0, ''])

    const jobs: { readonly totalRows: number, readonly chargedMicros: number }[] = []
    for await (const job of environment.live.jobs()) jobs.push(job)
    expect(jobs.map(({ totalRows }) => totalRows).toSorted()).toEqual([600, 800, 800, 800])
    const charged = jobs.reduce((sum, { chargedMicros }) => sum + chargedMicros, 0)
    expect(charged).toBeGreaterThan(0)
    expect(JSON.parse(out)).toMatchObject({ rows: ROWS, chargedMicros: charged, completed: true })
    expect(await balanceOf(environment.env, environment.orgId)).toMatchObject({
      availableMicros: before.availableMicros - charged, reservedMicros: 0,
    })
    expect(await environment.breaches()).toEqual([])
    expectJoined(readFileSync(output, 'utf8'))
    expect(existsSync(stateFile) || existsSync(`${output}.part`)).toBe(false)
  })

  it('is ended by Ctrl-C with what to do', async () => {
    const other = join(folder, 'other.csv')
    const { kill, ended } = command('submit', input, '--service', 'carrier-lookup', '-o', other,
      '--yes', '--country', 'US')
    const written = ended()
    while (!existsSync(`${other}.progress.json`)) await delay(5)
    kill('SIGINT')
    const { code, errors } = await written
    expect(code).toBe(130)
    expect(errors).toContain('verification-jobs: Interrupted.')
  })
})

/** Reads the output with a parser of its own and compares it with what went in. */
function expectJoined (csv: string): void {
  const [header = [], ...joined] = parse(csv) as string[][]
  expect(header.slice(0, 8))
    .toEqual(['id', 'name', 'Phone', 'note', 'status', 'verified_phone', 'e164', 'country'])
  expect(joined.map(cells => cells.slice(0, 5))).toEqual(rows)
  const at = (name: string) => header.indexOf(name)
  const statuses = new Set(joined.map(cells => cells[at('verified_status')]))
  expect(statuses).toEqual(new Set(['valid', 'invalid']))
  for (const [row, cells] of joined.entries()) {
    const phone = phones[row] ?? ''
    const e164 = cells[at('e164')]
    if (phone.startsWith('+')) expect(e164).toBe(`+${phone.replace(/\D/g, '')}`)
    const status = cells[at('verified_status')]
    if (phone.startsWith('call')) expect([e164, status]).toEqual(['', 'invalid'])
    const original = cells[at('duplicate_of')] ?? ''
    if (original !== '') expect(joined[Number(original) - 1]?.[at('e164')]).toBe(e164)
  }
}

describe('the examples', () => {
  it('submit.sh creates, waits and downloads', async () => {
    const file = join(folder, 'example.csv')
    const { code, out } = await start('sh', 'deploy/examples/submit.sh', file).ended()
    expect([code, out]).toEqual([0, expect.stringMatching(/^accepted: job_.*\n(status: .*\n)+/)])
    const rows: readonly object[] = parse(readFileSync(file), { columns: true })
    expect(rows).toMatchObject([
      { status: 'valid' }, { duplicate_of: '1' }, { e164: '+442079460958' }, { status: 'invalid' },
    ])
  })

  it('verify-contacts.ts quotes, waits and reads', async () => {
    const example = start(process.execPath, 'deploy/examples/verify-contacts.ts')
    const { code, out } = await example.ended()
    expect(code).toBe(0)
    expect(out).toMatch(/^at most 6000 micros for 3 checks\n/)
    // Of three addresses two are disposable; the third needs the DNS, which is off.
    expect(out).toMatch(/no address +invalid not_an_email\ncompleted: paid 4000 micros\n$/)
  })

  it('webhook-receiver.ts accepts what the service has signed', async () => {
    const { line: next, kill } = start(process.execPath, 'deploy/examples/webhook-receiver.ts')
    const address = /http:\S+/.exec(await next())?.[0] ?? ''
    const forged = await fetch(address, { method: 'POST', body: '{}' })
    expect([forged.status, await next()]).toEqual([400, 'refused: missing_signature'])
    const { id } = await environment.live.createJob({
      service: 'phone-validation', inputs: ['+12127365000'], webhook_url: address,
    })
    expect(await next()).toBe(`job.completed: ${id}, 1 of 1 rows`)
    kill('SIGTERM')
  })
})
