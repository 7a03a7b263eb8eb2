import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { run } from '../../../services/platform/run.ts'
import { MESSAGE_KEY_ENV } from '../../support/signed.ts'

const lib = new URL('../../../services/platform/', import.meta.url).href
const service = `
  import { commonConfig, defineConfig, pick } from '${lib}config.ts'
  import { run } from '${lib}run.ts'
  const schema = defineConfig(pick(commonConfig, ['KAFKA_BROKERS', 'REDIS_STATE_URL']))
  await run('sample', schema, async (config, life) => {
    life.onStop(() => console.log('closed first part'))
    life.onStop(() => { throw new Error('does not close') })
    life.onStop(() => console.log('closed last part'))
    if (process.env.FAULT === 'start') throw new TypeError('cannot start')
    if (process.env.FAULT === 'later') Promise.reject(new TypeError('unhandled'))
    console.log('up with ' + config.KAFKA_BROKERS)
    return { ready: () => true, stop: async () => { console.log('stopped') } }
  })
`
const env = {
  ...MESSAGE_KEY_ENV,
  KAFKA_BROKERS: 'a:1',
  REDIS_STATE_URL: 'redis://a',
  LOG_LEVEL: 'silent',
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
}

async function outcomeOf (
  more: Record<string, string>, args: readonly string[] = [], signal?: NodeJS.Signals
) {
  const child = spawn(process.execPath, ['--input-type=module', '-e', service, '--', ...args], {
    env: { ...env, ...more }, stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [output, errors] = ['', '']
  child.stderr.on('data', data => { errors += String(data) })
  child.stdout.on('data', data => {
    output += String(data)
    if (output.includes('up with') && signal !== undefined) child.kill(signal)
  })
  const [exitCode] = await once(child, 'close') as [number]
  return { exitCode, output: output.split('\n').filter(line => line !== ''), errors }
}

it('run takes a name, a schema and a start function', () => {
  expect(run).toHaveLength(3)
})

describe('a service', () => {
  it('stops in reverse order at SIGTERM', async () => {
    expect(await outcomeOf({}, [], 'SIGTERM')).toEqual({
      exitCode: 0,
      output: ['up with a:1', 'stopped', 'closed last part', 'closed first part'],
      errors: '',
    })
  })

  it('exits with 1 and closes everything if it cannot start', async () => {
    const { exitCode, output } = await outcomeOf({ FAULT: 'start' })
    expect([exitCode, output]).toEqual([1, ['closed last part', 'closed first part']])
  })

  it('exits with 1 after an unhandled rejection', async () => {
    expect((await outcomeOf({ FAULT: 'later' })).exitCode).toBe(1)
  })

  it('does not start with an invalid configuration, and reports all faults', async () => {
    const faulty = { KAFKA_BROKERS: '', REDIS_STATE_URL: 'x' }
    const { exitCode, output, errors } = await outcomeOf(faulty)
    expect({ exitCode, output }).toEqual({ exitCode: 1, output: [] })
    expect(errors).toMatch(/^sample: Invalid configuration:\n- KAFKA_BROKERS /)
    expect(errors).toMatch(/\n- REDIS_STATE_URL /)
  })

  it('only checks the configuration with --validate', async () => {
    expect(await outcomeOf({}, ['--validate']))
      .toEqual({ exitCode: 0, output: ['sample: the configuration is valid'], errors: '' })
  })
})
