import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { delimiter, join } from 'node:path'
import type { Suite } from '../suites.ts'

export const root = join(import.meta.dirname, '..', '..')

export type Program = Extract<Suite, { readonly kind: 'program' }>
export type Ran = {
  readonly name: string
  readonly isOk: boolean
  readonly output: string
  readonly seconds: number
}

const PATH = [join(root, 'node_modules', '.bin'), process.env['PATH'] ?? ''].join(delimiter)

/**
 * Runs programs side by side, as many as there are cores; calls back as each of them ends. Each
 * promise is one core, which is free for other work when it resolves.
 */
export function runPrograms (
  programs: readonly Program[], onEnd: (ran: Ran) => void
): readonly Promise<void>[] {
  const left = programs.values()
  return Array.from({ length: availableParallelism() }, async () => {
    for (const program of left) onEnd(await runProgram(program))
  })
}

/** A program of the repository; its output is kept, so that two never mix. */
function runProgram ({ name, command: [program = '', ...words] }: Program): Promise<Ran> {
  const startedAt = performance.now()
  const child = spawn(program, words, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, PATH, NODE_NO_WARNINGS: '1' },
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => { output += data.toString() })
  }
  return new Promise(resolve => {
    const end = (isOk: boolean) =>
      resolve({ name, isOk, output, seconds: (performance.now() - startedAt) / 1_000 })
    child.once('error', error => {
      output += error.message
      end(false)
    })
    child.once('close', code => end(code === 0))
  })
}
