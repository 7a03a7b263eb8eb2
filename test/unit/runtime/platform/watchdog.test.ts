import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'

/** Imported by the programs that it watches. */
const module = new URL('../../../../services/runtime/platform/watchdog.ts', import.meta.url).href

/** Runs a program under a watchdog of 400 ms; how it ended, and what it said. */
async function run (program: string) {
  const child = spawn(process.execPath, ['--input-type=module', '--eval',
    `import { startWatchdog } from '${module}'\nstartWatchdog(400)\n${program}`])
  const errors = text(child.stderr)
  const [code, signal] = await once(child, 'exit') as [number | null, string | null]
  return { code, signal, errors: await errors }
}

it('the watchdog kills a process whose event loop is frozen, and says so', async () => {
  const { signal, errors } = await run('for (;;);')
  expect(signal).toBe('SIGKILL')
  expect(JSON.parse(errors)).toMatchObject({
    level: 'fatal', msg: 'event loop frozen, killing the process', frozenMs: 400,
  })
})

it('the watchdog lets a process be that waits, is busy in slices, or ends', async () => {
  const busy = `
    import { setImmediate } from 'node:timers/promises'
    const endMs = Date.now() + 1_200
    while (Date.now() < endMs) {
      const sliceMs = Date.now() + 20
      while (Date.now() < sliceMs);
      await setImmediate()
    }
    setTimeout(() => process.exit(3), 1_200)`
  expect(await run(busy)).toEqual({ code: 3, signal: null, errors: '' })
  expect(await run('')).toEqual({ code: 0, signal: null, errors: '' })
})
