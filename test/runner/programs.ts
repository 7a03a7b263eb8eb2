import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
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

/** A program that takes longer shows its lines at once. */
const SHORT_SECONDS = 120

/**
 * A program of the repository. The output of a short one is kept, so that two never mix; each line
 * of a long one, which shows its progress, is printed with its name.
 */
function runProgram ({ name, command, expectedSeconds }: Program): Promise<Ran> {
  const [program = '', ...words] = command
  const startedAt = performance.now()
  const child = spawn(program, words, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, PATH, NODE_NO_WARNINGS: '1' },
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', line => {
      if (expectedSeconds > SHORT_SECONDS) console.log(`${name}: ${line}`)
      else output += `${line}\n`
    })
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
