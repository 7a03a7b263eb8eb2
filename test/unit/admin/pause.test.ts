import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { AdminCommand } from '../../../services/admin/admin-command.ts'
import { createConfirm, type Confirm } from '../../../services/client/terminal.ts'
import { PAUSABLE_STAGES } from '../../../services/topology.ts'
import { withOptionalState, withState } from '../../../services/admin/connections.ts'
import {
  addPause, addResume, createPauses, findEffect, pauseLine,
} from '../../../services/admin/pause.ts'
import type { Environment } from '../../../services/runtime/platform/command-environment.ts'

const folder = mkdtempSync(`${tmpdir()}/ops-pause-`)
afterAll(() => rmSync(folder, { recursive: true }))

/** The used commands of Redis: one hash, and a clock that does not advance. */
function memoryRedis () {
  const fields = new Map<string, string>()
  const redis = {
    time: async () => ['1786449600', '5'],
    hget: async (_: string, field: string) => fields.get(field) ?? null,
    hgetall: async () => Object.fromEntries(fields),
    hdel: async (_: string, field: string) => Number(fields.delete(field)),
    hsetnx: async (_: string, field: string, text: string) => {
      if (fields.has(field)) return 0
      fields.set(field, text)
      return 1
    },
  }
  return { fields, redis: redis as unknown as Parameters<typeof createPauses>[0] }
}

let store = memoryRedis()
beforeEach(() => { store = memoryRedis() })
const open: Parameters<typeof addResume>[2] =
  async (_env, work) => await work(createPauses(store.redis))

/** Returns the output of a command line; questions get the given answer. */
async function outputOf (words: readonly string[], answer?: boolean): Promise<string> {
  const lines: string[] = []
  const silent = { write: () => {} }
  const screen = { print: (line: string) => { lines.push(line) }, terminal: {}, errors: silent }
  const confirm: Confirm = answer === undefined
    ? undefined
    : async question => {
      lines.push(question)
      return answer
    }
  const program = new AdminCommand('admin').option('--json').option('--data <folder>', '', folder)
  addPause(program, screen, { confirm, open })
  addResume(program, screen, open)
  await program.parseAsync(words, { from: 'user' })
  return lines.join('\n')
}

const SINCE = '2026-08-11T12:00:00.000Z'
const PAUSE = ['pause', 'verify', '--by', 'ann', '--reason', 'the vendor is down']

describe('pause and resume', () => {
  it('print what was done and its effect', async () => {
    const text = await outputOf(PAUSE)
    expect(text).toMatch(/^verify is paused\. No further request goes to a provider\. /)
    expect(text).toMatch(/ "npm run admin -- resume verify"\.$/)
    expect(store.fields.get('verify')).toBe(
      JSON.stringify({ since: SINCE, by: 'ann', reason: 'the vendor is down' }))
    expect(await outputOf(['resume', 'verify'])).toBe('verify resumes within about three ' +
      `seconds. It was paused since ${SINCE} by ann: the vendor is down.`)
    expect([...store.fields]).toEqual([])
  })

  it('are idempotent', async () => {
    expect(await outputOf(['resume', 'verify'])).toBe('verify was not paused. Nothing was changed.')
    await outputOf(PAUSE)
    expect(await outputOf(['pause', 'verify', '--by', 'bob'])).toBe(
      `verify was already paused since ${SINCE} by ann: the vendor is down. Nothing was changed.`)
  })

  it('print JSON for scripts', async () => {
    const pause = { stage: 'verify', since: SINCE, by: 'ann', reason: 'the vendor is down' }
    expect(JSON.parse(await outputOf([...PAUSE, '--json'])))
      .toEqual({ ...pause, paused: true, changed: true })
    expect(JSON.parse(await outputOf([...PAUSE, '--json'])).changed).toBe(false)
    expect(JSON.parse(await outputOf(['resume', 'verify', '--json'])))
      .toEqual({ ...pause, paused: false, changed: true })
    expect(JSON.parse(await outputOf(['resume', 'verify', '--json'])))
      .toEqual({ stage: 'verify', paused: false, changed: false })
  })

  it.each(['normalize', 'lookup'])('need confirmation for %s', async stage => {
    await expect(outputOf(['pause', stage])).rejects.toThrow(/503[^]*Add --yes to pause \w+\.$/)
    await expect(outputOf(['pause', stage, '--json'], true)).rejects.toThrow('Add --yes')
    expect(await outputOf(['pause', stage], false))
      .toMatch(/503[^]+\[y\/N\] \nNothing was paused\.$/)
    expect([...store.fields]).toEqual([])
    expect(await outputOf(['pause', stage], true)).toContain(`${stage} is paused. `)
    await outputOf(['resume', stage])
    expect(await outputOf(['pause', stage, '--yes'])).toMatch(new RegExp(`^${stage} is paused`))
  })

  it('reject stages that cannot be paused, with the reason', async () => {
    await expect(outputOf(['pause', 'ledger', '--yes'])).rejects.toThrow('ledger cannot be paused')
    await expect(outputOf(['resume', 'ledger'])).rejects.toThrow('ledger cannot be paused')
    await expect(outputOf(['pause', 'ingest'])).rejects.toThrow('ingest reads no topic')
    await expect(outputOf(['pause', 'verfy'])).rejects.toThrow('Stage verfy does not exist')
    expect([...store.fields]).toEqual([])
  })

  it('describe the effect for each stage', () => {
    expect(PAUSABLE_STAGES.filter(stage => findEffect(stage).description === '')).toEqual([])
  })

  it('format a pause in color, without unknown details', () => {
    const pause = { stage: 'verify', since: SINCE, by: '', reason: '' } as const
    expect(pauseLine(pause, (style, text) => `<${style}>${text}</>`)).toBe(
      `<yellow>verify is paused</> since ${SINCE}. Resume it with ` +
      '"npm run admin -- resume verify".')
  })

  it('do not ask without a terminal', () => {
    const noTerminal = { isTTY: false } as never
    expect(createConfirm({ input: noTerminal, output: noTerminal })).toBeUndefined()
  })
})

describe('the stored pauses', () => {
  it('need REDIS_STATE_URL', async () => {
    await expect(withState({}, async () => 1)).rejects.toThrow(/REDIS_STATE_URL/)
  })

  it('are read in the order of the pipeline, including ones written by hand', async () => {
    const pauses = createPauses(store.redis)
    store.fields.set('deliver', 'by hand').set('strange', '{}').set('feed', '{"by":"ann"}')
    expect(await pauses.read()).toEqual([
      { stage: 'feed', since: '', by: 'ann', reason: '' },
      { stage: 'deliver', since: '', by: '', reason: '' },
    ])
  })

  it('are unknown without REDIS_STATE_URL or while Redis is unavailable', async () => {
    const found = (env: Environment) =>
      withOptionalState(env, read => read(redis => createPauses(redis).read()))
    expect(await found({})).toBeUndefined()
    expect(await found({ REDIS_STATE_URL: 'redis://127.0.0.1:1' })).toBeUndefined()
  })
})
