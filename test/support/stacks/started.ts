import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { root } from '../sources.ts'

/** Where commands are found, and where Node keeps what it compiled. */
const { PATH, NODE_COMPILE_CACHE } = process.env

export type Started = {
  readonly kill: (signal: NodeJS.Signals) => void
  /** The signal that ended it, or null. */
  readonly signal: () => Promise<NodeJS.Signals | null>
  /** All that it wrote, once it has ended. */
  readonly ended: () => Promise<{ readonly code: number, out: string, errors: string }>
  /** The next line it writes; not to be used along with `ended`. */
  readonly line: () => Promise<string>
}

/** A program of the clone, started as a person starts it: at the top, with this environment. */
export function startProgram (
  program: string, words: readonly string[], env: Readonly<Record<string, string>>
): Started {
  const child = spawn(program.startsWith('services/') ? join(root, program) : program, words, {
    cwd: root, env: { PATH, NODE_COMPILE_CACHE, ...env }, stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  const lines = () => createInterface(child.stdout)[Symbol.asyncIterator]()
  let reader: ReturnType<typeof lines> | undefined
  return {
    kill: signal => { child.kill(signal) },
    signal: async () => (await exited)[1],
    ended: async () => {
      const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
      return { code: Number((await exited)[0]), out, errors }
    },
    line: async () => {
      reader ??= lines()
      return String((await reader.next()).value)
    },
  }
}
