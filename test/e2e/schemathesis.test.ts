import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { newFolder } from '../support/folder.ts'
import { runJob, startEnvironment } from '../support/stacks/environment.ts'
import { WORKBOOK_TYPE } from '../../schemas/api/file.ts'
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
const TIMEOUT_MS = 550_000

const folder = newFolder('verification-jobs-schemathesis-')
const python = await installSchemathesis(line => console.log(`schemathesis: ${line}`))
const environment = closeAfterAll(
  await startEnvironment(WIDE_LIMITS, { stages: ['ingest', 'lookup'] }))

type Tried = {
  readonly failures: readonly Failure[]
  readonly unexpected: readonly Failure[]
  /** What the tool prints. */
  readonly output: string
  readonly generated: number
}

/** Runs schemathesis in a folder of its own, as it leaves files where it runs. */
async function schemathesis (
  seed: number, { before = [], after = [], env = {} }: {
    readonly before?: readonly string[]
    readonly after?: readonly string[]
    readonly env?: Readonly<Record<string, string>>
  } = {}
): Promise<Tried> {
  const root = environment.baseUrl.replace('/api/v1', '')
  const report = join(folder, `report-${seed}.ndjson`)
  const parameters = [
    '-c', COMMAND, ...before, 'run', `${root}/openapi.json`, '--checks', 'all', '--no-color',
    '--continue-on-failure', '--report', 'ndjson', '--report-ndjson-path', report,
    '--seed', String(seed), '--header', `Authorization: Bearer ${environment.keys.test}`, ...after,
  ]
  const options = {
    cwd: folder,
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', ...env },
    maxBuffer: 1e8,
    timeout: TIMEOUT_MS,
  }
  // It ends with 1 if there are failures, argued ones too.
  const output = await new Promise<string>(resolve => {
    execFile(python, parameters, options, (_error, stdout, stderr) =>
      resolve(`${stdout}\n${stderr}`))
  })
  const failures = failuresIn(readFileSync(report, 'utf8'))
  const unexpected = failures.filter(failure => !ARGUMENTS.some(it => it.isAbout(failure)))
  if (unexpected.length > 0) console.error(output)
  const [, selected, all] = /Operations: +(\d+) selected \/ (\d+) total/.exec(output) ?? []
  const [, tested] = /Tested: (\d+)/.exec(output) ?? []
  expect([selected, tested]).toEqual([all, all])
  return { failures, unexpected, output, generated: Number(/(\d+) generated/.exec(output)?.[1]) }
}

describe('the service, tried by its own description', () => {
  const claim = 'answers only as described, breaks nowhere, and refuses what it should'
  it.each(SEEDS)(`${claim}: seed %d`, async seed => {
    const { created } = await runJob(environment.test, {
      service: 'phone-validation', inputs: ['+12127365000', '+12127360001', 'call me'],
    })
    const { unexpected, generated } = await schemathesis(seed, {
      before: ['--config-file', `${FILES}/schemathesis.toml`],
      env: { ENDED_JOB: created.id },
    })
    expect(unexpected).toEqual([])
    expect(generated).toBeGreaterThan(400)
    expect(generated).toBeLessThan(4_000)
  }, TIMEOUT_MS)
})

/** A failure that the tool reports: its check, the request by its description, and the answer. */
type Failure = {
  readonly check: string
  readonly operation: string
  readonly media: string
  readonly status: number
  readonly code: string
  readonly param: string
  readonly message: string
}

/** What is read of a line of the report. */
type Line = {
  readonly ScenarioFinished?: {
    readonly recorder: {
      readonly cases: Readonly<Record<string, {
        readonly value: {
          readonly method: string, readonly path: string, readonly media_type?: string,
        }
      }>>
      readonly checks?: Readonly<Record<string, readonly {
        readonly name: string, readonly status: string,
      }[]>>
      readonly interactions: Readonly<Record<string, {
        readonly request: { readonly uri: string }
        readonly response: {
          readonly status_code: number, readonly content?: { readonly $base64: string },
        } | null
      }>>
    }
  }
}

function failuresIn (report: string): readonly Failure[] {
  return report.trim().split('\n').flatMap(line => {
    const { recorder } = (JSON.parse(line) as Line).ScenarioFinished ?? {}
    if (recorder === undefined) return []
    return Object.entries(recorder.checks ?? {}).flatMap(([id, checks]) =>
      checks.filter(({ status }) => status === 'failure').map(({ name }) => {
        const { method, path, media_type: media = '' } = recorder.cases[id]!.value
        const response = recorder.interactions[id]?.response
        const text = Buffer.from(response?.content?.$base64 ?? '', 'base64').toString()
        const { error = {} } = (text.startsWith('{') ? JSON.parse(text) : {}) as
          { readonly error?: Partial<Failure> }
        const { code = '', param = '', message = text.slice(0, 200) } = error
        return {
          check: name,
          operation: `${method} ${path}`,
          media,
          status: response?.status_code ?? 0,
          code,
          param,
          message,
        }
      }))
  })
}

/** What no description can say, so that a request by it is refused, or one against it accepted. */
type Argument = {
  readonly why: string
  readonly isAbout: (failure: Failure) => boolean
  /** Whether every run has such a failure, so that an argument without one is out of date. */
  readonly always?: true
}

const FILE_TYPES = ['text/csv', 'multipart/form-data', WORKBOOK_TYPE]
const TIMES = new Set(['created_from', 'created_to', 'from', 'to'])
const OF_ONE_FORM = new Set([
  'limit', 'cursor', 'after', 'safe', 'delimiter', 'join', 'types', 'provisional', 'columns',
  'duplicates', 'status', 'reason', 'source', 'line_type', 'country',
])

const ARGUMENTS: readonly Argument[] = [
  {
    why: 'A key stands for one request: the examples of two requests have the same one.',
    isAbout: ({ code }) => code === 'idempotency_key_reused',
    always: true,
  },
  {
    why: 'No pattern says which hosts are public, or which characters a host may have.',
    isAbout: ({ code }) => code === 'invalid_webhook_url',
    always: true,
  },
  {
    why: 'No schema compares two parameters, or knows the days of a month.',
    isAbout: ({ code, param }) => code === 'invalid_request' && TIMES.has(param),
  },
  {
    why: 'No schema says that a parameter of a query is for one value of another.',
    isAbout: ({ operation, code, param }) => operation === 'GET /api/v1/jobs/{id}/results' &&
      code === 'invalid_request' && OF_ONE_FORM.has(param),
    always: true,
  },
  {
    why: 'Which options there are depends on the service, its operator and today.',
    isAbout: ({ code, param }) => code === 'invalid_request' && param === 'options',
    always: true,
  },
  {
    why: 'An id of an event is opaque: only one that was received is taken.',
    isAbout: ({ code, param }) => code === 'invalid_request' && param === 'Last-Event-ID',
  },
  {
    why: 'No pattern says which texts are an address, a domain or a number.',
    isAbout: ({ operation, code, param }) => operation.startsWith('POST /api/v1/contact-lists') &&
      code === 'invalid_request' && /^(?:entries|contacts)\[\d+\]$/.test(param),
    always: true,
  },
  {
    why: 'No schema says which texts are a CSV file, or which columns and sheets it has.',
    isAbout: ({ media, code, param }) => FILE_TYPES.includes(media) &&
      (code === 'invalid_file' ||
      (code === 'invalid_request' && ['column', 'sheet'].includes(param))),
    always: true,
  },
  {
    why: 'No description says that one type of the body needs a parameter.',
    isAbout: ({ operation, media, param }) => /jobs|quotes/.test(operation) &&
      media === 'text/csv' && param === 'service',
  },
  {
    why: 'Another type than a text cannot be sent as CSV: its JSON is a text, and may be a file.',
    isAbout: ({ check, media, status }) => check === 'negative_data_rejection' &&
      media === 'text/csv' && status < 300,
    always: true,
  },
  {
    why: 'A body or headers that are too large are refused before they are read.',
    isAbout: ({ check, status }) =>
      check === 'negative_data_rejection' && [413, 431].includes(status),
    always: true,
  },
  {
    why: 'Another request erased the job.',
    isAbout: ({ check, code }) =>
      check === 'positive_data_acceptance' && code === 'results_erased',
  },
  {
    why: 'The counts, times and money of an erased job stay.',
    isAbout: ({ check, operation }) =>
      check === 'use_after_free' && operation.includes('/api/v1/jobs/{id}'),
  },
]

it('the description of the interface, without any help ' +
  'is contradicted by the service only where no description could say more', async () => {
  const [seed = 0] = SEEDS
  const { failures, unexpected, generated } =
    await schemathesis(seed, { after: ['--max-examples', '10'] })
  expect(unexpected).toEqual([])
  const unfounded = ARGUMENTS.filter(({ always, isAbout }) => always && !failures.some(isAbout))
  expect(unfounded).toEqual([])
  expect(generated).toBeGreaterThan(2_000)
}, TIMEOUT_MS)
