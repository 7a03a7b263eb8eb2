import { open } from 'node:fs/promises'

/** Takes a line of text and keeps it; rejects when that is not certain. */
export type HeadTarget = (line: string, signal: AbortSignal) => Promise<void>

const TIMEOUT_MS = 30_000

/** The target that a setting names: the path of a file, or the address that lines are sent to. */
export function createHeadTarget (target: string): HeadTarget {
  return target.startsWith('/')
    ? line => append(target, line)
    : (line, signal) => post(target, line, signal)
}

/** Adds a line to a file: it is on the disk when this resolves. */
async function append (path: string, line: string): Promise<void> {
  const file = await open(path, 'a+')
  try {
    const { size } = await file.stat()
    const { buffer } = await file.read(Buffer.alloc(1), 0, 1, Math.max(size - 1, 0))
    // What a crash has cut must not spoil the line that follows it.
    const isCut = size > 0 && buffer.toString() !== '\n'
    await file.appendFile(`${isCut ? '\n' : ''}${line}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
}

async function post (url: string, body: string, signal: AbortSignal): Promise<void> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
    redirect: 'error',
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
  })
  await response.body?.cancel()
  if (!response.ok) throw new Error(`the receiver of the journal head answered ${response.status}`)
}
