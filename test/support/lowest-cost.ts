const MAX_ROUNDS = 6

/**
 * The CPU time that something takes. Noise only adds to it, such as code that is not compiled yet
 * on a busy machine: it is measured until it is at most `enough`, or `rounds` times, and the lowest
 * counts. `measure` gets the number of the round, from 0.
 */
export async function lowestCost (
  measure: (round: number) => Promise<number>, enough: number, rounds = MAX_ROUNDS
): Promise<number> {
  let lowest = Infinity
  for (let round = 0; round < rounds && lowest > enough; round++) {
    lowest = Math.min(lowest, await measure(round))
  }
  return lowest
}
