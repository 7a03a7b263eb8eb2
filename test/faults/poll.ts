import { setTimeout as sleep } from 'node:timers/promises'

/** What is found, looked for again and again; undefined when the time is over before. */
export async function poll<T> (
  find: () => T | undefined | Promise<T | undefined>, withinMs: number, everyMs = 20
): Promise<T | undefined> {
  for (const giveUpAt = Date.now() + withinMs; Date.now() < giveUpAt; await sleep(everyMs)) {
    const found = await find()
    if (found !== undefined) return found
  }
  return undefined
}
