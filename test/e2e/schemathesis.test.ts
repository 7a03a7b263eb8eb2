import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runJob, startEnvironment, type Environment } from '../support/stacks/environment.ts'
import { installSchemathesis } from './schemathesis/install.ts'

/** So many requests in a minute are no client's, so the limits are out of the way. */
const WIDE_LIMITS = {
  LIMIT_POST_BURST: '100000',
  LIMIT_POST_SUSTAINED: '100000',
  LIMIT_GET: '100000',
  MAX_ACTIVE_JOBS: '10000',
}
const FILES = `${import.meta.dirname}/schemathesis`
const COMMAND = 'from schemathesis.cli import schemathesis; schemathesis()'
/** Some 500 requests each, the same each time. */
const SEEDS = Array.from({ length: Number(process.env['SCHEMATHESIS_SEEDS'] ?? 1) },
  (_, index) => 20_260_811 + index)
/** Of a busy machine. */
const TIMEOUT_MS = 400_000

let environment: Environment
let python: string
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(`${tmpdir()}/verification-jobs-schemathesis-`)
  python = await installSchemathesis(line => console.log(`schemathesis: ${line}`))
  environment = await startEnvironment(WIDE_LIMITS, { stages: ['ingest', 'lookup'] })
})
afterAll(async () => {
  await environment?.stop()
  rmSync(folder, { recursive: true, force: true })
})

type Tried = { readonly code: unknown, readonly report: string }

/** Runs schemathesis in a folder of its own, as it leaves files where it runs; its report. */
function tryAll (endedJob: string, seed: number): Promise<Tried> {
  const root = environment.baseUrl.replace('/api/v1', '')
  const parameters = [
    '-c', COMMAND, '--config-file', `${FILES}/schemathesis.toml`, 'run', `${root}/openapi.json`,
    '--checks', 'all', '--seed', String(seed),
    '--header', `Authorization: Bearer ${environment.keys.test}`, '--no-color',
  ]
  const env = {
    ...process.env,
    ENDED_JOB: endedJob,
    SCHEMATHESIS_HOOKS: `${FILES}/hooks.py`,
    PYTHONDONTWRITEBYTECODE: '1',
  }
  const options = { cwd: folder, env, maxBuffer: 1e8, timeout: TIMEOUT_MS }
  return new Promise(resolve => {
    execFile(python, parameters, options, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, report: `${stdout}\n${stderr}` }))
  })
}

describe('the service, tried by its own description', () => {
  const claim = 'answers only as described, breaks nowhere, and refuses what it should'
  it.each(SEEDS)(`${claim}: seed %d`, async seed => {
    const { created } = await runJob(environment.test, {
      service: 'phone-validation', inputs: ['+12127365000', '+12127360001', 'call me'],
    })
    const { code, report } = await tryAll(created.id, seed)
    if (code !== 0) console.error(report)
    expect(code).toBe(0)
    const [, selected, all] = /Selected: (\d+)\/(\d+)/.exec(report) ?? []
    const [, tested] = /Tested: (\d+)/.exec(report) ?? []
    expect([selected, tested]).toEqual([all, all])
    const [, generated, passed] = /(\d+) generated, (\d+) passed/.exec(report) ?? []
    expect(passed).toBe(generated)
    expect(Number(generated)).toBeGreaterThan(400)
    expect(Number(generated)).toBeLessThan(2_000)
  })
})
