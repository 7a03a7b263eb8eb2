import { Command } from 'commander'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { createConfirm as askOn, type Confirm as Ask } from '../../../../services/client/terminal.ts'
import { PAUSABLE_STAGES } from '../../../../services/lib/pausable.ts'
import { addPause, addResume } from '../../../../services/ops/pause/command.ts'
import { effectOf } from '../../../../services/ops/pause/effects.ts'
import { besidePauses, createPauses, withPauses } from '../../../../services/ops/pause/pauses.ts'
import { pauseLine } from '../../../../services/ops/pause/text.ts'
import { withState } from '../../../../services/ops/state.ts'

const folder = mkdtempSync(`${tmpdir()}/ops-pause-`)
afterAll(() => rmSync(folder, { recursive: true }))

/** As much of Redis as is used: one hash, and a clock that stands still. */
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
const open: typeof withPauses = async (_env, work) => await work(createPauses(store.redis))

/** What a command line shows; questions get the answer that is given. */
async function shown (words: readonly string[], answer?: boolean): Promise<string> {
  const lines: string[] = []
  const silent = { write: () => {} }
  const screen = { print: (line: string) => { lines.push(line) }, terminal: silent, errors: silent }
  const ask: Ask = answer === undefined
    ? undefined
    : async question => {
      lines.push(question)
      return answer
    }
  const program = new Command('ops').option('--json').option('--data <folder>', '', folder)
  addPause(program, screen, { ask, open })
  addResume(program, screen, open)
  await program.parseAsync(words, { from: 'user' })
  return lines.join('\n')
}

const SINCE = '2026-08-11T12:00:00.000Z'
const PAUSE = ['pause', 'verify', '--by', 'ann', '--reason', 'the vendor is down']

describe('pause and resume', () => {
  it('say what was done, and what it means', async () => {
    const text = await shown(PAUSE)
    expect(text).toMatch(/^verify is paused\. Nothing further is asked of a provider\. /)
    expect(text).toMatch(/ "npm run ops -- resume verify"\.$/)
    expect(store.fields.get('verify')).toBe(
      JSON.stringify({ since: SINCE, by: 'ann', reason: 'the vendor is down' }))
    expect(await shown(['resume', 'verify'])).toBe('verify goes on, within about three seconds. ' +
      `It was paused since ${SINCE} by ann: the vendor is down.`)
    expect([...store.fields]).toEqual([])
  })

  it('change nothing that is so already', async () => {
    expect(await shown(['resume', 'verify'])).toBe('verify was not paused. Nothing was changed.')
    await shown(PAUSE)
    expect(await shown(['pause', 'verify', '--by', 'bob'])).toBe(
      `verify was paused already since ${SINCE} by ann: the vendor is down. Nothing was changed.`)
  })

  it('answer scripts', async () => {
    const pause = { stage: 'verify', since: SINCE, by: 'ann', reason: 'the vendor is down' }
    expect(JSON.parse(await shown([...PAUSE, '--json'])))
      .toEqual({ ...pause, paused: true, changed: true })
    expect(JSON.parse(await shown([...PAUSE, '--json'])).changed).toBe(false)
    expect(JSON.parse(await shown(['resume', 'verify', '--json'])))
      .toEqual({ ...pause, paused: false, changed: true })
    expect(JSON.parse(await shown(['resume', 'verify', '--json'])))
      .toEqual({ stage: 'verify', paused: false, changed: false })
  })

  it.each(['normalize', 'lookup'])('of %s is asked for twice', async stage => {
    await expect(shown(['pause', stage])).rejects.toThrow(/503[^]*Add --yes to do it\.$/)
    await expect(shown(['pause', stage, '--json'], true)).rejects.toThrow('Add --yes')
    expect(await shown(['pause', stage], false))
      .toMatch(/503[^]+\[y\/N\] \nNothing was paused\.$/)
    expect([...store.fields]).toEqual([])
    expect(await shown(['pause', stage], true)).toContain(`${stage} is paused. `)
    await shown(['resume', stage])
    expect(await shown(['pause', stage, '--yes'])).toMatch(new RegExp(`^${stage} is paused`))
  })

  it('refuse what cannot be paused, with the reason', async () => {
    await expect(shown(['pause', 'ledger', '--yes'])).rejects.toThrow('ledger is never paused')
    await expect(shown(['resume', 'ledger'])).rejects.toThrow('ledger is never paused')
    await expect(shown(['pause', 'ingest'])).rejects.toThrow('ingest reads no topic')
    await expect(shown(['pause', 'verfy'])).rejects.toThrow('There is no stage verfy')
    expect([...store.fields]).toEqual([])
  })

  it('know what each pause means', () => {
    expect(PAUSABLE_STAGES.filter(stage => effectOf(stage).means === '')).toEqual([])
  })

  it('are told in colour, with no more than is known', () => {
    const pause = { stage: 'verify', since: SINCE, by: '', reason: '' } as const
    expect(pauseLine(pause, (style, text) => `<${style}>${text}</>`)).toBe(
      `<yellow>verify is paused</> since ${SINCE}. It goes on by "npm run ops -- resume verify".`)
  })

  it('ask nobody who is not there', () => {
    const away = { isTTY: false } as never
    expect(askOn({ input: away, output: away })).toBeUndefined()
  })
})

describe('pauses', () => {
  it('say which setting is missing when nothing tells where they are kept', async () => {
    await expect(withState({}, async () => 1)).rejects.toThrow(/REDIS_STATE_URL/)
  })

  it('are read in the order of the pipeline, however they were written', async () => {
    const pauses = createPauses(store.redis)
    store.fields.set('deliver', 'by hand').set('strange', '{}').set('feed', '{"by":"ann"}')
    expect(await pauses.read()).toEqual([
      { stage: 'feed', since: '', by: 'ann', reason: '' },
      { stage: 'deliver', since: '', by: '', reason: '' },
    ])
  })

  it('are not told where Redis is not named, or does not answer', async () => {
    expect(await besidePauses({}, read => read())).toBeUndefined()
    expect(await besidePauses({ REDIS_STATE_URL: 'redis://127.0.0.1:1' }, read => read()))
      .toBeUndefined()
  })
})
