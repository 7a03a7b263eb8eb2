import { afterAll, beforeAll, describe } from 'vitest'
import type { FaultLink, FaultEnvironment, LinkTimes } from './bus-fault-environment.ts'

/** Runs a case on a link of its own, which is closed however the case ends. */
export type OnLink = (
  work: (link: FaultLink) => Promise<void>, times?: LinkTimes
) => () => Promise<void>

/**
 * What every adapter of the bus has to stand: answers and requests that get lost, connections that
 * break, brokers that refuse, members that freeze. The cases run in parallel, since most of
 * their time is waiting for a client to notice.
 */
export function describeBusFaults (
  name: string, open: () => Promise<FaultEnvironment>, describeCases: (onLink: OnLink) => void
): void {
  describe.concurrent(`bus faults: ${name}`, () => {
    const opened: { environment?: FaultEnvironment } = {}
    beforeAll(async () => { opened.environment = await open() })
    afterAll(async () => { await opened.environment?.close() })
    describeCases((work, times) => async () => {
      if (opened.environment === undefined) throw new Error('The environment is not open.')
      const link = await opened.environment.open(times)
      try {
        await work(link)
      } finally {
        await link.close()
      }
    })
  })
}
