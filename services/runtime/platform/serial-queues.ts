/** Runs actions of the same name one at a time, in order. */
export function createSerialQueues () {
  const last = new Map<string, Promise<unknown>>()
  const take = async <T>(name: string, action: () => Promise<T>): Promise<T> => {
    const before = last.get(name) ?? Promise.resolve()
    // A failure rejects only the caller of that action.
    const mine = before.catch(() => {}).then(action)
    last.set(name, mine)
    try {
      return await mine
    } finally {
      if (last.get(name) === mine) last.delete(name)
    }
  }
  return { take }
}
