import { createRequire, syncBuiltinESMExports } from 'node:module'
import type { Loop, Question, Timer } from './loop.ts'

const require = createRequire(import.meta.url)
const crypto = require('node:crypto') as Record<string, unknown>
const timers = require('node:timers/promises') as Record<string, unknown>

type AnyLoop = Pick<Loop<Question>, 'isRunning' | 'nowMs' | 'chance' | 'turn' | 'after' | 'cancel'>
type Callback = (...args: unknown[]) => void
type Options = { readonly signal?: AbortSignal }

/**
 * While the loop runs, time and chance of this process are the loop's: its clock, timers, turns and
 * random bytes. For a process that does nothing but simulate.
 */
export function replaceGlobals (loop: AnyLoop): void {
  const replace = replacer(loop)
  for (const clock of [Date, performance]) replace(clock, { now: () => loop.nowMs() })
  replace(Math, { random: () => loop.chance() })
  replace(globalThis, timersOf(loop))
  const { clearTimeout } = globalThis
  globalThis.clearTimeout = ((handle: unknown) => {
    const timer = simulated.get(handle as object)
    if (timer === undefined) clearTimeout(handle as NodeJS.Timeout)
    else loop.cancel(timer)
  }) as never
  replace(timers, pausesOf(loop))
  const fill = (bytes: Uint8Array) => bytes.map(() => Math.floor(loop.chance() * 256))
  replace(crypto, { randomBytes: (size: number) => Buffer.from(fill(new Uint8Array(size))) })
  replace(globalThis.crypto, {
    getRandomValues: (bytes: Uint8Array) => {
      bytes.set(fill(bytes))
      return bytes
    },
  })
  syncBuiltinESMExports()
}

const timersOf = (loop: AnyLoop) => ({
  setTimeout: (action: Callback, ms = 0, ...args: unknown[]) =>
    handleOf(loop, loop.after(ms, () => action(...args))),
  setImmediate: (action: Callback, ...args: unknown[]) => { loop.turn(() => action(...args)) },
  setInterval: () => {
    throw new Error('an interval would never end: a simulated part must not need one')
  },
})

const pausesOf = (loop: AnyLoop) => ({
  setTimeout: (ms: number, value: unknown, { signal }: Options = {}) =>
    waited(signal, resolve => {
      const timer = loop.after(ms, () => resolve(value))
      return () => loop.cancel(timer)
    }),
  setImmediate: (value: unknown, { signal }: Options = {}) =>
    waited(signal, resolve => {
      loop.turn(() => resolve(value))
      return () => {}
    }),
})

const simulated = new WeakMap<object, Timer>()

/** What `setTimeout` returns; the loop does not wait for one that was unreferenced. */
function handleOf (loop: AnyLoop, timer: Timer): object {
  const hold = (isHeld: boolean) => {
    timer.isHeld = isHeld
    return handle
  }
  const handle = {
    ref: () => hold(true),
    unref: () => hold(false),
    hasRef: () => timer.isHeld,
    [Symbol.dispose]: () => loop.cancel(timer),
  }
  simulated.set(handle, timer)
  return handle
}

type Functions = Readonly<Record<string, unknown>>

/** Puts functions in the place of those of an owner, for as long as the loop runs. */
const replacer = (loop: AnyLoop) => (owner: object, functions: Functions): void => {
  for (const [name, simulatedOne] of Object.entries(functions)) {
    const own = owner as Record<string, (...args: unknown[]) => unknown>
    const real = own[name] as (...args: unknown[]) => unknown
    own[name] = function (this: unknown, ...args) {
      const chosen = loop.isRunning() ? simulatedOne as typeof real : real
      return chosen.apply(this, args)
    }
  }
}

/** A promise of something to come that is called off by the signal. */
function waited (
  signal: AbortSignal | undefined,
  begin: (resolve: (value: unknown) => void) => () => void
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason)
    const callOff = () => {
      cancel()
      reject(new DOMException('The operation was aborted', 'AbortError'))
    }
    const cancel = begin(value => {
      signal?.removeEventListener('abort', callOff)
      resolve(value)
    })
    signal?.addEventListener('abort', callOff, { once: true })
  })
}
