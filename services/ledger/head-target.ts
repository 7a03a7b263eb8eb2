import { open } from 'node:fs/promises'
import { InfrastructureError } from '../platform/errors.ts'

/** Stores a line of text; rejects unless it is stored durably. */
export type HeadTarget = (line: string, signal: AbortSignal) => Promise<void>

const TIMEOUT_MS = 30_000

/** Creates a target: appends to the file at an absolute path, or sends POST requests to a URL. */
export function createHeadTarget (target: string): HeadTarget {
  return target.startsWith('/')
    ? line => append(target, line)
    : (line, signal) => post(target, line, signal)
}

/** Appends a line to a file; resolves when it is on disk. */
async function append (path: string, line: string): Promise<void> {
  const file = await open(path, 'a+')
  try {
    const { size } = await file.stat()
    const { buffer } = await file.read(Buffer.alloc(1), 0, 1, Math.max(size - 1, 0))
    // A line that a crash has cut must not corrupt the next one.
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
  if (response.ok) return
  throw new InfrastructureError(`JOURNAL_HEAD_TARGET responded with status ${response.status}: ` +
    'check its URL and write permission')
}
