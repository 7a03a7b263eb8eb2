import type { Producer } from '../kafka/bus.ts'

type Held = { readonly producer: Producer, sends: number }

const HELD_PRODUCERS = 100

/**
 * A producer for each partner: one sends a single request at a time and repeats it until it is
 * acknowledged, so a partner whose topic is not to be had would keep all others waiting. Beyond
 * the limit those that were not used for longest are closed, unless they are sending.
 */
export function createPartnerProducers (
  open: (partner: string) => Producer, limit = HELD_PRODUCERS
): (partner: string) => Pick<Producer, 'send'> {
  // In the order of their last uses.
  const held = new Map<string, Held>()
  const use = (partner: string): Held => {
    const found = held.get(partner) ?? { producer: open(partner), sends: 0 }
    held.delete(partner)
    held.set(partner, found)
    return found
  }
  const makeRoom = () => {
    const idle = [...held].filter(([, { sends }]) => sends === 0)
    for (const [partner, { producer }] of idle.slice(0, Math.max(0, held.size - limit))) {
      held.delete(partner)
      // There is nothing left to send; a connection that can't be closed is gone.
      producer.close().catch(() => {})
    }
  }
  return partner => ({
    send: async (messages, signal) => {
      const used = use(partner)
      used.sends++
      makeRoom()
      try {
        await used.producer.send(messages, signal)
      } finally {
        used.sends--
      }
    },
  })
}
