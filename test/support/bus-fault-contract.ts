import { afterAll, beforeAll, describe } from 'vitest'
import { describeGroupFaults } from './bus-fault-groups.ts'
import { describeReadingFaults } from './bus-fault-reading.ts'
import { describeSendingFaults } from './bus-fault-sending.ts'
import type { FaultLink, FaultWorld } from './bus-fault-world.ts'

/** Runs a case on a link of its own, which is closed however the case ends. */
export type OnLink = (work: (link: FaultLink) => Promise<void>) => () => Promise<void>

/**
 * What every adapter of the bus has to stand: answers and requests that get lost, connections that
 * break, brokers that refuse, members that freeze. The cases run beside each other, since most of
 * their time is waiting for a client to notice.
 */
export function describeBusFaults (name: string, open: () => Promise<FaultWorld>): void {
  describe.concurrent(`bus faults: ${name}`, { timeout: 60_000 }, () => {
    const opened: { world?: FaultWorld } = {}
    beforeAll(async () => { opened.world = await open() })
    afterAll(async () => { await opened.world?.close() })
    const onLink: OnLink = work => async () => {
      if (opened.world === undefined) throw new Error('The world is not open.')
      const link = await opened.world.open()
      try {
        await work(link)
      } finally {
        await link.close()
      }
    }
    describeSendingFaults(onLink)
    describeReadingFaults(onLink)
    describeGroupFaults(onLink)
  })
}
