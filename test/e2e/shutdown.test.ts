import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { runJob, startEnvironment } from '../support/stacks/environment.ts'

const environment = closeAfterAll(await startEnvironment())

type Line = {
  readonly level: number
  readonly pid: number
  readonly logger?: string
  readonly err?: { readonly at?: readonly string[] }
}

/** The logs of the services by name; shared services may have logged other events. */
function logs (): ReadonlyMap<string, string> {
  const folder = join(environment.services.dataDir, 'logs')
  return new Map(readdirSync(folder).map(name => [name, readFileSync(join(folder, name), 'utf8')]))
}

/**
 * What some processes have logged since above the severity of information. The broker's client
 * speaks up while coordinators move, which is its own affair, and on a busy machine an answer of a
 * store may be late.
 */
function complaints (
  since: ReturnType<typeof logs>, pids: readonly (number | undefined)[]
): readonly Line[] {
  return [...logs()]
    .flatMap(([name, text]) => text.slice(since.get(name)?.length ?? 0).trim().split('\n'))
    .filter(line => line.startsWith('{')).map(line => JSON.parse(line) as Line)
    .filter(({ level, logger, pid }) =>
      level > 30 && logger !== 'kafkajs' && pids.includes(pid))
    .filter(({ err }) => err?.at?.[0]?.startsWith('Timeout.') !== true)
}

it('SIGTERM ' +
  'stops every service in order, without an error, and the next start continues', async () => {
  const request = { service: 'phone-validation', inputs: ['+12127365000'], forceFresh: true }
  expect((await runJob(environment.live, request)).job.status).toBe('completed')
  const before = environment.services.list()
  const since = logs()
  for (const { name } of before) environment.services.kill(name, 'SIGTERM')
  await eventually(() => {
    expect(environment.services.list().map(({ restarts }) => restarts))
      .toEqual(before.map(({ restarts }) => restarts + 1))
  })
  await environment.services.untilReady()
  expect(complaints(since, before.map(({ pid }) => pid))).toEqual([])
  expect((await runJob(environment.live, request)).job.status).toBe('completed')
})
