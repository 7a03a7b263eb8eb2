import { afterAll } from 'vitest'

type Closable = Partial<Record<'stop' | 'close' | 'disconnect', () => unknown>>

/** Ends what a test file has opened along with the file; what was opened last ends first. */
export function closeAfterAll<T extends Closable> (opened: T): T {
  afterAll(async () => { await (opened.stop ?? opened.close ?? opened.disconnect)?.call(opened) })
  return opened
}
