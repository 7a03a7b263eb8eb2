import type { Producer } from '../kafka/bus.ts'

type Used = { readonly producer: Producer, sends: number }

const MAX_PRODUCERS = 100

/**
 * Keeps one producer per partner. A producer sends one request at a time and retries it until it is
 * acknowledged, so a shared one would block on an unavailable topic. Beyond the limit the least
 * recently used idle producers are closed.
 */
export function createPartnerProducers (
  open: (partner: string) => Producer, limit = MAX_PRODUCERS
): (partner: string) => Pick<Producer, 'send'> {
  // Least recently used first.
  const producers = new Map<string, Used>()
  const use = (partner: string): Used => {
    const found = producers.get(partner) ?? { producer: open(partner), sends: 0 }
    producers.delete(partner)
    producers.set(partner, found)
    return found
  }
  const closeIdle = () => {
    const idle = [...producers].filter(([, { sends }]) => sends === 0)
    for (const [partner, { producer }] of idle.slice(0, Math.max(0, producers.size - limit))) {
      producers.delete(partner)
      // An idle producer has nothing left to send, so a failure to close it is harmless.
      producer.close().catch(() => {})
    }
  }
  return partner => ({
    send: async (messages, signal) => {
      const used = use(partner)
      used.sends++
      closeIdle()
      try {
        await used.producer.send(messages, signal)
      } finally {
        used.sends--
      }
    },
  })
}
