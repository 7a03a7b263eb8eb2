import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { FAILPOINTS } from '../../../../services/runtime/platform/failpoint.ts'
import { ENGINE_STEPS, STAGES } from '../../../../services/topology.ts'
import { instanceOf } from '../../../faults/scenarios/failpoints.ts'
import { newFolder } from '../../../support/folder.ts'
import { sources } from '../../../support/sources.ts'

/** Those that are not before a step of the engine. */
const NAMED = FAILPOINTS.filter(name => !ENGINE_STEPS.some(step => name.endsWith(`.${step}`)))

describe('the list of failpoints', () => {
  it('names each call in the services, once', () => {
    const calls = sources().filter(({ path }) => path.startsWith('services/'))
      .flatMap(({ text }) => [...text.matchAll(/\bfailpoint\('([a-z.]+)'\)/g)])
      .map(([, name]) => name)
    expect(calls.toSorted()).toEqual(NAMED.toSorted())
  })

  it('has none that the fault suite cannot place in a process', () => {
    const processes = STAGES.map(stage => `${stage}-1`)
    expect(FAILPOINTS.filter(point => !processes.includes(instanceOf(point)))).toEqual([])
  })
})

/** Imported by the process that passes failpoints. */
const module = new URL('../../../../services/runtime/platform/failpoint.ts', import.meta.url).href
const folder = newFolder('failpoints-')

/**
 * Passes failpoints in a process, which reports how it was blocked; a word `file=<plan>` writes the
 * plan to the file.
 */
async function pass (words: readonly string[], env: Readonly<Record<string, string>>) {
  const program = `
    import { writeFileSync } from 'node:fs'
    import { failpoint } from '${module}'
    const { wait } = Atomics
    Atomics.wait = (...args) => console.log('blocked for', args[3], 'ms:', wait(...args))
    for (const word of ${JSON.stringify(words)}) {
      if (word.startsWith('file=')) writeFileSync('${folder}/plan', word.slice(5))
      else failpoint(word)
      console.log(word)
    }`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    env: { ALLOW_FAILPOINTS: 'true', ...env }, stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [output, errors] = [text(child.stdout), text(child.stderr)]
  const [, signal] = await once(child, 'exit') as [number | null, string | null]
  return { passed: (await output).split('\n').filter(Boolean), signal, errors: await errors }
}

describe('a failpoint', () => {
  const all = ['settle.stored', 'settle.tallied', 'settle.stored', 'verify.decide']

  it.each([
    ['does nothing without a setting', {}, all, null],
    ['does nothing with an empty setting', { FAILPOINTS: '' }, all, null],
    ['kills at the configured call', { FAILPOINTS: 'settle.stored:kill@2' }, all.slice(0, 2),
      'SIGKILL'],
    ['blocks for the configured time',
      { FAILPOINTS: 'verify.kept:kill@9, verify.decide:block=40@1' },
      [...all.slice(0, 3), 'blocked for 40 ms: timed-out', 'verify.decide'], null],
  ])('%s', async (_, env, passed, signal) => {
    expect(await pass(all, env)).toMatchObject({ passed, signal })
  })

  it('is armed by a file, which is emptied before the kill', async () => {
    const plan = 'file=verify.kept:kill@1'
    const { passed, signal } =
      await pass(['verify.kept', plan, 'verify.kept'], { FAILPOINTS: `@${folder}/plan` })
    expect([passed, signal]).toEqual([['verify.kept', plan], 'SIGKILL'])
    expect(readFileSync(`${folder}/plan`, 'utf8')).toBe('')
    expect(JSON.parse(readFileSync(`${folder}/plan.fired`, 'utf8')))
      .toMatchObject({ name: 'verify.kept', pid: expect.any(Number) })
  })

  it.each([
    ['without ALLOW_FAILPOINTS, so that one variable cannot kill a production service',
      { FAILPOINTS: 'verify.kept:kill@1', ALLOW_FAILPOINTS: '1' },
      'set ALLOW_FAILPOINTS=true in development'],
    ['of a name that there is not', { FAILPOINTS: 'verify.nowhere:kill@1' },
      '"verify.nowhere:kill@1" is not a valid plan'],
    ['with an invalid plan', { FAILPOINTS: 'verify.kept:die' }, '<failpoint>:kill@<call>'],
  ])('is refused %s', async (_, env, message) => {
    const { passed, errors } = await pass(all, env)
    expect([passed, errors]).toEqual([[], expect.stringContaining(message)])
  })
})
