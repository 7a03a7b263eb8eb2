import { fork } from 'node:child_process'
import { endChild } from './processes.ts'

export type SecureChild<News> = {
  readonly news: readonly News[]
  /** Entries of its log. */
  readonly log: readonly Readonly<Record<string, unknown>>[]
  readonly exitCode: () => number | null
  readonly stop: () => Promise<void>
}

/** Starts a program of this folder that sends news, with nothing but `env` and the path. */
export function startSecureChild<News> (
  program: string, env: Readonly<Record<string, string>>
): SecureChild<News> {
  const child = fork(`${import.meta.dirname}/${program}`, {
    env: { PATH: process.env['PATH'], ...env }, stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const news: News[] = []
  const log: Record<string, unknown>[] = []
  child.on('message', message => { news.push(message as News) })
  for (const stream of [child.stdout, child.stderr]) {
    let rest = ''
    stream?.setEncoding('utf8').on('data', (text: string) => {
      const lines = `${rest}${text}`.split('\n')
      rest = lines.pop() ?? ''
      log.push(...lines.map(entryOf))
    })
  }
  return {
    news,
    log,
    exitCode: () => child.exitCode,
    stop: () => endChild(child),
  }
}

function entryOf (line: string): Record<string, unknown> {
  try {
    return JSON.parse(line) as Record<string, unknown>
  } catch {
    return { msg: line }
  }
}
