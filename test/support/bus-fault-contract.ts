import { afterAll, beforeAll, describe } from 'vitest'
import type { FaultLink, FaultWorld, LinkTimes } from './bus-fault-world.ts'

/** Runs a case on a link of its own, which is closed however the case ends. */
export type OnLink = (
  work: (link: FaultLink) => Promise<void>, times?: LinkTimes
) => () => Promise<void>

/**
 * What every adapter of the bus has to stand: answers and requests that get lost, connections that
 * break, brokers that refuse, members that freeze. The cases run beside each other, since most of
 * their time is waiting for a client to notice.
 */
export function describeBusFaults (
  name: string, open: () => Promise<FaultWorld>, describeCases: (onLink: OnLink) => void
): void {
  describe.concurrent(`bus faults: ${name}`, () => {
    const opened: { world?: FaultWorld } = {}
    beforeAll(async () => { opened.world = await open() })
    afterAll(async () => { await opened.world?.close() })
    describeCases((work, times) => async () => {
      if (opened.world === undefined) throw new Error('The world is not open.')
      const link = await opened.world.open(times)
      try {
        await work(link)
      } finally {
        await link.close()
      }
    })
  })
}
