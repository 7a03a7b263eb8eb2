// Verifies a few e-mail addresses with the TypeScript client, and reads the results as they stream:
//   node_modules/.bin/node deploy/examples/verify-contacts.ts
// With the local stack of "npm run up" nothing else is needed; elsewhere set VERIFICATION_JOBS_URL
// (ends in /api/v1) and VERIFICATION_JOBS_KEY.
import { readFileSync } from 'node:fs'
import { ApiError, createClient } from '../../services/client/client.ts'

const { VERIFICATION_JOBS_URL, VERIFICATION_JOBS_KEY, STACK_FILE = '.local/stack.json' } =
  process.env
// Both from one source: no key goes to an address that a file in some folder names.
const [baseUrl, apiKey] = VERIFICATION_JOBS_URL === undefined && VERIFICATION_JOBS_KEY === undefined
  ? localStack()
  : [VERIFICATION_JOBS_URL, VERIFICATION_JOBS_KEY]
if (baseUrl === undefined || apiKey === undefined) {
  throw new Error('Set both VERIFICATION_JOBS_URL and VERIFICATION_JOBS_KEY, or neither.')
}

function localStack (): readonly [baseUrl: string, apiKey: string] {
  const { baseUrl, keys } = JSON.parse(readFileSync(STACK_FILE, 'utf8'))
  return [baseUrl, keys.live]
}

const client = createClient({ baseUrl, apiKey })
const request = {
  service: 'email-validation',
  inputs: ['jane@mailinator.com', 'info@ietf.org', 'jane@gmial.com', 'no address'],
  metadata: { list: 'example' },
}

try {
  const { preflight } = await client.quote(request)
  console.log(`at most ${preflight.maxQuoteMicros} micros for ${preflight.freshChecks} checks`)

  // The client adds an Idempotency-Key and retries requests that are rejected temporarily.
  const { id } = await client.createJob(request)
  const job = await client.waitForEnd(id, {
    onProgress: ({ status, progressPercent }) => console.log(`${status}, ${progressPercent} %`),
  })

  for await (const { input, status, reason } of client.resultLines(id)) {
    console.log(`${String(input).padEnd(22)} ${status} ${reason ?? ''}`)
  }
  console.log(`${job.status}: paid ${job.chargedMicros} micros`)
} catch (error) {
  if (!(error instanceof ApiError)) throw error
  // The code is for programs, the message for people, the request id for support.
  console.error(`${error.code}: ${error.message} (${error.requestId})`)
  process.exitCode = 1
}
